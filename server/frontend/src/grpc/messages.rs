//! Messages of unary calls other than inference, and the models that they name.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use prost::Message;

use crate::grpc::{PREFIX, body::Encoded, context::Context};
use inference::error::Error;
use serving::ServedModel;

/// Bytes of memory that a byte of a message takes at most: two bytes may stand for the configuration of a model, in a
/// list that has room for twice as many.
const EXPANDED: usize = 256;

/// Bytes of memory that the message of a call without data takes at most when it is decoded.
pub fn bound(message: &[u8]) -> usize {
    message.len().saturating_mul(EXPANDED)
}

/// Decodes a message.
pub fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Error> {
    M::decode(bytes).map_err(|error| {
        let name = std::any::type_name::<M>().rsplit("::").next().unwrap_or_default();
        Error::InvalidRequest(format!("the message is no {name}: {error}"))
    })
}

/// Encodes a message in one piece.
pub fn encode(message: &impl Message) -> Encoded {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    // These messages are far below the limit of the prefix.
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut bytes);
    Encoded { pieces: [Bytes::from(bytes)].into(), ..Encoded::default() }
}

/// The model of that name and version. Where models are loaded on demand, it is loaded for this. An empty version
/// stands for the highest that is ready.
pub async fn find(context: &Context, name: &str, version: &str) -> Result<Arc<ServedModel>, Error> {
    let serving = &context.front.serving;
    let deadline = || Ok(serving.deadline(context.timeout));
    serving.model(name, self::version(version)?, deadline).await
}

/// The number of a version; `None` for the highest.
///
/// # Errors
/// [`Error::InvalidRequest`] for a version that is not a number.
pub fn version(text: &str) -> Result<Option<u64>, Error> {
    let digits = text.bytes().all(|it| it.is_ascii_digit());
    match text.parse() {
        _ if text.is_empty() => Ok(None),
        Ok(version) if digits => Ok(Some(version)),
        _ => {
            let shown: String = text.chars().take(40).collect();
            let expected = "expected a whole number, or nothing for the highest";
            Err(Error::InvalidRequest(format!("version: {expected}, given '{shown}'")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto::tensorflow::serving::{
        GetModelMetadataRequest, ModelConfig, ModelConfigList,
    };

    #[test]
    fn a_message_of_two_bytes_for_each_part_has_its_room() {
        let message = [0x0a, 0].repeat(5_000);
        let room = bound(&message);
        let list: ModelConfigList = decode(message.into()).unwrap();
        assert_eq!(list.config.len(), 5_000);
        // While the list grows there is the one before it, half as long.
        let used = list.config.capacity() * size_of::<ModelConfig>() * 3 / 2;
        assert!(used <= room, "{used} {room}");
        let message = [0x12, 0].repeat(5_000);
        let request: GetModelMetadataRequest = decode(message.into()).unwrap();
        assert_eq!(request.metadata_field.len(), 5_000);
        assert!(request.metadata_field.capacity() * size_of::<String>() * 3 / 2 <= room);
    }
}

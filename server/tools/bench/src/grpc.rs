//! KServe v2 over gRPC: the message of an inference (protocol buffers, by hand), and what its reply says.

use crate::{DataType, Error, Input, Method, Request};

/// The path of unary inference.
const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Lengths and numbers in protocol buffers have a wire type behind the field's number.
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

/// `ModelInfer` with the inputs' data as raw contents.
///
/// # Errors
/// Never, as of now; as for the other formats.
pub fn kserve_grpc(model: &str, inputs: &[Input]) -> Result<Request, Error> {
    let mut message = Vec::new();
    field(&mut message, 1, model.as_bytes());
    for Input { name, dtype, shape, .. } in inputs {
        let mut tensor = Vec::new();
        field(&mut tensor, 1, name.as_bytes());
        field(&mut tensor, 2, dtype.name().as_bytes());
        let mut dims = Vec::new();
        shape.iter().for_each(|it| varint(&mut dims, *it as u64));
        field(&mut tensor, 3, &dims);
        field(&mut message, 5, &tensor);
    }
    inputs.iter().for_each(|it| field(&mut message, 7, &it.data));
    // Not compressed, and so long.
    let length = u32::try_from(message.len());
    let length =
        length.map_err(|_| Error::Request("more than 4 GiB for one message".to_owned()))?;
    let body = [&[0], &length.to_be_bytes()[..], &message].concat();
    Ok(Request::new(Method::Post, MODEL_INFER)?.grpc(body))
}

/// The raw contents of the outputs in the body of a reply to [`kserve_grpc`]; none where it is no such reply.
pub fn grpc_raw_outputs(body: &[u8]) -> Vec<&[u8]> {
    let contents = texts(body.get(5..).unwrap_or_default());
    contents.into_iter().flatten().filter(|it| it.0 == 6).map(|it| it.1).collect()
}

/// What such a reply says of an output.
#[derive(Debug, PartialEq)]
pub(crate) struct DescribedOutput<'a> {
    /// All of it.
    pub(crate) message: &'a [u8],
    pub(crate) name: &'a str,
    pub(crate) dtype: DataType,
}

/// What describes the outputs there; `None` where it is no such reply.
pub(crate) fn described_outputs(body: &[u8]) -> Option<Vec<DescribedOutput<'_>>> {
    let outputs = texts(body.get(5..)?)?.into_iter().filter(|it| it.0 == 5);
    let described = |(_, message)| {
        let fields = texts(message)?;
        let text = |number| {
            let found = fields.iter().find(|it| it.0 == number)?.1;
            std::str::from_utf8(found).ok()
        };
        let (name, dtype) = (text(1)?, text(2)?.parse().ok()?);
        Some(DescribedOutput { message, name, dtype })
    };
    outputs.map(described).collect()
}

/// The fields of a message that have a length, with their numbers; `None` where it is no message.
fn texts(mut message: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = read_varint(&mut message)?;
        match key & 7 {
            VARINT => {
                read_varint(&mut message)?;
            }
            LENGTH => {
                let length = usize::try_from(read_varint(&mut message)?).ok()?;
                found.push((key >> 3, message.split_off(..length)?));
            }
            _ => return None,
        }
    }
    Some(found)
}

/// The HTTP status that says what this code of gRPC does.
pub(crate) fn http_status(code: Option<u32>) -> u16 {
    match code {
        Some(0) => 200,
        Some(3 | 6 | 9 | 11) => 400,
        Some(16) => 401,
        Some(7) => 403,
        Some(5) => 404,
        Some(1) => 499,
        Some(12) => 501,
        Some(8 | 14) => 503,
        Some(4) => 504,
        _ => 500,
    }
}

fn field(out: &mut Vec<u8>, number: u64, content: &[u8]) {
    varint(out, number << 3 | LENGTH);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = u64::from(*from.split_off_first()?);
        value |= (byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inference_is_the_bytes_that_protocol_buffers_make_of_it() {
        let input = Input::raw("x", DataType::Uint8, &[1, 300], vec![7; 300]).unwrap();
        let request = kserve_grpc("m", &[input]).unwrap();
        let (head, message) = request.call("http", "h:1");
        let block = String::from_utf8_lossy(&head);
        assert!(block.contains(":path") && block.contains("ModelInfer"), "{block}");
        let mut expected =
            b"\0\0\0\x01\x43\x0a\x01m\x2a\x0f\x0a\x01x\x12\x05UINT8\x1a\x03\x01\xac\x02".to_vec();
        expected.extend_from_slice(b"\x3a\xac\x02");
        expected.extend_from_slice(&[7; 300]);
        assert_eq!(message, expected);
    }

    #[test]
    fn the_raw_contents_of_a_reply_are_found_between_its_other_fields() {
        let reply = b"\0\0\0\0\0\x0a\x01m\x20\x05\x32\x02ab\x32\0";
        assert_eq!(grpc_raw_outputs(reply), [&b"ab"[..], b""]);
        assert_eq!(grpc_raw_outputs(b"\0\0\0\0\0\x32\x09ab"), [b""; 0]);
        assert_eq!(grpc_raw_outputs(b""), [b""; 0]);
        let message = b"\x0a\x01y\x12\x04FP32\x1a\x01\x02";
        let reply = [b"\0\0\0\0\0\x2a\x0c", &message[..]].concat();
        let described = DescribedOutput { message, name: "y", dtype: DataType::Fp32 };
        assert_eq!(described_outputs(&reply), Some(vec![described]));
        assert_eq!(described_outputs(b"\0\0\0\0\0\x2a\x0c"), None);
    }
}

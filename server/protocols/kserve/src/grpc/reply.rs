//! Encodes responses to inference as pieces of a message, in order. Outputs are passed on as they are: a large one is
//! neither copied nor joined. Outputs in shared memory are named, not written. Pure.

use std::{borrow::Cow, collections::VecDeque};

use backend::{NamedTensor, Parameter, Tensor};
use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use smallvec::SmallVec;

use super::request::{Form, Forms};
use formats::{
    kserve_v2::{
        RegionPart,
        classify::{self, classify},
    },
    number::{Number, ROOM},
};
use frontend::grpc::{
    PREFIX,
    pieces::{MOST, Pieces, SMALL, bytes, field, text},
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};

/// The message that holds the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// `ModelInferResponse`.
    Unary,
    /// `ModelStreamInferResponse`, marked as the last response to its request.
    Stream,
    /// The same, marked as one that is not the last.
    Part,
}

/// Encodes `response` with the prefix of the message. `forms` are the forms of outputs that the request names.
///
/// # Errors
/// [`Error::InvalidRequest`] where an output cannot be classified, and where the message is too large.
pub fn encode(
    response: &InferenceResponse,
    forms: &Forms,
    signature: &Signature,
    frame: Frame,
    grant: &Grant,
) -> Result<VecDeque<Bytes>, Error> {
    grant.take(|loose| bound(response, forms, signature, loose))?;
    let small = |it: &NamedTensor| Some(it.tensor.byte_len()).filter(|it| *it <= SMALL);
    let room = |it: &NamedTensor| OF_OUTPUT + it.name.len() + small(it).unwrap_or(0);
    let outputs = response.outputs.iter().map(room).sum::<usize>();
    let mut head = Vec::with_capacity(LEAD + OF_OUTPUT + response.model.len() + outputs);
    head.resize(LEAD, 0);
    text(&mut head, 1, &response.model);
    let mut version = [0; ROOM];
    let length = response.version.put(&mut version);
    bytes(&mut head, 2, version.get(..length).unwrap_or_default());
    if let Some(id) = &response.id {
        text(&mut head, 3, id);
    }
    for (name, value) in &response.parameters {
        said(&mut head, name, value);
    }
    match frame {
        Frame::Unary => {}
        Frame::Stream => parameter(&mut head, 4, "triton_final_response", 1, 1),
        Frame::Part => parameter(&mut head, 4, "triton_final_response", 1, 0),
    }
    let mut raw: SmallVec<[Option<Cow<'_, Tensor>>; 2]> = SmallVec::new();
    for NamedTensor { name, tensor } in &response.outputs {
        let form = forms.iter().find(|(it, _)| it == name).map(|(_, form)| form);
        let classes = match form {
            Some(Form::Classes(count)) => Some(classified(signature, name, tensor, *count)?),
            _ => None,
        };
        let tensor = classes.map_or(Cow::Borrowed(tensor), Cow::Owned);
        let part = match form {
            Some(Form::Shared(part)) => Some(part),
            _ => None,
        };
        output(&mut head, name, &tensor, part);
        // Bytes that lie in shared memory already are not written.
        raw.push(part.is_none().then_some(tensor));
    }
    let written = |it: &Option<Cow<'_, Tensor>>| it.as_ref().map_or(0, |it| it.byte_len());
    let tensors: usize = raw.iter().map(|it| field(written(it))).sum();
    let length = head.len() - LEAD + tensors;
    let (message, nested) = match frame {
        Frame::Unary => (length, None),
        Frame::Stream | Frame::Part => (field(length), Some(length)),
    };
    if MOST < message {
        let problem = format!(
            "the response of {message} bytes is larger than a message may be ({MOST} bytes)"
        );
        return Err(Error::InvalidRequest(problem));
    }
    let unused = lead(&mut head, message, nested);
    let mut pieces = Pieces::starting_with(head);
    for tensor in &raw {
        encode_key(6, WireType::LengthDelimited, pieces.open());
        encode_varint(written(tensor) as u64, pieces.open());
        for segment in tensor.iter().flat_map(|it| it.segments()) {
            pieces.push_copy(segment);
        }
    }
    let mut pieces = pieces.finish();
    if let Some(first) = pieces.front_mut() {
        first.advance(unused);
    }
    Ok(pieces)
}

/// Room for the prefix of a message, and for the key and the length of a response inside another message.
const LEAD: usize = PREFIX + 11;

/// About the bytes of an output beside its name and its data.
const OF_OUTPUT: usize = 64;

/// Writes the prefix in front of a message of so many bytes, behind the first bytes of `head`, of which so many stay
/// unused: that number is returned. `nested` is the length of a response inside the message.
fn lead(head: &mut [u8], message: usize, nested: Option<usize>) -> usize {
    let mut lead = [0; LEAD];
    let mut rest = &mut lead[..];
    rest.put_u8(0);
    // The length is at most MOST, so it fits.
    rest.put_u32(message as u32);
    if let Some(length) = nested {
        encode_key(2, WireType::LengthDelimited, &mut rest);
        encode_varint(length as u64, &mut rest);
    }
    let unused = rest.len();
    if let Some(place) = head.get_mut(unused..LEAD) {
        place.copy_from_slice(&lead[..LEAD - unused]);
    }
    unused
}

/// A parameter that the model has given.
fn said(head: &mut Vec<u8>, name: &str, value: &Parameter) {
    match value {
        Parameter::Bool(value) => parameter(head, 4, name, 1, u64::from(*value)),
        Parameter::Int(value) => parameter(head, 4, name, 2, value.cast_unsigned()),
        Parameter::Text(value) => parameter_text(head, 4, name, value),
        Parameter::Double(value) => {
            let mut inner = Vec::with_capacity(9);
            encode_key(4, WireType::SixtyFourBit, &mut inner);
            inner.extend_from_slice(&value.to_le_bytes());
            entry(head, 4, name, &inner);
        }
    }
}

/// Bytes that [`encode`] takes at most beside the outputs. An estimate of up to `loose` bytes may be rough.
fn bound(
    response: &InferenceResponse,
    forms: &Forms,
    signature: &Signature,
    loose: usize,
) -> usize {
    let classes = response.outputs.iter().filter_map(|NamedTensor { name, tensor }| {
        let classes = forms.iter().find(|it| it.0 == *name)?.1.classes()?;
        let labels = signature.output(name).map(|it| &*it.labels).unwrap_or_default();
        Some(classify::bound(tensor, signature.batches(), classes, labels, loose))
    });
    let said = response.parameters.iter().map(|(name, value)| match value {
        Parameter::Text(value) => name.len() + value.len() + 32,
        Parameter::Bool(_) | Parameter::Int(_) | Parameter::Double(_) => name.len() + 32,
    });
    classes.chain(said).fold(0, usize::saturating_add)
}

/// The classes with the highest values of an output.
fn classified(
    signature: &Signature,
    name: &str,
    tensor: &Tensor,
    classes: usize,
) -> Result<Tensor, Error> {
    let labels = signature.output(name).map(|it| &*it.labels).unwrap_or_default();
    let classes = classify(tensor, signature.batches(), classes, labels);
    classes.map_err(|problem| {
        Error::InvalidRequest(format!("model '{}', output '{name}': {problem}", signature.model))
    })
}

/// An `InferOutputTensor`.
fn output(head: &mut Vec<u8>, name: &str, tensor: &Tensor, part: Option<&RegionPart>) {
    let dims = tensor.shape().dims();
    let shape: usize = dims.iter().map(|&it| encoded_len_varint(it as u64)).sum();
    let mut places = Vec::new();
    if let Some(part) = part {
        parameter_text(&mut places, 4, "shared_memory_region", &part.region);
        parameter(&mut places, 4, "shared_memory_byte_size", 2, tensor.byte_len() as u64);
        if 0 < part.offset {
            parameter(&mut places, 4, "shared_memory_offset", 2, part.offset);
        }
    }
    let datatype = tensor.dtype().name();
    let packed = if dims.is_empty() { 0 } else { field(shape) };
    let length = field(name.len()) + field(datatype.len()) + packed + places.len();
    encode_key(5, WireType::LengthDelimited, head);
    encode_varint(length as u64, head);
    text(head, 1, name);
    text(head, 2, datatype);
    if !dims.is_empty() {
        encode_key(3, WireType::LengthDelimited, head);
        encode_varint(shape as u64, head);
        dims.iter().for_each(|&it| encode_varint(it as u64, head));
    }
    head.extend_from_slice(&places);
}

/// A map entry for a parameter with a number in the field `choice`.
fn parameter(out: &mut Vec<u8>, number: u32, key: &str, choice: u32, value: u64) {
    let mut inner = Vec::with_capacity(12);
    encode_key(choice, WireType::Varint, &mut inner);
    encode_varint(value, &mut inner);
    entry(out, number, key, &inner);
}

/// A map entry for a parameter with a text.
fn parameter_text(out: &mut Vec<u8>, number: u32, key: &str, value: &str) {
    let mut inner = Vec::with_capacity(value.len() + 6);
    text(&mut inner, 3, value);
    entry(out, number, key, &inner);
}

fn entry(out: &mut Vec<u8>, number: u32, key: &str, value: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint((field(key.len()) + field(value.len())) as u64, out);
    text(out, 1, key);
    bytes(out, 2, value);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backend::Shape;
    use prost::Message;

    use super::*;
    use frontend::grpc::proto::{ModelInferResponse, ModelStreamInferResponse};
    use inference::signature::Port;

    fn encode(
        response: &InferenceResponse,
        forms: &Forms,
        signature: &Signature,
        frame: Frame,
    ) -> Result<VecDeque<Bytes>, Error> {
        super::encode(response, forms, signature, frame, &Grant::all(0))
    }

    fn signature(labels: &[&str]) -> Signature {
        let port = Port {
            name: "y".into(),
            dtype: backend::DataType::Fp32,
            dims: vec![None],
            any_rank: false,
            scalar: false,
            optional: false,
            labels: labels.iter().map(|it| (*it).to_owned()).collect(),
            text_codes: Default::default(),
        };
        Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "m".into(),
            version: 3,
            max_batch_size: 8,
            most_rows: None,
            inputs: vec![],
            outputs: vec![port],
            on_request: Vec::new(),
            pipeline: None,
        }
    }

    fn response(tensors: Vec<Tensor>) -> InferenceResponse {
        let named = |tensor| NamedTensor { name: "y".into(), tensor };
        InferenceResponse {
            model: "m".into(),
            version: 3,
            id: Some(Arc::from("7")),
            rows: None,
            outputs: tensors.into_iter().map(named).collect(),
            timings: None,
            parameters: Vec::new(),
        }
    }

    /// Decodes the message behind the prefix, and checks the length in the prefix.
    #[track_caller]
    fn message(pieces: &VecDeque<Bytes>) -> Vec<u8> {
        let mut all = pieces.iter().flatten().copied().collect::<Vec<u8>>();
        let message = all.split_off(PREFIX);
        assert_eq!(all[0], 0);
        assert_eq!(all[1..], u32::try_from(message.len()).unwrap().to_be_bytes());
        message
    }

    #[test]
    fn what_is_written_by_hand_reads_back_and_large_outputs_are_not_copied() {
        let small = Tensor::from_vec(Shape::new(&[1, 2]), vec![1.0f32, 2.0]).unwrap();
        let large = Tensor::from_vec(Shape::new(&[1, 300]), vec![3.0f32; 300]).unwrap();
        let scattered = Tensor::concat([&small, &small]).unwrap();
        let scalar = Tensor::from_vec(Shape::new(&[]), vec![4.0f32]).unwrap();
        let given = response(vec![small, large.clone(), scattered, scalar]);
        let pieces = encode(&given, &Forms::new(), &signature(&[]), Frame::Unary).unwrap();
        let address = large.segments()[0].as_ptr();
        assert!(pieces.iter().any(|it| it.as_ptr() == address));
        let read = ModelInferResponse::decode(&*message(&pieces)).unwrap();
        assert_eq!((&*read.model_name, &*read.model_version, &*read.id), ("m", "3", "7"));
        let shapes: Vec<_> = read.outputs.iter().map(|it| it.shape.clone()).collect();
        assert_eq!(shapes, [vec![1, 2], vec![1, 300], vec![2, 2], vec![]]);
        for (output, raw) in given.outputs.iter().zip(&read.raw_output_contents) {
            assert_eq!(output.tensor.to_bytes(), *raw);
        }

        let pieces = encode(&given, &Forms::new(), &signature(&[]), Frame::Stream).unwrap();
        let streamed = ModelStreamInferResponse::decode(&*message(&pieces)).unwrap();
        let mut streamed = streamed.infer_response.unwrap();
        assert!(streamed.parameters.remove("triton_final_response").is_some());
        assert_eq!(streamed, read);
    }

    #[test]
    fn classes_take_the_place_of_values() {
        let values = Tensor::from_vec(Shape::new(&[1, 2]), vec![1.0f32, 2.0]).unwrap();
        let forms = vec![("y".into(), Form::Classes(1))];
        let given = response(vec![values]);
        let pieces = encode(&given, &forms, &signature(&["no", "yes"]), Frame::Unary).unwrap();
        let read = ModelInferResponse::decode(&*message(&pieces)).unwrap();
        assert_eq!((&*read.outputs[0].datatype, &*read.outputs[0].shape), ("BYTES", &[1, 1][..]));
        assert_eq!(read.raw_output_contents[0][4..], *b"2.000000:1:yes");
    }
}

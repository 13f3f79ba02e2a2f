//! Encodes a `PredictResponse` in pieces. As from TensorFlow Serving, elements are in the lists of their types, which
//! clients read directly. Floats, doubles and booleans have the same bytes in these lists as in memory, and are
//! passed on without a copy.

use std::collections::VecDeque;

use backend::{DataType, NamedTensor, Tensor};
use bytes::{BufMut, Bytes};
use half::{bf16, f16};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use smallvec::SmallVec;

use super::spec;
use formats::tfs::types;
use frontend::grpc::{
    PREFIX,
    pieces::{MOST, Pieces, SMALL, field, text},
};
use inference::{error::Error, request::InferenceResponse, signature::Signature};

/// Bytes of the response's outputs that are passed on as they are. The others have to be encoded.
pub fn raw_bytes(response: &InferenceResponse) -> usize {
    let raw = response.outputs.iter().filter(|it| raw_list(it.tensor.dtype()).is_some());
    raw.map(|it| it.tensor.byte_len()).sum()
}

/// Bytes of memory that [`encode`] takes at most, besides the outputs: a varint has up to ten bytes, and the bytes of
/// several segments are joined.
pub fn bound(response: &InferenceResponse) -> usize {
    const VARINT: usize = 10;
    let encoded = response.outputs.iter().map(|it| &it.tensor);
    let encoded = encoded.filter(|it| raw_list(it.dtype()).is_none()).map(|it| match it.dtype() {
        DataType::Bytes => it.byte_len().saturating_mul(3),
        _ => it.byte_len().saturating_add(it.elements().saturating_mul(VARINT)),
    });
    encoded.fold(0, usize::saturating_add)
}

/// The list of a type whose encoding has the same bytes as memory; `None` for the other types.
fn raw_list(dtype: DataType) -> Option<u32> {
    match dtype {
        DataType::Fp32 => Some(5),
        DataType::Fp64 => Some(6),
        DataType::Bool => Some(11),
        _ => None,
    }
}

/// The elements of an output, as the message has them.
struct Elements {
    /// The field number of their packed list; `None` where each element has a key of its own.
    list: Option<u32>,
    pieces: SmallVec<[Bytes; 1]>,
    /// Bytes of the pieces.
    length: usize,
}

impl Elements {
    fn of(tensor: &Tensor) -> Elements {
        let dtype = tensor.dtype();
        let (list, pieces) = match raw_list(dtype) {
            Some(list) => (Some(list), tensor.segments().iter().cloned().collect()),
            None => {
                let (list, bytes) = encoded(tensor);
                (list, SmallVec::from_iter([Bytes::from(bytes)]))
            }
        };
        let length = pieces.iter().map(Bytes::len).sum();
        Elements { list, pieces, length }
    }

    /// Bytes of the elements with the key of their list.
    fn whole(&self) -> usize {
        match self.list {
            // An empty list is not written.
            _ if self.length == 0 => 0,
            Some(list) => key_length(list) + encoded_len_varint(self.length as u64) + self.length,
            None => self.length,
        }
    }
}

fn key_length(number: u32) -> usize {
    encoded_len_varint(u64::from(number << 3))
}

/// Elements whose encoding differs from memory, with the number of their list.
fn encoded(tensor: &Tensor) -> (Option<u32>, Vec<u8>) {
    let mut out = Vec::with_capacity(tensor.byte_len());
    let bytes = tensor.to_bytes();
    let list = match tensor.dtype() {
        DataType::Uint8 => varints(&mut out, &bytes, 7, |it: u8| it.into()),
        DataType::Uint16 => varints(&mut out, &bytes, 7, |it: u16| it.into()),
        // Negative numbers take ten bytes, as always in protobuf.
        DataType::Int8 => varints(&mut out, &bytes, 7, |it: i8| i64::from(it).cast_unsigned()),
        DataType::Int16 => varints(&mut out, &bytes, 7, |it: i16| i64::from(it).cast_unsigned()),
        DataType::Int32 => varints(&mut out, &bytes, 7, |it: i32| i64::from(it).cast_unsigned()),
        DataType::Int64 => varints(&mut out, &bytes, 10, i64::cast_unsigned),
        DataType::Uint32 => varints(&mut out, &bytes, 16, |it: u32| it.into()),
        DataType::Uint64 => varints(&mut out, &bytes, 17, |it: u64| it),
        DataType::Fp16 => varints(&mut out, &bytes, 13, |it: f16| it.to_bits().into()),
        DataType::Bf16 => varints(&mut out, &bytes, 13, |it: bf16| it.to_bits().into()),
        DataType::Bytes => {
            for string in tensor.strings() {
                encode_key(8, WireType::LengthDelimited, &mut out);
                encode_varint(string.len() as u64, &mut out);
                out.extend_from_slice(string);
            }
            return (None, out);
        }
        // `raw_list` passes these types on as they are.
        DataType::Bool | DataType::Fp32 | DataType::Fp64 => return (None, out),
    };
    (Some(list), out)
}

fn varints<T: backend::Element>(
    out: &mut Vec<u8>,
    bytes: &[u8],
    list: u32,
    value: impl Fn(T) -> u64,
) -> u32 {
    for element in bytes.chunks_exact(size_of::<T>()) {
        encode_varint(value(bytemuck::pod_read_unaligned(element)), out);
    }
    list
}

/// Encodes the response with the prefix of its message.
///
/// # Errors
/// [`Error::InvalidRequest`] when the message would be too large.
pub fn encode(
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<VecDeque<Bytes>, Error> {
    let mut spec = Vec::with_capacity(64 + response.model.len());
    spec::write(&mut spec, 2, signature, response);
    let outputs: SmallVec<[(&NamedTensor, Elements); 4]> =
        response.outputs.iter().map(|it| (it, Elements::of(&it.tensor))).collect();
    let lengths: SmallVec<[Lengths; 4]> =
        outputs.iter().map(|(output, elements)| Lengths::of(output, elements)).collect();
    let length = lengths.iter().map(|it| field(it.entry)).sum::<usize>() + spec.len();
    if MOST < length {
        return Err(too_large(length));
    }
    let small = outputs.iter().map(|it| it.1.length).filter(|it| *it <= SMALL).sum::<usize>();
    let heads =
        outputs.iter().map(|it| 64 + it.0.name.len() + 12 * it.0.tensor.shape().dims().len());
    let mut pieces = Pieces::with_capacity(PREFIX + spec.len() + small + heads.sum::<usize>());
    let out = pieces.open();
    out.put_u8(0);
    // The length is at most MOST, so it fits.
    out.put_u32(length as u32);
    for ((NamedTensor { name, tensor }, elements), lengths) in outputs.into_iter().zip(lengths) {
        let out = pieces.open();
        encode_key(1, WireType::LengthDelimited, out);
        encode_varint(lengths.entry as u64, out);
        text(out, 1, name);
        encode_key(2, WireType::LengthDelimited, out);
        encode_varint(lengths.tensor as u64, out);
        encode_key(1, WireType::Varint, out);
        encode_varint(types::number(tensor.dtype()) as u64, out);
        encode_key(2, WireType::LengthDelimited, out);
        encode_varint(lengths.shape as u64, out);
        for &size in tensor.shape().dims() {
            encode_key(2, WireType::LengthDelimited, out);
            encode_varint(dim_length(size) as u64, out);
            encode_key(1, WireType::Varint, out);
            encode_varint(size as u64, out);
        }
        if let Some(list) = elements.list.filter(|_| 0 < elements.length) {
            encode_key(list, WireType::LengthDelimited, out);
            encode_varint(elements.length as u64, out);
        }
        elements.pieces.into_iter().for_each(|it| pieces.push(it));
    }
    pieces.open().extend_from_slice(&spec);
    Ok(pieces.finish())
}

/// Bytes of the nested messages of one output, without their own keys.
struct Lengths {
    entry: usize,
    tensor: usize,
    shape: usize,
}

impl Lengths {
    fn of(output: &NamedTensor, elements: &Elements) -> Lengths {
        let dims = output.tensor.shape().dims().iter();
        let shape = dims.map(|&it| field(dim_length(it))).sum();
        // All numbers of types fit into one byte.
        let tensor = 2 + field(shape) + elements.whole();
        Lengths { entry: field(output.name.len()) + field(tensor), tensor, shape }
    }
}

fn dim_length(size: usize) -> usize {
    1 + encoded_len_varint(size as u64)
}

/// The error of a message of that many bytes.
pub fn too_large(length: usize) -> Error {
    Error::InvalidRequest(format!(
        "the response of {length} bytes is larger than a message may be ({MOST} bytes)"
    ))
}

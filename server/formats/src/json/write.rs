//! JSON out: functions that append to a reply. Compact, without whitespace.

use backend::{DataType, Shape, Tensor};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use half::{bf16, f16};

use super::plain::plain_length;
use crate::number::{Number, ROOM};

/// Appends a key with its colon, behind a comma unless it is the first of its object.
pub fn key(out: &mut Vec<u8>, key: &str) {
    item(out);
    string(out, key);
    out.push(b':');
}

/// Appends a comma unless the next value is the first of its array or object.
pub fn item(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{' | b'[')) {
        out.push(b',');
    }
}

/// Appends a string with its quotes.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_length(rest));
        out.extend_from_slice(plain);
        match special.first() {
            Some(b'"') => out.extend_from_slice(b"\\\""),
            Some(b'\\') => out.extend_from_slice(b"\\\\"),
            Some(b'\n') => out.extend_from_slice(b"\\n"),
            Some(b'\r') => out.extend_from_slice(b"\\r"),
            Some(b'\t') => out.extend_from_slice(b"\\t"),
            Some(other) => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
            None => break,
        }
        rest = special.get(1..).unwrap_or_default();
    }
    out.push(b'"');
}

/// Appends `true` or `false`.
pub fn bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends a number.
pub fn number<T: Number>(out: &mut Vec<u8>, value: T) {
    value.write(out);
}

/// Appends a list of sizes: `[-1,30]` with -1 for `None`.
pub fn dims(out: &mut Vec<u8>, dims: impl IntoIterator<Item = Option<usize>>) {
    out.push(b'[');
    for dim in dims {
        item(out);
        match dim {
            Some(size) => number(out, size as u64),
            None => out.extend_from_slice(b"-1"),
        }
    }
    out.push(b']');
}

/// What becomes of the elements of a BYTES tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BytesAs {
    /// Strings; one that is not UTF-8 is an error.
    Text,
    /// Strings; one that is not UTF-8 becomes `{"b64": "..."}`.
    TextOrBase64,
    /// Always `{"b64": "..."}`.
    Base64,
}

/// Element `.0` of a BYTES tensor is not UTF-8 and may not be written in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotText(pub usize);

/// About as many bytes as the elements of a tensor take as text.
pub fn length(tensor: &Tensor) -> usize {
    match tensor.dtype().size() {
        Some(size) => tensor.elements().saturating_mul(4 + 2 * size),
        None => tensor.byte_len(),
    }
}

/// Bytes that the elements of a tensor take as text at most, a comma behind each. Takes as long as to write them.
pub fn text_length(tensor: &Tensor) -> usize {
    const PART: usize = 4096;
    if tensor.dtype() == DataType::Bytes {
        return tensor.strings().map(string_length).sum();
    }
    let elements = tensor.elements();
    let Some(list) = tensor.reshape(Shape::new(&[elements])) else { return usize::MAX };
    let (mut text, mut sum) = (Vec::new(), 0);
    for start in (0..elements).step_by(PART) {
        text.clear();
        let part = list.slice_rows(start, PART.min(elements - start));
        if part.is_none_or(|it| flat(&mut text, &it, BytesAs::Text).is_err()) {
            return usize::MAX;
        }
        // Two brackets are there, and one comma is not.
        sum += text.len();
    }
    sum
}

/// Bytes of a string with its quotes and a comma: escaped, or as base64 in an object where it is no text.
fn string_length(bytes: &[u8]) -> usize {
    let escaped = bytes.iter().map(|&it| match it {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    });
    3 + escaped.sum::<usize>().max(bytes.len().div_ceil(3) * 4 + 10)
}

/// Appends all elements as one flat array.
///
/// # Errors
/// For BYTES, as `form` says.
pub fn flat(out: &mut Vec<u8>, tensor: &Tensor, form: BytesAs) -> Result<(), NotText> {
    elements(out, tensor, &[tensor.elements()], form)
}

/// Appends the elements as arrays nested by the shape; a scalar without brackets.
///
/// # Errors
/// For BYTES, as `form` says.
pub fn nested(out: &mut Vec<u8>, tensor: &Tensor, form: BytesAs) -> Result<(), NotText> {
    elements(out, tensor, tensor.shape().dims(), form)
}

fn elements(
    out: &mut Vec<u8>,
    tensor: &Tensor,
    dims: &[usize],
    form: BytesAs,
) -> Result<(), NotText> {
    match tensor.dtype() {
        DataType::Bool => {
            let mut bytes = tensor.segments().iter().flat_map(|it| it.iter());
            nest(out, dims, |out, length| {
                list(out, bytes.by_ref().take(length), |out, &it| bool(out, it != 0));
            });
        }
        DataType::Uint8 => numbers::<u8>(out, tensor, dims),
        DataType::Uint16 => numbers::<u16>(out, tensor, dims),
        DataType::Uint32 => numbers::<u32>(out, tensor, dims),
        DataType::Uint64 => numbers::<u64>(out, tensor, dims),
        DataType::Int8 => numbers::<i8>(out, tensor, dims),
        DataType::Int16 => numbers::<i16>(out, tensor, dims),
        DataType::Int32 => numbers::<i32>(out, tensor, dims),
        DataType::Int64 => numbers::<i64>(out, tensor, dims),
        DataType::Fp16 => numbers::<f16>(out, tensor, dims),
        DataType::Bf16 => numbers::<bf16>(out, tensor, dims),
        DataType::Fp32 => numbers::<f32>(out, tensor, dims),
        DataType::Fp64 => doubles(out, tensor, dims),
        DataType::Bytes => return strings(out, tensor, dims, form),
    }
    Ok(())
}

fn numbers<T: Number>(out: &mut Vec<u8>, tensor: &Tensor, dims: &[usize]) {
    out.reserve(length(tensor));
    let mut block = [0; BLOCK];
    if let [only] = tensor.segments() {
        // As nearly always: a slice, over which the loop is a plain one.
        let mut rest: &[u8] = only;
        nest(out, dims, |out, length| {
            let (values, later) = rest.split_at((length * size_of::<T>()).min(rest.len()));
            rest = later;
            let values = values.chunks_exact(size_of::<T>());
            run(out, values.map(bytemuck::pod_read_unaligned::<T>), &mut block);
        });
        return;
    }
    let mut values = tensor.segments().iter().flat_map(|it| it.chunks_exact(size_of::<T>()));
    nest(out, dims, |out, length| {
        let values = values.by_ref().take(length).map(bytemuck::pod_read_unaligned::<T>);
        run(out, values, &mut block);
    });
}

/// Appends a list of numbers.
pub fn numbers_of<T: Number>(out: &mut Vec<u8>, values: impl Iterator<Item = T>) {
    out.push(b'[');
    run(out, values, &mut [0; BLOCK]);
    out.push(b']');
}

/// As [`numbers`], one by one: zmij puts a double together in a buffer of its own.
fn doubles(out: &mut Vec<u8>, tensor: &Tensor, dims: &[usize]) {
    out.reserve(length(tensor));
    let mut values = tensor.segments().iter().flat_map(|it| it.chunks_exact(size_of::<f64>()));
    nest(out, dims, |out, length| {
        let values = values.by_ref().take(length).map(bytemuck::pod_read_unaligned::<f64>);
        list(out, values, |out, value| value.write(out));
    });
}

/// Bytes of text that are put together before they are appended.
const BLOCK: usize = 1024;

/// Appends the numbers with commas between them.
///
/// A number is put where there is room for any, and the next one over what it has not used: that takes fewer
/// steps than to ask a vector for each number's bytes.
#[inline]
fn run<T: Number>(out: &mut Vec<u8>, values: impl Iterator<Item = T>, block: &mut [u8; BLOCK]) {
    let mut end = 0;
    values.for_each(|value| {
        if end > BLOCK - (ROOM + 1) {
            out.extend_from_slice(block.get(..end).unwrap_or_default());
            end = 0;
        }
        if let Some(room) = block.get_mut(end..).and_then(|it| it.first_chunk_mut::<ROOM>()) {
            end += value.put(room);
        }
        if let Some(comma) = block.get_mut(end) {
            *comma = b',';
        }
        end += 1;
    });
    out.extend_from_slice(block.get(..end.saturating_sub(1)).unwrap_or_default());
}

fn strings(
    out: &mut Vec<u8>,
    tensor: &Tensor,
    dims: &[usize],
    form: BytesAs,
) -> Result<(), NotText> {
    let mut strings = tensor.strings().enumerate();
    let mut problem = None;
    nest(out, dims, |out, length| {
        list(out, strings.by_ref().take(length), |out, (index, bytes)| {
            match (form, std::str::from_utf8(bytes)) {
                (BytesAs::Text | BytesAs::TextOrBase64, Ok(text)) => string(out, text),
                (BytesAs::TextOrBase64, Err(_)) | (BytesAs::Base64, _) => base64(out, bytes),
                (BytesAs::Text, Err(_)) => {
                    problem.get_or_insert(NotText(index));
                }
            }
        });
    });
    problem.map_or(Ok(()), Err)
}

/// Appends `{"b64": "..."}`.
fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"{\"b64\":\"");
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let space = out.get_mut(start..).unwrap_or_default();
    // The space is exactly what padded base64 takes.
    let written = STANDARD.encode_slice(bytes, space).unwrap_or_default();
    out.truncate(start + written);
    out.extend_from_slice(b"\"}");
}

/// Appends the values with commas between them.
#[inline]
fn list<V>(
    out: &mut Vec<u8>,
    values: impl Iterator<Item = V>,
    mut write: impl FnMut(&mut Vec<u8>, V),
) {
    let start = out.len();
    values.for_each(|value| {
        write(out, value);
        out.push(b',');
    });
    if out.len() > start {
        out.pop();
    }
}

/// Appends brackets and commas as `dims` nest them; `run` appends the next so many elements.
fn nest(out: &mut Vec<u8>, dims: &[usize], mut run: impl FnMut(&mut Vec<u8>, usize)) {
    // Behind a dimension of size zero nothing is left to nest.
    let zero = dims.iter().position(|&it| it == 0);
    let dims = zero.and_then(|it| dims.get(..=it)).unwrap_or(dims);
    let Some((&length, outer)) = dims.split_last() else {
        run(out, 1);
        return;
    };
    for index in 0..outer.iter().product() {
        if index > 0 {
            out.push(b',');
        }
        out.extend(std::iter::repeat_n(b'[', 1 + ends(outer, index)));
        run(out, length);
        out.extend(std::iter::repeat_n(b']', 1 + ends(outer, index + 1)));
    }
}

/// How many of these dimensions, from the last one on, begin or end in front of this run.
fn ends(outer: &[usize], run: usize) -> usize {
    let mut stride = 1;
    let whole = |&size: &&usize| {
        stride *= size;
        run.is_multiple_of(stride)
    };
    outer.iter().rev().take_while(whole).count()
}

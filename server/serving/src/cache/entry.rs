//! An answer as it is kept: tensors in buffers of their own, and as bytes for a store outside the process. Pure.

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::{Buf, BufMut, Bytes};

/// What every answer in a store begins with: whose it is, and in which form.
const MARK: &[u8] = b"muster\x00\x01";

/// The tensor in one buffer that nothing else lies in.
pub(super) fn copied(output: &NamedTensor) -> NamedTensor {
    let tensor = &output.tensor;
    let bytes = Bytes::from(tensor.segments().concat());
    let (dtype, shape) = (tensor.dtype(), tensor.shape().clone());
    // The same bytes under the same shape.
    let tensor = Tensor::new(dtype, shape, bytes).unwrap_or_else(|_| tensor.clone());
    NamedTensor { name: output.name.clone(), tensor }
}

/// The answer as bytes: the mark, then for each output name, type, dimensions and elements, each with its length in
/// front. Numbers are of 64 bits, the lowest first.
pub(super) fn encode(outputs: &[NamedTensor]) -> Vec<u8> {
    let bytes: usize = outputs.iter().map(|it| it.tensor.byte_len() + it.name.len() + 64).sum();
    let mut text = Vec::with_capacity(MARK.len() + bytes);
    text.put_slice(MARK);
    text.put_u64_le(outputs.len() as u64);
    for NamedTensor { name, tensor } in outputs {
        for part in [name.as_bytes(), tensor.dtype().name().as_bytes()] {
            text.put_u64_le(part.len() as u64);
            text.put_slice(part);
        }
        let dims = tensor.shape().dims();
        text.put_u64_le(dims.len() as u64);
        dims.iter().for_each(|it| text.put_u64_le(*it as u64));
        text.put_u64_le(tensor.byte_len() as u64);
        tensor.segments().iter().for_each(|it| text.put_slice(it));
    }
    text
}

/// The answer that these bytes are; `None` where they are none. The tensors share the buffer.
pub(super) fn decode(mut bytes: Bytes) -> Option<Vec<NamedTensor>> {
    if !bytes.starts_with(MARK) {
        return None;
    }
    bytes.advance(MARK.len());
    let count = number(&mut bytes)?;
    let mut outputs = Vec::new();
    for _ in 0..count {
        let name = part(&mut bytes)?;
        let dtype = part(&mut bytes)?;
        let dtype = DataType::ALL.into_iter().find(|it| it.name().as_bytes() == &*dtype)?;
        let rank = number(&mut bytes)?;
        let dims: Vec<usize> = (0..rank).map(|_| number(&mut bytes)).collect::<Option<_>>()?;
        let tensor = Tensor::new(dtype, Shape::new(&dims), part(&mut bytes)?).ok()?;
        let name = std::str::from_utf8(&name).ok()?.into();
        outputs.push(NamedTensor { name, tensor });
    }
    bytes.is_empty().then_some(outputs)
}

fn number(bytes: &mut Bytes) -> Option<usize> {
    usize::try_from(bytes.try_get_u64_le().ok()?).ok()
}

fn part(bytes: &mut Bytes) -> Option<Bytes> {
    let length = number(bytes)?;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Vec<NamedTensor> {
        let floats = Tensor::from_vec(Shape::new(&[2, 1]), vec![1.5f32, -2.0]).unwrap();
        let texts = Tensor::from_strings(Shape::new(&[2]), ["a", ""]).unwrap();
        let named = |name: &str, tensor| NamedTensor { name: name.into(), tensor };
        vec![named("y", floats), named("label", texts)]
    }

    #[test]
    fn an_answer_comes_back_as_it_was() {
        let read = decode(encode(&answer()).into()).unwrap();
        for (read, written) in read.iter().zip(answer()) {
            assert_eq!(read.name, written.name);
            assert_eq!(read.tensor.shape(), written.tensor.shape());
            assert_eq!(read.tensor.to_bytes(), written.tensor.to_bytes());
        }
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn what_is_cut_short_or_changed_is_no_answer() {
        let whole = encode(&answer());
        for length in 0..whole.len() {
            assert!(decode(Bytes::copy_from_slice(&whole[..length])).is_none(), "{length}");
        }
        // Whatever is changed, nothing but an answer or none comes of it.
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            drop(decode(changed.into()));
        }
    }
}

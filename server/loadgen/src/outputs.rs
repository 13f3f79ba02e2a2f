//! Two answers of a model to the same tensors: are they the same, in every form that such an answer has?

use half::{bf16, f16};
use serde_json::Value;

use crate::{
    DataType,
    answers::{self, TOLERANCE},
    format::Tensors,
    grpc::{described_outputs, grpc_raw_outputs},
};

/// The same of numbers of 16 bits, which are right to two or three digits.
const TOLERANCE_OF_HALVES: f64 = 1e-2;

/// Compares answers to a request of this form. Numbers with a fraction may differ by a thousandth of the larger one or
/// of the largest: of an answer in JSON, else of their tensor, where those of 16 bits may by a hundredth. Everything
/// else must be equal.
pub(crate) fn same(form: Tensors, expected: &[u8], given: &[u8]) -> bool {
    let same_json = |a: &[u8], b: &[u8]| answers::same_outputs(a, b, TOLERANCE).is_ok();
    if expected == given {
        return true;
    }
    match form {
        Tensors::Json | Tensors::Tfs => same_json(expected, given),
        Tensors::Binary => match (behind_json(expected), behind_json(given)) {
            (Some(a), Some(b)) => {
                let mut pairs = a.tensors.iter().zip(&b.tensors);
                same_json(a.json, b.json)
                    && a.tensors.len() == b.tensors.len()
                    && pairs.all(|(a, b)| a.0 == b.0 && same_tensor(a.0, a.1, b.1))
            }
            _ => false,
        },
        Tensors::Grpc => match (described_outputs(expected), described_outputs(given)) {
            (Some(a), Some(b)) => {
                let raw = (grpc_raw_outputs(expected), grpc_raw_outputs(given));
                let counts = [b.len(), raw.0.len(), raw.1.len()];
                let mut pairs = raw.0.iter().zip(&raw.1);
                counts == [a.len(); 3]
                    && a.iter().zip(&b).all(|(a, b)| a == b)
                    && a.iter().all(|it| pairs.next().is_some_and(|(a, b)| same_tensor(it.1, a, b)))
            }
            _ => false,
        },
    }
}

/// An answer of the binary extension.
struct Binary<'a> {
    json: &'a [u8],
    tensors: Vec<(DataType, &'a [u8])>,
}

/// The parts of an answer whose tensors lie behind its JSON; `None` where it is none.
fn behind_json(body: &[u8]) -> Option<Binary<'_>> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let answer = values.next()?.ok()?;
    let (json, mut rest) = body.split_at_checked(values.byte_offset())?;
    let mut tensors = Vec::new();
    for output in answer.get("outputs")?.as_array()? {
        // What lies in the JSON is compared there.
        let Some(size) = output.pointer("/parameters/binary_data_size") else { continue };
        let size = usize::try_from(size.as_u64()?).ok()?;
        let dtype = output.get("datatype")?.as_str()?.parse().ok()?;
        tensors.push((dtype, rest.split_off(..size)?));
    }
    // Where no tensors lie behind it, white space may.
    let is_over = rest.is_empty() || tensors.is_empty() && rest.trim_ascii().is_empty();
    is_over.then_some(Binary { json, tensors })
}

/// Compares the bytes of two tensors of a type.
fn same_tensor(dtype: DataType, expected: &[u8], given: &[u8]) -> bool {
    let halves = TOLERANCE_OF_HALVES;
    match dtype {
        DataType::Fp16 => near(halves, expected, given, |it| f16::from_le_bytes(it).to_f64()),
        DataType::Bf16 => near(halves, expected, given, |it| bf16::from_le_bytes(it).to_f64()),
        DataType::Fp32 => near(TOLERANCE, expected, given, |it| f64::from(f32::from_le_bytes(it))),
        DataType::Fp64 => near(TOLERANCE, expected, given, f64::from_le_bytes),
        DataType::Bool
        | DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Bytes => expected == given,
    }
}

/// Are these numbers the same, but for that share of the largest?
fn near<const N: usize>(
    tolerance: f64,
    expected: &[u8],
    given: &[u8],
    read: impl Fn([u8; N]) -> f64,
) -> bool {
    let ((a, _), (b, _)) = (expected.as_chunks::<N>(), given.as_chunks::<N>());
    let magnitudes = a.iter().map(|it| read(*it).abs()).filter(|it| it.is_finite());
    let most = tolerance * magnitudes.fold(0.0, f64::max) + 1e-6;
    let same = |x: f64, y: f64| (x - y).abs() <= most || x == y || (x.is_nan() && y.is_nan());
    expected.len() == given.len() && a.iter().zip(b).all(|(a, b)| same(read(*a), read(*b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(of: &[f32]) -> Vec<u8> {
        of.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    #[test]
    fn tensors_are_compared_by_their_type() {
        let same = |a: &[f32], b: &[f32]| same_tensor(DataType::Fp32, &floats(a), &floats(b));
        assert!(same(&[100.0, 0.5, f32::NAN], &[100.05, 0.45, f32::NAN]));
        assert!(!same(&[100.0, 0.5], &[100.0, 0.75]) && !same(&[1.0], &[f32::NAN]));
        assert!(!same(&[1.0], &[1.0, 1.0]));
        let halves = |it: f32| f16::from_f32(it).to_le_bytes().to_vec();
        assert!(same_tensor(DataType::Fp16, &halves(1.0), &halves(1.005)));
        assert!(!same_tensor(DataType::Fp16, &halves(1.0), &halves(1.05)));
        assert!(!same_tensor(DataType::Int32, &[1, 0, 0, 0], &[2, 0, 0, 0]));
    }

    #[test]
    fn every_form_of_an_answer_is_read() {
        let json = |y: &str| format!(r#"{{"outputs":[{{"name":"y","data":[{y}]}}]}}"#).into_bytes();
        assert!(same(Tensors::Json, &json("0.5"), &json("0.5001")));
        assert!(!same(Tensors::Json, &json("0.5"), &json("0.6")));
        let predictions = |y: &str| format!(r#"{{"predictions":[[{y}]]}}"#).into_bytes();
        assert!(same(Tensors::Tfs, &predictions("0.5"), &predictions("0.5001")));
        assert!(!same(Tensors::Tfs, &predictions("0.5"), &predictions("0.6")));

        let head = br#"{"model_name":"m","outputs":[{"name":"y","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}"#;
        let binary = |y: f32| [&head[..], &floats(&[y])].concat();
        assert!(same(Tensors::Binary, &binary(0.5), &binary(0.5001)));
        assert!(!same(Tensors::Binary, &binary(0.5), &binary(0.6)));
        assert!(!same(Tensors::Binary, &binary(0.5), head));
        // A server without the extension.
        let line = |y: &str| [&json(y)[..], b"\n"].concat();
        assert!(same(Tensors::Binary, &line("0.5"), &line("0.5001")));
        assert!(!same(Tensors::Binary, &json("0.5"), &json("0.6")));

        let grpc = |y: f32| {
            let output = b"\x2a\x09\x0a\x01y\x12\x04FP32";
            [b"\0\0\0\0\0", &output[..], b"\x32\x04", &floats(&[y])].concat()
        };
        assert!(same(Tensors::Grpc, &grpc(0.5), &grpc(0.5001)));
        assert!(!same(Tensors::Grpc, &grpc(0.5), &grpc(0.6)));
        assert!(!same(Tensors::Grpc, &grpc(0.5), b"\0\0\0\0\0"));
    }
}

//! Two answers of a model to the same tensors: are they the same, output by output?

use std::fmt::Display;

use half::{bf16, f16};

use crate::{
    DataType,
    answers::{self, Compared, Mismatch, Tolerance, needed_by, other_bytes},
    format::Tensors,
    outputs::{Answer, Output},
};

/// Numbers of 16 bits are right to two or three digits.
const TOLERANCE_OF_HALVES: f64 = 1e-2;

/// Compares answers to a request of this form. Numbers with a fraction may differ by this share of the larger one or of
/// the largest of their output, those of 16 bits by a hundredth at least. Everything else must be equal.
///
/// # Errors
/// Says which outputs differ, in how many values, how the first one does, and what can be done.
pub(crate) fn same(
    form: Tensors,
    expected: &[u8],
    given: &[u8],
    tolerance: f64,
) -> Result<(), Mismatch> {
    if expected == given {
        return Ok(());
    }
    let (Some(a), Some(b)) = (Answer::of(form, expected), Answer::of(form, given)) else {
        return Err(Mismatch(other_bytes(expected, given)));
    };
    let is_enough = |tolerance| a.differences(&b, tolerance).is_ok_and(|it| it.is_empty());
    let differing = a.differences(&b, tolerance)?;
    match differing.is_empty() {
        true => Ok(()),
        false => Err(Mismatch(told(&a, &differing, needed_by(is_enough)))),
    }
}

impl Answer<'_> {
    /// The outputs that differ, by their names.
    ///
    /// # Errors
    /// Where something else does.
    fn differences(
        &self,
        given: &Answer<'_>,
        tolerance: f64,
    ) -> Result<Vec<(&str, Compared)>, Mismatch> {
        let mut found = Compared::default();
        let each = Tolerance::each(tolerance);
        answers::compare(&self.rest, &given.rest, &mut String::new(), each, &mut found);
        if let Some(first) = found.first {
            return Err(Mismatch(first));
        }
        let names = |it: &Answer<'_>| it.outputs.iter().map(|it| it.name.clone()).collect();
        let (expected, names): (Vec<String>, Vec<String>) = (names(self), names(given));
        if expected != names {
            let [given, expected] = [names, expected].map(|it| it.join(", "));
            return Err(Mismatch(format!("its outputs are {given} instead of {expected}")));
        }
        let pairs = self.outputs.iter().zip(&given.outputs);
        let compared = pairs.map(|(a, b)| (a.name.as_str(), a.compare(b, tolerance)));
        Ok(compared.filter(|it| it.1.differing > 0).collect())
    }
}

impl Output<'_> {
    fn compare(&self, given: &Output<'_>, tolerance: f64) -> Compared {
        let mut found = Compared::default();
        let (share, is_float) = match self.dtype {
            Some(DataType::Fp16 | DataType::Bf16) => (tolerance.max(TOLERANCE_OF_HALVES), true),
            Some(it) => (tolerance, it.is_float()),
            None => (tolerance, false),
        };
        let mut about = Compared::default();
        let each = Tolerance::each(tolerance);
        answers::compare(&self.about, &given.about, &mut String::new(), each, &mut about);
        if about.differing > 0 || self.message != given.message {
            let other = || "its name, type or shape is another".to_owned();
            found.count(false, || about.first.unwrap_or_else(other));
        }
        if !(self.data.is_null() && given.data.is_null()) {
            let of_output = Tolerance::of_output(share, &self.data, is_float);
            let mut path = if self.about.is_null() { "" } else { "/data" }.to_owned();
            answers::compare(&self.data, &given.data, &mut path, of_output, &mut found);
        }
        match (self.raw, given.raw, self.dtype) {
            (None, None, _) => {}
            (Some(a), Some(b), Some(dtype)) if a.len() == b.len() => {
                compare_tensors(dtype, share, a, b, &mut found);
            }
            (a, b, _) => {
                let [a, b] = [a, b].map(Option::unwrap_or_default);
                found.count(a == b && self.raw.is_some() == given.raw.is_some(), || {
                    other_bytes(a, b)
                });
            }
        }
        found
    }
}

/// How outputs differ, and what can be done; `needed` is the tolerance with which they would not.
fn told(answer: &Answer<'_>, differing: &[(&str, Compared)], needed: Option<f64>) -> String {
    let quoted = |it: &str| format!("'{it}'");
    let sentence = |(name, found): &(&str, Compared)| {
        let Compared { values, differing, first, .. } = found;
        let first = first.as_deref().unwrap_or_default();
        format!("output '{name}' differs in {differing} of {values} values, first: {first}")
    };
    let mut parts: Vec<String> = differing.iter().map(sentence).collect();
    let is_same = |it: &&Output<'_>| differing.iter().all(|(name, _)| *name != it.name);
    let same: Vec<String> =
        answer.outputs.iter().filter(is_same).map(|it| quoted(&it.name)).collect();
    if !same.is_empty() {
        parts.push(format!("{} as alone", same.join(", ")));
    }
    let has_fraction = differing.iter().any(|it| it.1.has_fraction);
    parts.extend(needed.map(|it| format!("--tolerance {it} would be enough")));
    if !has_fraction {
        parts.push(
            "whole numbers and strings must be equal: what is picked of scores that are nearly the same, as by an \
             argmax, may be another in a batch, and --no-check compares nothing"
                .to_owned(),
        );
    }
    parts.join("; ")
}

/// Compares the bytes of two tensors of a type, which are as many.
fn compare_tensors(
    dtype: DataType,
    share: f64,
    expected: &[u8],
    given: &[u8],
    found: &mut Compared,
) {
    let (a, b) = (expected, given);
    let one = |it: [u8; 1]| it[0];
    match dtype {
        DataType::Fp16 => floats(share, a, b, |it| f16::from_le_bytes(it).to_f64(), found),
        DataType::Bf16 => floats(share, a, b, |it| bf16::from_le_bytes(it).to_f64(), found),
        DataType::Fp32 => floats(share, a, b, |it| f64::from(f32::from_le_bytes(it)), found),
        DataType::Fp64 => floats(share, a, b, f64::from_le_bytes, found),
        DataType::Bool | DataType::Uint8 => equals(a, b, one, found),
        DataType::Int8 => equals(a, b, i8::from_le_bytes, found),
        DataType::Uint16 => equals(a, b, u16::from_le_bytes, found),
        DataType::Int16 => equals(a, b, i16::from_le_bytes, found),
        DataType::Uint32 => equals(a, b, u32::from_le_bytes, found),
        DataType::Int32 => equals(a, b, i32::from_le_bytes, found),
        DataType::Uint64 => equals(a, b, u64::from_le_bytes, found),
        DataType::Int64 => equals(a, b, i64::from_le_bytes, found),
        DataType::Bytes => found.count(a == b, || "a string is another".to_owned()),
    }
}

/// Are these numbers the same, but for that share of the larger one, or of the largest?
fn floats<const N: usize>(
    share: f64,
    expected: &[u8],
    given: &[u8],
    read: impl Fn([u8; N]) -> f64,
    found: &mut Compared,
) {
    let ((a, _), (b, _)) = (expected.as_chunks::<N>(), given.as_chunks::<N>());
    let magnitudes = a.iter().map(|it| read(*it).abs()).filter(|it| it.is_finite());
    let tolerance = Tolerance::beside(share, magnitudes.fold(0.0, f64::max));
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let (a, b) = (read(*a), read(*b));
        let is_same = tolerance.allows(a, b);
        found.has_fraction |= !is_same;
        found.count(is_same, || format!("value {at} is {b} instead of {a}"));
    }
}

/// Are these numbers the same?
fn equals<const N: usize, T: PartialEq + Display>(
    expected: &[u8],
    given: &[u8],
    read: impl Fn([u8; N]) -> T,
    found: &mut Compared,
) {
    let ((a, _), (b, _)) = (expected.as_chunks::<N>(), given.as_chunks::<N>());
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        found.count(a == b, || format!("value {at} is {} instead of {}", read(*b), read(*a)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::TOLERANCE;

    fn bytes(of: &[f32]) -> Vec<u8> {
        of.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    fn same(form: Tensors, expected: &[u8], given: &[u8]) -> bool {
        super::same(form, expected, given, TOLERANCE).is_ok()
    }

    #[test]
    fn tensors_are_compared_by_their_type() {
        let same = |dtype: DataType, share: f64, a: &[u8], b: &[u8]| {
            let mut found = Compared::default();
            compare_tensors(dtype, share, a, b, &mut found);
            found.differing == 0
        };
        let floats = |a: &[f32], b: &[f32]| same(DataType::Fp32, TOLERANCE, &bytes(a), &bytes(b));
        assert!(floats(&[100.0, 0.5, f32::NAN], &[100.05, 0.45, f32::NAN]));
        assert!(!floats(&[100.0, 0.5], &[100.0, 0.75]) && !floats(&[1.0], &[f32::NAN]));
        let infinite = f32::INFINITY;
        assert!(floats(&[infinite, 0.5], &[infinite, 0.5001]));
        assert!(!floats(&[0.5], &[infinite]) && !floats(&[infinite], &[0.5]));
        assert!(!floats(&[infinite], &[-infinite]) && !floats(&[infinite, 1.0], &[infinite, 2.0]));
        let int = |it: i32| it.to_le_bytes();
        assert!(!same(DataType::Int32, TOLERANCE, &int(1000), &int(1001)));
        assert!(same(DataType::Int32, TOLERANCE, &int(1000), &int(1000)));
    }

    #[test]
    fn every_form_of_an_answer_is_read() {
        let json = |y: &str| format!(r#"{{"outputs":[{{"name":"y","data":[{y}]}}]}}"#).into_bytes();
        assert!(same(Tensors::Json, &json("0.5"), &json("0.5001")));
        assert!(!same(Tensors::Json, &json("0.5"), &json("0.6")));
        let predictions = |y: &str| format!(r#"{{"predictions":[[{y}]]}}"#).into_bytes();
        assert!(same(Tensors::Tfs, &predictions("0.5"), &predictions("0.5001")));
        assert!(!same(Tensors::Tfs, &predictions("0.5"), &predictions("0.6")));

        let binary = |dtype: &str, data: &[u8]| {
            let head = format!(
                r#"{{"model_name":"m","outputs":[{{"name":"y","datatype":"{dtype}","shape":[1],"parameters":{{"binary_data_size":{}}}}}]}}"#,
                data.len()
            );
            [head.as_bytes(), data].concat()
        };
        let floats = |of: &[f32]| binary("FP32", &bytes(of));
        assert!(same(Tensors::Binary, &floats(&[0.5]), &floats(&[0.5001])));
        assert!(!same(Tensors::Binary, &floats(&[0.5]), &floats(&[0.6])));
        assert!(!same(Tensors::Binary, &floats(&[0.5]), &floats(&[0.5, 0.5])));
        assert!(!same(Tensors::Binary, &floats(&[0.5]), &floats(&[0.5])[..100]));
        let halves = |it: f32| binary("FP16", &f16::from_f32(it).to_le_bytes());
        assert!(same(Tensors::Binary, &halves(1.0), &halves(1.005)));
        assert!(!same(Tensors::Binary, &halves(1.0), &halves(1.05)));
        // A server without the extension.
        let line = |y: &str| [&json(y)[..], b"\n"].concat();
        assert!(same(Tensors::Binary, &line("0.5"), &line("0.5001")));
        assert!(!same(Tensors::Binary, &json("0.5"), &json("0.6")));

        let grpc = |y: f32| {
            let output = b"\x2a\x09\x0a\x01y\x12\x04FP32";
            [b"\0\0\0\0\0", &output[..], b"\x32\x04", &bytes(&[y])].concat()
        };
        assert!(same(Tensors::Grpc, &grpc(0.5), &grpc(0.5001)));
        assert!(!same(Tensors::Grpc, &grpc(0.5), &grpc(0.6)));
        assert!(!same(Tensors::Grpc, &grpc(0.5), b"\0\0\0\0\0"));
    }

    #[test]
    fn a_small_number_is_held_against_the_largest_of_its_own_output() {
        let check = |form: Tensors, answer: &dyn Fn(&str, &str) -> String| {
            let is_same = |y: &str, z: &str| {
                let [a, b] = [answer("1000.5, 0.5", "0.5"), answer(y, z)];
                same(form, a.as_bytes(), b.as_bytes())
            };
            assert!(is_same("1000.5, 0.75", "0.5"), "{}", answer("..", ".."));
            assert!(!is_same("1000.5, 0.5", "0.75"), "{}", answer("..", ".."));
        };
        check(Tensors::Json, &|y, z| {
            format!(r#"{{"outputs":[{{"name":"y","data":[{y}]}},{{"name":"z","data":[{z}]}}]}}"#)
        });
        check(Tensors::Tfs, &|y, z| format!(r#"{{"outputs":{{"y":[{y}],"z":[{z}]}}}}"#));
        check(Tensors::Tfs, &|y, z| {
            format!(r#"{{"predictions":[{{"y":[{y}],"z":{z}}},{{"y":[2.5],"z":0.5}}]}}"#)
        });
        // Tensors of floats, however their numbers are written.
        let json = |of: &str| {
            format!(r#"{{"outputs":[{{"name":"y","datatype":"FP32","shape":[2],"data":[{of}]}}]}}"#)
        };
        assert!(same(Tensors::Json, json("100000, 3").as_bytes(), json("100001, 4").as_bytes()));
        let int = |of: &str| json(of).replace("FP32", "INT64");
        assert!(!same(Tensors::Json, int("100000, 3").as_bytes(), int("100001, 3").as_bytes()));
        // What says how the tensor is shaped has no such tolerance.
        assert!(!same(
            Tensors::Json,
            json("100000.5, 3").as_bytes(),
            json("100000.5, 3").replace("[2]", "[3]").as_bytes()
        ));
    }

    #[test]
    fn a_difference_is_told_with_its_output_its_value_and_what_can_be_done() {
        let answer = |class: &str, score: &str| {
            format!(
                r#"{{"outputs":[{{"name":"class","datatype":"INT64","data":[{class}]}},
                    {{"name":"score","datatype":"FP32","data":[{score}]}}]}}"#
            )
        };
        let told = |class: &str, score: &str| {
            let (a, b) = (answer("1, 5, 9", "0.5, 0.25"), answer(class, score));
            super::same(Tensors::Json, a.as_bytes(), b.as_bytes(), TOLERANCE)
                .unwrap_err()
                .to_string()
        };
        let class = told("1, 7, 8", "0.50001, 0.25");
        let begin = "output 'class' differs in 2 of 3 values, first: /data/1 is 7 instead of 5; 'score' as alone; whole";
        assert!(
            class.starts_with(begin) && class.ends_with("--no-check compares nothing"),
            "{class}"
        );
        assert_eq!(
            told("1, 5, 9", "0.5, 0.259"),
            "output 'score' differs in 1 of 2 values, first: /data/1 is 0.259 instead of 0.25; 'class' as alone; \
             --tolerance 0.02 would be enough"
        );
        let missing = super::same(Tensors::Json, answer("1", "0.5").as_bytes(), b"{}", TOLERANCE);
        assert_eq!(missing.unwrap_err().to_string(), "other bytes, 2 instead of 129");
    }
}

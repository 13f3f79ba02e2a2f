//! Rows that no trial makes by itself, and clients send all the same: floats that are no numbers or huge, and whole
//! numbers as large as a model takes them, or negative. Pure.

use backend::{DataType, NamedTensor, Tensor, distance};

use crate::load::sample_rows::{is_float, is_named_mask, is_whole};
use schedule::work::Work;

/// What all floats of a row are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Special {
    Nan,
    MinusInfinity,
    Infinity,
    /// So large or up to twice as large, one in three of them negative.
    Huge(f64),
}

/// Products and squares of the last ones are infinite in 32 bits.
pub(crate) const HUGE: [Special; 3] =
    [Special::Huge(1e8), Special::Huge(1e12), Special::Huge(1e30)];

/// What is largest comes last.
pub(crate) const NO_NUMBERS: [Special; 3] =
    [Special::Nan, Special::MinusInfinity, Special::Infinity];

/// The largest finite float of two bytes with a short exponent.
const MOST_FP16: f64 = 65_504.0;

/// The largest index that a row is made of.
const MOST_INDEX: u64 = i32::MAX as u64;

/// Negative numbers that a row is made of: what is left out or unknown, and the least.
pub(crate) const NEGATIVE: [i64; 3] = [-1, -100, i32::MIN as i64];

impl Special {
    /// What a row of them is called.
    pub(crate) fn name(self) -> String {
        match self {
            Special::Nan => "NaN".to_owned(),
            Special::MinusInfinity => "-infinity".to_owned(),
            Special::Infinity => "infinity".to_owned(),
            Special::Huge(size) => format!("numbers of {size:e} and more"),
        }
    }

    fn at(self, place: usize, dtype: DataType) -> f64 {
        let most = if dtype == DataType::Fp16 { MOST_FP16 } else { f64::MAX };
        match self {
            Special::Nan => f64::NAN,
            Special::MinusInfinity => f64::NEG_INFINITY,
            Special::Infinity => f64::INFINITY,
            Special::Huge(size) => {
                // No two neighbours are alike, and neither their sum nor any of their differences is small.
                let size = (size * (1.0 + (place % 7) as f64 / 8.0)).min(most);
                if place % 3 == 2 { -size } else { size }
            }
        }
    }
}

/// The inputs of floats of a row, by their places. A mask is none that means much.
pub(crate) fn float_inputs(row: &Work) -> Vec<usize> {
    places(row, is_float)
}

/// The inputs of whole numbers, likewise.
pub(crate) fn whole_inputs(row: &Work) -> Vec<usize> {
    places(row, is_whole)
}

fn places(row: &Work, is: impl Fn(DataType) -> bool) -> Vec<usize> {
    let inputs = row.inputs.iter().enumerate();
    let wanted = inputs.filter(|(_, it)| is(it.tensor.dtype()) && !is_named_mask(&it.name));
    wanted.map(|(at, _)| at).collect()
}

/// The row with nothing but that in these of its inputs, which are of floats.
pub(crate) fn with_floats(row: &Work, inputs: &[usize], special: Special) -> Option<Work> {
    with(row, inputs, |of| {
        let values: Vec<f64> =
            (0..of.elements()).map(|place| special.at(place, of.dtype())).collect();
        distance::of_floats(of.dtype(), of.shape().clone(), &values)
    })
}

/// The row with nothing but that number in these of its inputs, which are of whole numbers: the largest or the least
/// that one's type has where it is beyond that.
pub(crate) fn with_whole(row: &Work, inputs: &[usize], value: i64) -> Option<Work> {
    with(row, inputs, |of| {
        let most = largest_of(of.dtype()) as i64;
        let bytes = value.clamp(least_of(of.dtype()), most).to_le_bytes();
        let one = bytes.get(..of.dtype().size()?)?;
        Tensor::new(of.dtype(), of.shape().clone(), one.repeat(of.elements()).into()).ok()
    })
}

fn with(row: &Work, inputs: &[usize], filled: impl Fn(&Tensor) -> Option<Tensor>) -> Option<Work> {
    let input = |(at, it): (usize, &NamedTensor)| {
        let tensor = if inputs.contains(&at) { filled(&it.tensor)? } else { it.tensor.clone() };
        Some(NamedTensor { name: it.name.clone(), tensor })
    };
    let inputs = row.inputs.iter().enumerate().map(input).collect::<Option<_>>()?;
    Some(Work { inputs, outputs: row.outputs.clone(), about: None, parts: None, ..*row })
}

/// The largest index that is tried with that type.
pub(crate) fn largest_of(dtype: DataType) -> u64 {
    match dtype {
        DataType::Int8 => i8::MAX as u64,
        DataType::Uint8 => u8::MAX.into(),
        DataType::Int16 => i16::MAX as u64,
        DataType::Uint16 => u16::MAX.into(),
        _ => MOST_INDEX,
    }
}

/// The least number that is tried with that type: 0 where it has no negative ones.
pub(crate) fn least_of(dtype: DataType) -> i64 {
    match dtype {
        DataType::Int8 => i8::MIN.into(),
        DataType::Int16 => i16::MIN.into(),
        DataType::Int32 | DataType::Int64 => i32::MIN.into(),
        _ => 0,
    }
}

/// The largest element of a tensor of whole numbers; 0 where all are negative.
pub(crate) fn largest(tensor: &Tensor) -> u64 {
    let Some(size) = tensor.dtype().size() else { return 0 };
    let is_signed = least_of(tensor.dtype()) < 0;
    let value = |bytes: &[u8]| {
        let is_negative = is_signed && bytes.last().is_some_and(|it| *it >> 7 == 1);
        let value = bytes.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it));
        if is_negative { 0 } else { value }
    };
    tensor.to_bytes().chunks_exact(size.max(1)).map(value).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use backend::Shape;

    use super::*;

    /// A row of two elements of every kind.
    fn row() -> Work {
        let shape = || Shape::new(&[1, 3]);
        let named = |name: &str, tensor| NamedTensor { name: name.into(), tensor };
        let inputs = vec![
            named("x", Tensor::from_vec(shape(), vec![1.0_f32, 2.0, 3.0]).unwrap()),
            named("mask", Tensor::from_vec(shape(), vec![1.0_f32; 3]).unwrap()),
            named("ids", Tensor::from_vec(shape(), vec![-5_i64, 7, 3]).unwrap()),
            named("small", Tensor::from_vec(shape(), vec![-5_i8, -7, -3]).unwrap()),
            named("text", Tensor::from_strings(shape(), ["a", "b", "c"]).unwrap()),
        ];
        Work { inputs, outputs: vec!["y".into()], rows: 1, signature: 0, about: None, parts: None }
    }

    #[test]
    fn floats_are_special_in_the_inputs_that_are_named_and_nowhere_else() {
        let row = row();
        assert_eq!((float_inputs(&row), whole_inputs(&row)), (vec![0], vec![2, 3]));
        let of =
            |special| distance::floats(&with_floats(&row, &[0], special).unwrap().inputs[0].tensor);
        assert!(of(Special::Nan).unwrap().iter().all(|it| it.is_nan()));
        assert_eq!(of(Special::MinusInfinity).unwrap(), [f64::NEG_INFINITY; 3]);
        let huge = of(Special::Huge(1e12)).unwrap();
        assert!(
            huge.iter()
                .all(|it| (1e12..2e12).contains(&it.abs()) || it.abs() == f64::from(1e12_f32))
        );
        assert!(huge[2] < 0.0 && 1e11 < huge.iter().sum::<f64>(), "{huge:?}");
        let others = with_floats(&row, &[0], Special::Nan).unwrap().inputs;
        for (was, is) in row.inputs.iter().zip(&others).skip(1) {
            assert_eq!(was.tensor.to_bytes(), is.tensor.to_bytes(), "{}", was.name);
        }
    }

    #[test]
    fn halves_are_huge_and_finite() {
        let tensor = distance::of_floats(DataType::Fp16, Shape::new(&[1, 2]), &[0.5, 1.0]).unwrap();
        let inputs = vec![NamedTensor { name: "x".into(), tensor }];
        let row = Work { inputs, ..row() };
        let huge = with_floats(&row, &[0], Special::Huge(1e30)).unwrap();
        assert_eq!(distance::floats(&huge.inputs[0].tensor).unwrap(), [MOST_FP16; 2]);
    }

    #[test]
    fn whole_numbers_are_as_large_as_asked_or_as_their_type_has_them() {
        let row = row();
        let of = |value| {
            let made = with_whole(&row, &[2, 3], value).unwrap();
            [2, 3].map(|at: usize| largest(&made.inputs[at].tensor))
        };
        assert_eq!(of(63), [63, 63]);
        assert_eq!(of(1 << 20), [1 << 20, 127]);
        assert_eq!([2, 3].map(|at: usize| largest(&row.inputs[at].tensor)), [7, 0]);
        let least = with_whole(&row, &[2, 3], NEGATIVE[2]).unwrap();
        assert_eq!(least.inputs[2].tensor.to_bytes(), i64::from(i32::MIN).to_le_bytes().repeat(3));
        assert_eq!(least.inputs[3].tensor.to_bytes(), [0x80; 3].as_slice());
    }
}

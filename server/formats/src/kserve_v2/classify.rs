//! The classification extension: the best classes of an output, as text.

use std::cmp::Ordering;

use backend::{DataType, Shape, SizeMismatch, Tensor};
use inference::messages;

/// Most elements of one row that are looked at.
const MOST_ELEMENTS: usize = 1_000_000;

/// Why an output has no classes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ClassesError {
    #[error("{}: {} elements, expected at most {MOST_ELEMENTS}", messages::CLASSES_TOO_LARGE, .0)]
    TooLarge(usize),
    #[error("{}; expected integers, FP32 or FP64", messages::no_classes(*.0))]
    Type(DataType),
    #[error(transparent)]
    Size(#[from] SizeMismatch),
}

/// The `classes` highest values of each row as strings `value:index[:label]`, the highest first.
///
/// BYTES of shape `[rows, k]`, or `[k]` where the model does not batch; k is at most the number of elements
/// in a row. Equal values are in the order of their index, NaN comes last.
///
/// # Errors
/// For types that have no order or no text here, and for rows that are too long.
pub fn classify(
    tensor: &Tensor,
    batches: bool,
    classes: usize,
    labels: &[String],
) -> Result<Tensor, ClassesError> {
    let (rows, elements) = extent(tensor, batches);
    if elements > MOST_ELEMENTS {
        return Err(ClassesError::TooLarge(elements));
    }
    let rank = Rank { elements, classes: classes.min(elements), labels };
    let strings = match tensor.dtype() {
        DataType::Uint8 => rank.rows(tensor, |it: u8| it.to_string()),
        DataType::Uint16 => rank.rows(tensor, |it: u16| it.to_string()),
        DataType::Uint32 => rank.rows(tensor, |it: u32| it.to_string()),
        DataType::Uint64 => rank.rows(tensor, |it: u64| it.to_string()),
        DataType::Int8 => rank.rows(tensor, |it: i8| it.to_string()),
        DataType::Int16 => rank.rows(tensor, |it: i16| it.to_string()),
        DataType::Int32 => rank.rows(tensor, |it: i32| it.to_string()),
        DataType::Int64 => rank.rows(tensor, |it: i64| it.to_string()),
        DataType::Fp32 => rank.rows(tensor, |it: f32| format!("{it:.6}")),
        DataType::Fp64 => rank.rows(tensor, |it: f64| format!("{it:.6}")),
        other @ (DataType::Bool | DataType::Fp16 | DataType::Bf16 | DataType::Bytes) => {
            return Err(ClassesError::Type(other));
        }
    };
    let shape = if batches { vec![rows, rank.classes] } else { vec![rank.classes] };
    Ok(Tensor::from_strings(Shape::new(&shape), strings)?)
}

/// Rows, and the elements of one.
fn extent(tensor: &Tensor, batches: bool) -> (usize, usize) {
    let rows = if batches { tensor.shape().rows().unwrap_or(1) } else { 1 };
    (rows, tensor.elements().checked_div(rows).unwrap_or(0))
}

/// Bytes of memory that [`classify`] and JSON of its classes take at most, besides the tensor. An estimate of up to
/// `rough` bytes is made by the type alone, and a larger one by a pass over the values.
pub fn bound(
    tensor: &Tensor,
    batches: bool,
    classes: usize,
    labels: &[String],
    rough: usize,
) -> usize {
    let (rows, elements) = extent(tensor, batches);
    if elements > MOST_ELEMENTS {
        return 0;
    }
    let label = labels.iter().map(String::len).max().unwrap_or(0);
    let of = |number: usize| {
        // Colons and an index of six digits. A string, the element of a tensor and a text in JSON have room for two to
        // three times as much while they grow; a byte of a label may be six letters in JSON.
        let text = number + 9;
        let class = text.saturating_mul(5).saturating_add(label.saturating_mul(20)) + 128;
        rows.saturating_mul(classes.min(elements)).saturating_mul(class)
    };
    let written = match of(widest(tensor.dtype())) {
        estimate if estimate <= rough => estimate,
        _ => of(widest_of(tensor)),
    };
    // The values in one piece, and those of a row with their places.
    let ranked = elements.saturating_mul(size_of::<(usize, f64)>());
    written.saturating_add(tensor.byte_len().saturating_mul(2)).saturating_add(ranked)
}

/// Letters of the longest number of a type.
fn widest(dtype: DataType) -> usize {
    match dtype {
        DataType::Uint8 => 3,
        DataType::Int8 => 4,
        DataType::Uint16 => 5,
        DataType::Int16 => 6,
        DataType::Uint32 => 10,
        DataType::Int32 => 11,
        DataType::Uint64 | DataType::Int64 => 20,
        // A sign, 39 or 309 digits, a point and six decimals.
        DataType::Fp32 => 47,
        DataType::Fp64 => 317,
        // These have no classes.
        DataType::Bool | DataType::Fp16 | DataType::Bf16 | DataType::Bytes => 0,
    }
}

/// The same of these numbers.
fn widest_of(tensor: &Tensor) -> usize {
    let values = tensor.segments().iter();
    let largest = match tensor.dtype() {
        DataType::Fp32 => values
            .flat_map(|it| it.as_chunks::<4>().0)
            .map(|it| f64::from(f32::from_le_bytes(*it)))
            .fold(0.0, largest),
        DataType::Fp64 => values
            .flat_map(|it| it.as_chunks::<8>().0)
            .map(|it| f64::from_le_bytes(*it))
            .fold(0.0, largest),
        other => return widest(other),
    };
    // A number may be rounded up to one with a digit more.
    let digits = if largest < 1.0 { 1 } else { largest.log10() as usize + 2 };
    (digits + 8).min(widest(tensor.dtype()))
}

/// The larger of two amounts; what is not finite has few letters.
fn largest(largest: f64, value: f64) -> f64 {
    if value.is_finite() { largest.max(value.abs()) } else { largest }
}

struct Rank<'a> {
    /// Elements of one row.
    elements: usize,
    /// How many of them are wanted; not more.
    classes: usize,
    labels: &'a [String],
}

impl Rank<'_> {
    fn rows<T>(&self, tensor: &Tensor, text: impl Fn(T) -> String) -> Vec<String>
    where
        T: backend::Element + PartialOrd,
    {
        if self.classes == 0 {
            return Vec::new();
        }
        let bytes = tensor.to_bytes();
        let values = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
        let values: Vec<T> = values.collect();
        let rows = values.chunks(self.elements);
        rows.flat_map(|row| self.best(row, &text)).collect()
    }

    fn best<T: Copy + PartialOrd>(&self, row: &[T], text: impl Fn(T) -> String) -> Vec<String> {
        let mut ranked: Vec<(usize, T)> = row.iter().copied().enumerate().collect();
        if self.classes < ranked.len() {
            ranked.select_nth_unstable_by(self.classes, order);
            ranked.truncate(self.classes);
        }
        ranked.sort_unstable_by(order);
        let line = |(index, value): (usize, T)| match self.labels.get(index) {
            Some(label) if !label.is_empty() => format!("{}:{index}:{label}", text(value)),
            _ => format!("{}:{index}", text(value)),
        };
        ranked.into_iter().map(line).collect()
    }
}

/// The higher value first, then the lower index; what has no order, last.
fn order<T: PartialOrd>(left: &(usize, T), right: &(usize, T)) -> Ordering {
    // Only a NaN differs from itself.
    let unordered = |it: &T| it.partial_cmp(it).is_none();
    let by_value = right.1.partial_cmp(&left.1);
    let by_value = by_value.unwrap_or_else(|| unordered(&left.1).cmp(&unordered(&right.1)));
    by_value.then(left.0.cmp(&right.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::write::{self, BytesAs};

    #[track_caller]
    fn check(tensor: &Tensor, batches: bool, classes: usize, shape: &[usize], expected: &[&str]) {
        let labels = ["cat".to_owned(), String::new(), "dog".to_owned()];
        let best = classify(tensor, batches, classes, &labels).unwrap();
        assert_eq!(best.shape().dims(), shape);
        let best: Vec<&str> = best.strings().map(|it| std::str::from_utf8(it).unwrap()).collect();
        assert_eq!(best, expected);
    }

    #[test]
    fn each_row_is_ranked_by_itself_with_labels_where_there_are_some() {
        let values = vec![0.1f32, 0.7, 0.2, 0.5, 0.25, 0.25];
        let tensor = Tensor::from_vec(Shape::new(&[2, 3]), values).unwrap();
        let expected = ["0.700000:1", "0.200000:2:dog", "0.500000:0:cat", "0.250000:1"];
        check(&tensor, true, 2, &[2, 2], &expected);
        check(&tensor, false, 1, &[1], &["0.700000:1"]);
    }

    #[test]
    fn integers_have_no_decimals_and_k_ends_at_the_row() {
        let tensor = Tensor::from_vec(Shape::new(&[3]), vec![-1i64, 5, 5]).unwrap();
        check(&tensor, false, 9, &[3], &["5:1", "5:2:dog", "-1:0:cat"]);
    }

    #[test]
    fn nan_comes_last() {
        let tensor = Tensor::from_vec(Shape::new(&[1, 3]), vec![f64::NAN, -1.0, 1.0]).unwrap();
        check(&tensor, true, 3, &[1, 3], &["1.000000:2:dog", "-1.000000:1", "NaN:0:cat"]);
    }

    #[test]
    fn classes_take_no_more_memory_than_is_counted() {
        let labels = ["\u{1}".repeat(300), String::new()];
        let check = |tensor: Tensor, classes: usize| {
            let best = classify(&tensor, true, classes, &labels).unwrap();
            let mut json = Vec::new();
            write::flat(&mut json, &best, BytesAs::Text).unwrap();
            let strings: usize = best.strings().map(|it| size_of::<String>() + it.len()).sum();
            let of = |rough| bound(&tensor, true, classes, &labels, rough);
            let (rough, precise) = (of(usize::MAX), of(0));
            let taken = (strings + best.byte_len()).max(best.byte_len() + json.len());
            assert!(taken <= precise && precise <= rough, "{taken} {precise} {rough}");
            (precise, rough)
        };
        let shape = Shape::new(&[1, 100]);
        let of64 = |value: f64| Tensor::from_vec(shape.clone(), vec![value; 100]).unwrap();
        let of32 = |value: f32| Tensor::from_vec(shape.clone(), vec![value; 100]).unwrap();
        for classes in [1, 100, usize::MAX] {
            check(of64(-1.7e308), classes);
            check(of32(f32::MIN), classes);
            check(of64(f64::NEG_INFINITY), classes);
            check(of64(-999.999_999_9), classes);
            check(Tensor::from_vec(shape.clone(), vec![i64::MIN; 100]).unwrap(), classes);
        }
        let (precise, rough) = check(of64(0.5), 100);
        assert!(precise * 2 < rough + 20 * 300 * 100, "{precise} {rough}");
        let (few, many) = (check(of64(0.5), 1).1, check(of64(0.5), 100).1);
        assert!(few * 20 < many, "only the best are written: {few} {many}");
    }

    #[test]
    fn no_rows_give_no_classes() {
        let tensor = Tensor::zeros(DataType::Fp32, Shape::new(&[0, 3])).unwrap();
        check(&tensor, true, 2, &[0, 0], &[]);
    }

    #[test]
    fn types_without_classes_and_rows_too_long_are_refused() {
        for dtype in [DataType::Bool, DataType::Fp16, DataType::Bf16, DataType::Bytes] {
            let tensor = Tensor::zeros(dtype, Shape::new(&[1, 3])).unwrap();
            assert_eq!(
                classify(&tensor, true, 1, &[]).unwrap_err().to_string(),
                format!(
                    "class result not available for output due to unsupported type '{dtype}'; expected integers, \
                     FP32 or FP64"
                )
            );
        }
        let tensor = Tensor::zeros(DataType::Uint8, Shape::new(&[MOST_ELEMENTS + 1])).unwrap();
        assert_eq!(
            classify(&tensor, false, 1, &[]).unwrap_err().to_string(),
            "classification output tensor too large: 1000001 elements, expected at most 1000000"
        );
    }
}

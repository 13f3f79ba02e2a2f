//! How many bytes of memory a reply of text takes while it is written, known before it is.
//!
//! An estimate is rough, by types and shapes alone, or precise, by a pass over the elements that costs as much time as
//! the reply itself: only a reply for which there is no room by the rough one pays for it.

use backend::{DataType, NamedTensor, Tensor};

use crate::json::write;
use inference::request::InferenceResponse;

/// What a form of replies writes beside the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextForm {
    /// Bytes beside each element: keys, labels, brackets.
    pub element: usize,
    /// How many texts of the reply are there at the same time.
    pub copies: usize,
}

impl TextForm {
    /// The elements of each output with commas between them.
    pub const PLAIN: TextForm = TextForm { element: 0, copies: 1 };

    /// Each element in an object or a list with its label.
    pub const LABELLED: TextForm = TextForm { element: 64, copies: 1 };

    /// Lists that are copied to be quoted.
    pub const QUOTED: TextForm = TextForm { element: 2, copies: 4 };
}

/// Bytes of a reply of these outputs as text: a rough estimate where that is at most `rough`, else a precise one.
pub fn of_outputs<'a>(
    outputs: impl Iterator<Item = &'a NamedTensor> + Clone,
    form: TextForm,
    rough: usize,
) -> usize {
    let bytes = |text: fn(&Tensor) -> usize| {
        let each = outputs.clone().map(|NamedTensor { name, tensor }| {
            let beside = tensor.elements().saturating_mul(form.element);
            let written = text(tensor).saturating_add(lists(tensor)).saturating_add(beside);
            written.saturating_mul(form.copies).saturating_add(rows(name, tensor))
        });
        each.fold(0, usize::saturating_add)
    };
    match bytes(widest) {
        estimate if estimate <= rough => estimate,
        _ => bytes(write::text_length),
    }
}

/// The same for all outputs of a response.
pub fn of_response(response: &InferenceResponse, form: TextForm, rough: usize) -> usize {
    of_outputs(response.outputs.iter(), form, rough)
}

/// Bytes of the elements where each takes the longest text of its type and a comma.
fn widest(tensor: &Tensor) -> usize {
    let element = match tensor.dtype() {
        DataType::Bool => 6,
        DataType::Uint8 => 4,
        DataType::Int8 => 5,
        DataType::Uint16 => 6,
        DataType::Int16 => 7,
        DataType::Uint32 => 11,
        DataType::Int32 => 12,
        DataType::Uint64 | DataType::Int64 => 21,
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 => 17,
        DataType::Fp64 => 26,
        // A byte that is no letter is written as six, and a string has quotes.
        DataType::Bytes => return tensor.byte_len().saturating_mul(6),
    };
    // A flat list has a bracket more than commas.
    tensor.elements().saturating_mul(element).saturating_add(1)
}

/// Bytes of the brackets and commas of nested lists.
fn lists(tensor: &Tensor) -> usize {
    let inner = tensor.shape().dims().split_last().map_or(&[][..], |it| it.1);
    let (mut lists, mut sum) = (1usize, 1usize);
    for &size in inner {
        lists = lists.saturating_mul(size);
        sum = sum.saturating_add(lists);
    }
    sum.saturating_mul(3)
}

/// Bytes of the output's name and of what stands around it, for each row.
fn rows(name: &str, tensor: &Tensor) -> usize {
    let rows = tensor.shape().rows().unwrap_or(1).max(1);
    rows.saturating_mul(name.len() + 8)
}

#[cfg(test)]
mod tests {
    use backend::Shape;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        json::write::BytesAs,
        reply,
        samples::{body, model, only},
    };
    use inference::grant::Grant;

    fn estimates(tensor: Tensor) -> (usize, usize) {
        let response = only("y", tensor);
        let of = |rough| of_response(&response, TextForm::PLAIN, rough);
        (of(usize::MAX), of(0))
    }

    #[test]
    fn no_reply_is_longer_than_its_estimates() {
        let longest = [f32::MIN, -f32::MIN_POSITIVE, -1.175_494_4e-38, f32::NAN, 1.0];
        let long64 = [f64::MIN, -f64::MIN_POSITIVE, -2.225_073_858_507_201_4e-308, f64::INFINITY];
        let strings = ["", "\u{1}\u{2}", "plain", "\"quoted\""];
        let shape = |count: usize| Shape::new(&[count, 1]);
        let tensors = [
            Tensor::from_vec(shape(5), longest.to_vec()).unwrap(),
            Tensor::from_vec(shape(4), long64.to_vec()).unwrap(),
            // As long as an element may be.
            Tensor::from_vec(shape(1), vec![-7_111_479_700_000.0f32]).unwrap(),
            Tensor::from_vec(shape(2), vec![i64::MIN, i64::MAX]).unwrap(),
            Tensor::from_vec(shape(2), vec![i32::MIN, 0]).unwrap(),
            Tensor::from_vec(shape(2), vec![i8::MIN, 0]).unwrap(),
            Tensor::from_vec(shape(3), vec![0u8, 255, 1]).unwrap(),
            Tensor::from_strings(shape(4), strings).unwrap(),
            Tensor::from_strings(shape(1), [b"\xff\xfe"]).unwrap(),
        ];
        let signature = model(8, &[], &["y FP32 [1]"]);
        for tensor in tensors {
            let mut nested = Vec::new();
            write::nested(&mut nested, &tensor, BytesAs::TextOrBase64).unwrap();
            let (response, grant) = (only("y", tensor.clone()), Grant::uncounted());
            let csv = body(&reply::csv(&signature, &response, &grant).unwrap());
            let lines = reply::predictions(&signature, &response, &grant).unwrap();
            let (rough, precise) = estimates(tensor);
            assert!(nested.len() <= precise && precise <= rough, "{precise} {rough}");
            assert!(csv.len() <= precise && body(&lines).len() <= precise + 32, "{csv}");
        }
    }

    proptest! {
        #[test]
        fn a_precise_estimate_holds_for_any_floats(values in prop::collection::vec(any::<f32>(), 1..50)) {
            let tensor = Tensor::from_vec(Shape::new(&[values.len()]), values).unwrap();
            let mut text = Vec::new();
            write::nested(&mut text, &tensor, BytesAs::Text).unwrap();
            let (rough, precise) = estimates(tensor);
            prop_assert!(text.len() <= precise && precise <= rough);
        }
    }
}

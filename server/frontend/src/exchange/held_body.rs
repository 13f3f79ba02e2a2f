//! How much memory a decoded request keeps of its body: an input that is a slice of it keeps all of it.

use std::sync::Arc;

use backend::NamedTensor;
use bytes::Bytes;

use inference::request::{InferenceRequest, Parameter};

/// A body that has been decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBody {
    /// Its bytes.
    pub length: usize,
    /// Those of its bytes that are inputs.
    sliced: usize,
    /// Bytes of texts that were copied out of it: the id, and names and values of parameters.
    texts: usize,
}

impl HeldBody {
    /// The body of a request whose inputs lie in it or beside it.
    pub fn of(body: &Bytes, request: &InferenceRequest) -> HeldBody {
        let range = body.as_ptr_range();
        let lies_in = |it: &&Bytes| !it.is_empty() && range.contains(&it.as_ptr());
        let segments = |it: &NamedTensor| -> usize {
            it.tensor.segments().iter().filter(lies_in).map(Bytes::len).sum()
        };
        let sliced = request.inputs.iter().map(segments).sum();
        let text = |(name, value): &(Arc<str>, Parameter)| match value {
            Parameter::Text(text) => name.len() + text.len(),
            Parameter::Bool(_) | Parameter::Int(_) | Parameter::Double(_) => name.len(),
        };
        let id = request.id.as_ref().map_or(0, |it| it.len());
        let texts = id + request.parameters.iter().map(text).sum::<usize>();
        HeldBody { length: body.len(), sliced, texts }
    }

    /// Bytes that inputs of so many bytes, and texts, keep in memory, those in the body among them.
    pub fn with_inputs(self, inputs: usize) -> usize {
        let held = match self.sliced {
            0 => inputs,
            sliced => self.length.saturating_add(inputs.saturating_sub(sliced)),
        };
        held.saturating_add(self.texts)
    }
}

#[cfg(test)]
mod tests {
    use backend::{DataType, Shape, Tensor};

    use super::*;

    fn input(bytes: Bytes) -> NamedTensor {
        let shape = Shape::new(&[bytes.len()]);
        let tensor = Tensor::new(DataType::Uint8, shape, bytes).unwrap();
        NamedTensor { name: "x".into(), tensor }
    }

    #[test]
    fn an_input_that_is_a_slice_of_the_body_keeps_all_of_it_beside_the_others() {
        let body = Bytes::from(vec![7; 1000]);
        let held = |inputs: &[Bytes]| {
            let inputs: Vec<NamedTensor> = inputs.iter().cloned().map(input).collect();
            let bytes = inputs.iter().map(|it| it.tensor.byte_len()).sum();
            let request = InferenceRequest { inputs, ..InferenceRequest::default() };
            HeldBody::of(&body, &request).with_inputs(bytes)
        };
        let other = Bytes::from(vec![1; 300]);
        assert_eq!(held(std::slice::from_ref(&other)), 300, "the body goes");
        assert_eq!(held(&[body.slice(10..14)]), 1000);
        assert_eq!(held(&[body.slice(10..14), other.clone()]), 1300);
        assert_eq!(held(&[body.slice(10..510), body.slice(510..), other]), 1300);
        assert_eq!(held(&[body.slice(7..7)]), 0, "nothing of the body is kept");
    }
}

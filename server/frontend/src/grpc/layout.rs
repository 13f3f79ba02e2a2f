//! Finds the first raw tensor in the part of an inference request that has arrived. Pure.

/// The numbers of the fields that lead to a message's first raw tensor, from the outermost in.
pub type FieldPath = &'static [u64];

/// The path to `raw_input_contents` of an inference request.
pub const RAW_INPUT: FieldPath = &[7];

/// The path to `tensor_content` of a request to TensorFlow Serving's `Predict`.
pub const TENSOR_CONTENT: FieldPath = &[2, 2, 4];

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// The offset of the first raw tensor in a message that begins with `start`; `None` where it is not within `start`.
pub fn first_tensor(start: &[u8], path: FieldPath) -> Option<usize> {
    path.iter().try_fold(0, |at, number| {
        Fields { bytes: start, at }.find(|it| it.number == *number).map(|it| it.begin)
    })
}

/// The outermost fields of a message, as far as its bytes are there.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

struct Field {
    number: u64,
    /// Where its value begins.
    begin: usize,
}

impl Fields<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

impl Iterator for Fields<'_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        let key = self.varint()?;
        let length = match key & 7 {
            VARINT => {
                let begin = self.at;
                self.varint()?;
                return Some(Field { number: key >> 3, begin });
            }
            FIXED64 => 8,
            LENGTH => self.varint()?,
            FIXED32 => 4,
            _ => return None,
        };
        let begin = self.at;
        // An offset beyond the end makes the next step find nothing.
        let end = usize::try_from(length).ok().and_then(|it| begin.checked_add(it));
        self.at = end.unwrap_or(usize::MAX);
        Some(Field { number: key >> 3, begin })
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::grpc::proto::{
        ModelInferRequest,
        model_infer_request::InferInputTensor,
        tensorflow::{
            TensorProto, TensorShapeProto,
            serving::{ModelSpec, PredictRequest},
        },
    };

    #[test]
    fn the_first_raw_tensor_is_found_though_not_all_of_it_is_there() {
        let request = ModelInferRequest {
            model_name: "m".to_owned(),
            inputs: vec![InferInputTensor { name: "x".repeat(200), ..Default::default() }],
            raw_input_contents: vec![vec![1; 300].into(), vec![2; 10].into()],
            ..Default::default()
        };
        let message = request.encode_to_vec();
        let at = first_tensor(&message[..message.len() - 250], RAW_INPUT).unwrap();
        assert_eq!(message[at - 2..at + 300], [&[0xac, 0x02][..], &[1; 300]].concat());
        assert_eq!(first_tensor(&message[..100], RAW_INPUT), None);
        assert_eq!(first_tensor(&[0xff; 20], RAW_INPUT), None);
    }

    #[test]
    fn the_first_tensor_of_tensorflow_lies_in_a_map() {
        let tensor = TensorProto {
            dtype: 1,
            tensor_shape: Some(TensorShapeProto::default()),
            tensor_content: vec![3; 300].into(),
            ..TensorProto::default()
        };
        let model_spec = Some(ModelSpec { name: "m".repeat(200), ..ModelSpec::default() });
        let inputs = [("x".to_owned(), tensor)].into();
        let request = PredictRequest { model_spec, inputs, ..PredictRequest::default() };
        let message = request.encode_to_vec();
        let at = first_tensor(&message[..message.len() - 200], TENSOR_CONTENT).unwrap();
        assert_eq!(message[at - 2..at + 300], [&[0xac, 0x02][..], &[3; 300]].concat());
        assert_eq!(first_tensor(&message[..100], TENSOR_CONTENT), None);
    }
}

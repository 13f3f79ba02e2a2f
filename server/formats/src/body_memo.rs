//! What is around the tensors of a request, remembered: clients send it again and again, and only their tensors differ.

use std::{
    iter, mem,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use crate::booleans::check_booleans;
use inference::{request::InferenceRequest, signature::Signature};

/// Most bytes around the tensors of a body that is remembered.
const LONGEST: usize = 512;

/// Most inputs, and most outputs that are asked for, of a request that is remembered; and most dimensions of an input,
/// which take no memory of their own.
const MOST_PORTS: usize = 4;
const MOST_DIMS: usize = 4;

/// What one connection remembers: its last body, less its tensors, and what was decoded of it. `F` is how the reply is
/// to be written.
///
/// Invariant: what is remembered is what a decoder made of exactly these bytes, for exactly this signature, of what
/// does not depend on the tensors. A model that is loaded anew has a new signature, and none gets the address of a
/// signature that is remembered. So memory gives what the decoder would make of a body, or nothing: whatever does not
/// fit is left to the decoder, so that all errors are the decoder's.
#[derive(Debug)]
pub struct BodyMemo<F>(Mutex<Option<Remembered<F>>>);

impl<F> Default for BodyMemo<F> {
    fn default() -> BodyMemo<F> {
        BodyMemo(Mutex::new(None))
    }
}

#[derive(Debug)]
struct Remembered<F> {
    signature: Weak<Signature>,
    /// What the head of the request says of the length of what is in front of the tensors.
    header_length: Option<usize>,
    /// The bytes around the tensors: those in front of each, then those behind the last.
    around: Box<[u8]>,
    inputs: Vec<Input>,
    /// The request without its inputs.
    request: InferenceRequest,
    format: F,
}

impl<F: Clone> BodyMemo<F> {
    /// The most bytes that one holds on the heap, and itself.
    pub const MOST: usize = 2 << 10;

    /// The request that a body is, and how its reply is to be written; `None` where that is not remembered.
    ///
    /// `read` reads an input of that name and shape whose data are text that begins there, and goes on to its end;
    /// `None` where there is no such text.
    pub fn recall(
        &self,
        signature: &Arc<Signature>,
        header_length: Option<usize>,
        body: &Bytes,
        read: impl Fn(&str, &Shape, &mut usize) -> Option<Tensor>,
    ) -> Option<(InferenceRequest, F)> {
        let remembered = self.lock();
        let known = remembered.as_ref()?;
        let is_same = known.signature.as_ptr() == Arc::as_ptr(signature);
        if !is_same || known.header_length != header_length {
            return None;
        }
        let mut inputs = Vec::with_capacity(known.inputs.len());
        let (mut around, mut at) = (&*known.around, 0);
        for input in &known.inputs {
            let (in_front, rest) = around.split_at_checked(input.in_front)?;
            at = skip(body, at, in_front)?;
            let tensor = match input.data {
                Data::Raw(size) => input.take(body, &mut at, size)?,
                Data::Text => read(&input.name, &input.shape, &mut at)?,
            };
            inputs.push(NamedTensor { name: input.name.clone(), tensor });
            around = rest;
        }
        let is_whole = skip(body, at, around) == Some(body.len());
        let request = InferenceRequest { inputs, ..known.request.clone() };
        is_whole.then(|| (request, known.format.clone()))
    }

    /// How the reply to a body is to be written, for whatever model: where the bytes around its tensors, which are raw,
    /// and the sizes of these are what is remembered.
    pub fn format(&self, body: &[u8]) -> Option<F> {
        let remembered = self.lock();
        let known = remembered.as_ref()?;
        let (mut around, mut at) = (&*known.around, 0);
        for input in &known.inputs {
            let (in_front, rest) = around.split_at_checked(input.in_front)?;
            let Data::Raw(size) = input.data else { return None };
            at = skip(body, at, in_front)?.checked_add(size)?;
            around = rest;
        }
        (skip(body, at, around) == Some(body.len())).then(|| known.format.clone())
    }

    /// Remembers what was decoded of a body, unless the request has a name or other parts that are its own, or there is
    /// much around its tensors. `texts` are the places of inputs whose data are text.
    pub fn remember(
        &self,
        signature: &Arc<Signature>,
        header_length: Option<usize>,
        body: &Bytes,
        (request, format): (&InferenceRequest, &F),
        texts: &[Option<Range<usize>>],
    ) {
        let InferenceRequest { id, sequence, parameters, .. } = request;
        let is_own = id.is_some() || sequence.is_some() || !parameters.is_empty();
        let ports = request.inputs.len().max(request.outputs.len());
        if is_own || request.inputs.is_empty() || MOST_PORTS < ports {
            return;
        }
        let (mut around, mut at) = (Vec::new(), 0);
        let texts = texts.iter().cloned().chain(iter::repeat(None));
        let input = |(it, text)| Input::of(it, text, body, &mut at, &mut around);
        let inputs = request.inputs.iter().zip(texts).map(input);
        let Some(inputs) = inputs.collect::<Option<Vec<Input>>>() else { return };
        let behind = body.get(at..).unwrap_or_default();
        if LONGEST < around.len() + behind.len() {
            return;
        }
        around.extend_from_slice(behind);
        *self.lock() = Some(Remembered {
            signature: Arc::downgrade(signature),
            header_length,
            around: around.into(),
            inputs,
            request: InferenceRequest { inputs: Vec::new(), ..request.clone() },
            format: format.clone(),
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Remembered<F>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where `body` goes on behind `known`, which stands there; `None` where it does not.
fn skip(body: &[u8], at: usize, known: &[u8]) -> Option<usize> {
    let end = at.checked_add(known.len())?;
    (body.get(at..end)? == known).then_some(end)
}

/// An input whose data lie in the body.
#[derive(Debug)]
struct Input {
    /// The bytes in front of it, from the end of the one before on.
    in_front: usize,
    name: Arc<str>,
    dtype: DataType,
    shape: Shape,
    data: Data,
}

/// How the data of an input are written.
#[derive(Debug, Clone, Copy)]
enum Data {
    /// So many bytes, as they are.
    Raw(usize),
    /// As text of any length.
    Text,
}

impl Input {
    /// What an input is whose data lie in `body` behind `at`, which goes on to their end: at `text`, or raw. The bytes
    /// in front of it are added to those `around` the inputs. `None` where the data lie elsewhere, and where too much
    /// is in front of them.
    fn of(
        NamedTensor { name, tensor }: &NamedTensor,
        text: Option<Range<usize>>,
        body: &Bytes,
        at: &mut usize,
        around: &mut Vec<u8>,
    ) -> Option<Input> {
        if MOST_DIMS < tensor.shape().dims().len() {
            return None;
        }
        let (place, data) = match text {
            Some(text) => (text, Data::Text),
            None => {
                let data = tensor.contiguous().filter(|it| !it.is_empty())?;
                let start = data.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
                (start..start.checked_add(data.len())?, Data::Raw(data.len()))
            }
        };
        let in_front = body.get(*at..place.start)?;
        if LONGEST < around.len() + in_front.len() || body.len() < place.end {
            return None;
        }
        around.extend_from_slice(in_front);
        *at = place.end;
        Some(Input {
            in_front: in_front.len(),
            name: name.clone(),
            dtype: tensor.dtype(),
            shape: tensor.shape().clone(),
            data,
        })
    }

    /// The tensor whose bytes are those of `body` from `at` on, which goes on to their end; `None` where they are none
    /// of its type and shape.
    fn take(&self, body: &Bytes, at: &mut usize, size: usize) -> Option<Tensor> {
        let end = at.checked_add(size).filter(|it| *it <= body.len())?;
        let data = body.slice(mem::replace(at, end)..end);
        check_booleans(&self.name, self.dtype, &data).ok()?;
        Tensor::new(self.dtype, self.shape.clone(), data).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{kserve_v2, kserve_v2::ReplyFormat, samples};
    use inference::{grant::Grant, signature::Port};

    type Memo = BodyMemo<Arc<ReplyFormat>>;

    /// A model with two inputs, `x` of this type and `y`.
    fn model(x: DataType, y: DataType) -> Arc<Signature> {
        let mut signature = samples::model(8, &["x FP32 [-1]", "y FP32 [-1]"], &["z FP32 [-1]"]);
        let retype = |(port, dtype): (&mut Port, DataType)| port.dtype = dtype;
        signature.inputs.iter_mut().zip([x, y]).for_each(retype);
        Arc::new(signature)
    }

    fn json(x: DataType, size: usize, more: &str) -> String {
        let input = |name: &str, dtype: DataType, size: usize| {
            format!(
                r#"{{"name":"{name}","shape":[1,2],"datatype":"{dtype}","parameters":{{"binary_data_size":{size}}}}}"#
            )
        };
        let (x, y) = (input("x", x, size), input("y", DataType::Fp32, 8));
        let output = r#"{"name":"z","parameters":{"binary_data":true}}"#;
        format!(r#"{{"inputs":[{x},{y}],"outputs":[{output}]{more}}}"#)
    }

    /// Is what is around the tensors of a body known, whatever a text in it is?
    fn is_known(memo: &Memo, model: &Arc<Signature>, length: Option<usize>, body: &Bytes) -> bool {
        memo.recall(model, length, body, |_, _, _| None).is_some()
    }

    /// What is made of a body is the same with and without memory. Was it known?
    #[track_caller]
    fn check(memo: &Memo, model: &Arc<Signature>, json: &str, tail: &[u8]) -> bool {
        let body = Bytes::from([json.as_bytes(), tail].concat());
        let (length, grant) = (Some(json.len()), Grant::all(0));
        let is_known = is_known(memo, model, length, &body);
        let remembered = kserve_v2::decode_with(memo, model, length, body.clone(), &grant);
        let decoded = kserve_v2::decode(model, length, body, &grant);
        assert_eq!(format!("{remembered:?}"), format!("{decoded:?}"));
        is_known
    }

    #[test]
    fn what_comes_again_is_known_and_takes_its_own_tensors() {
        let (memo, model) = (Memo::default(), model(DataType::Fp32, DataType::Fp32));
        let json = json(DataType::Fp32, 8, "");
        assert!(!check(&memo, &model, &json, &[1; 16]));
        assert!(check(&memo, &model, &json, &[2; 16]));
        let body = Bytes::from([json.as_bytes(), &[1; 16]].concat());
        for other in [None, Some(0), Some(json.len() - 1), Some(json.len() + 1)] {
            assert!(!is_known(&memo, &model, other, &body), "{other:?}");
        }
    }

    #[test]
    fn the_format_is_known_by_the_bytes_around_raw_tensors_alone() {
        let (memo, model) = (Memo::default(), model(DataType::Fp32, DataType::Fp32));
        let json = json(DataType::Fp32, 8, "");
        let body = |json: &str, tail: &[u8]| [json.as_bytes(), tail].concat();
        assert_eq!(memo.format(&body(&json, &[1; 16])), None);
        check(&memo, &model, &json, &[1; 16]);
        for turn in 0..3 {
            assert!(memo.format(&body(&json, &[turn; 16])).is_some());
            for length in [0, 8, 15, 17] {
                assert_eq!(memo.format(&body(&json, &vec![turn; length])), None);
            }
            // Each byte around the tensors counts.
            for at in 0..json.len() {
                let mut other = body(&json, &[turn; 16]);
                other[at] ^= 1;
                assert_eq!(memo.format(&other), None, "{at}");
            }
        }
        let text = r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[0,0]}]}"#;
        let decode = |body| kserve_v2::decode_with(&memo, &model, None, body, &Grant::all(0));
        decode(Bytes::from(text)).unwrap();
        assert_eq!(memo.format(text.as_bytes()), None, "text has any length");
    }

    #[test]
    fn the_same_in_front_of_another_length_is_refused_as_ever() {
        let (memo, model) = (Memo::default(), model(DataType::Fp32, DataType::Fp32));
        let json = json(DataType::Fp32, 8, "");
        check(&memo, &model, &json, &[1; 16]);
        for length in [0, 7, 8, 15, 17, 24] {
            assert!(!check(&memo, &model, &json, &vec![1; length]), "{length}");
        }
        assert!(check(&memo, &model, &json, &[1; 16]));
    }

    #[test]
    fn a_model_that_was_loaded_anew_is_another_one() {
        let (memo, json) = (Memo::default(), json(DataType::Fp32, 8, ""));
        let first = model(DataType::Fp32, DataType::Fp32);
        check(&memo, &first, &json, &[1; 16]);
        let address = Arc::as_ptr(&first);
        drop(first);
        // Whatever its inputs are, none gets the place of the first.
        for y in [DataType::Int32, DataType::Fp32] {
            let next = model(DataType::Fp32, y);
            assert_ne!(Arc::as_ptr(&next), address);
            assert!(!check(&memo, &next, &json, &[1; 16]));
            assert_eq!(check(&memo, &next, &json, &[1; 16]), y == DataType::Fp32);
        }
    }

    #[test]
    fn tensors_of_what_is_known_are_checked() {
        let booleans = model(DataType::Bool, DataType::Fp32);
        let (memo, header) = (Memo::default(), json(DataType::Bool, 2, ""));
        check(&memo, &booleans, &header, &[1; 10]);
        assert!(!check(&memo, &booleans, &header, &[2; 10]), "no truth values");
        let texts = model(DataType::Bytes, DataType::Fp32);
        let header = json(DataType::Bytes, 10, "");
        let tail = |first: u8| [&[first, 0, 0, 0, b'a', 1, 0, 0, 0, b'b'][..], &[0; 8]].concat();
        check(&memo, &texts, &header, &tail(1));
        assert!(check(&memo, &texts, &header, &tail(1)));
        assert!(!check(&memo, &texts, &header, &tail(2)), "longer strings than the tensor");
    }

    #[test]
    fn requests_that_are_their_own_are_not_remembered() {
        let (memo, model) = (Memo::default(), model(DataType::Fp32, DataType::Fp32));
        for more in [
            r#","id":"7""#,
            r#","parameters":{"sequence_id":7}"#,
            r#","parameters":{"mine":"a"}"#,
            &" ".repeat(LONGEST),
        ] {
            let json = json(DataType::Fp32, 8, more);
            check(&memo, &model, &json, &[1; 16]);
            assert!(!check(&memo, &model, &json, &[1; 16]), "{more}");
        }
    }

    #[test]
    fn text_is_read_again_and_what_is_around_it_is_not() {
        let (memo, model) = (Memo::default(), model(DataType::Fp32, DataType::Fp32));
        let check = |data: &str, behind: &str, expect: Option<&[f32]>| {
            let input = r#"{"name":"x","shape":[1,2],"datatype":"FP32","data":"#;
            let body = Bytes::from(format!(r#"{{"inputs":[{input}{data}{behind}"#));
            let grant = Grant::all(0);
            let remembered = kserve_v2::decode_with(&memo, &model, None, body.clone(), &grant);
            let decoded = kserve_v2::decode(&model, None, body, &grant);
            assert_eq!(format!("{remembered:?}"), format!("{decoded:?}"), "{data}");
            let values = remembered
                .ok()
                .map(|it| it.0.inputs[0].tensor.as_slice_of::<f32>().unwrap().to_vec());
            assert_eq!(values.as_deref(), expect, "{data}");
        };
        let nested = |depth: usize| format!("{}1,2{}", "[".repeat(depth), "]".repeat(depth));
        check("[1,2]", "}]}", Some(&[1.0, 2.0]));
        check("[3.5,4e9]", "}]}", Some(&[3.5, 4e9]));
        check(" [ [ 5 , 6 ] ] ", "}]}", Some(&[5.0, 6.0]));
        check(&nested(97), "}]}", Some(&[1.0, 2.0]));
        for wrong in
            ["[1]", "[1,2,3]", "[1,\"a\"]", "[1,true]", "[1,2", "", "null", "[1,null]", &nested(98)]
        {
            check(wrong, "}]}", None);
        }
        check("[1,2]", "}]", None);
        check("[1,2]", "}]}}", None);
        check("[7,8]", ",\"parameters\":{}}]}", Some(&[7.0, 8.0]));
        check("[7,8]", "}],\"id\":\"a\"}", Some(&[7.0, 8.0]));
        check("[9,8]", "}]}", Some(&[9.0, 8.0]));
        let body = Bytes::from(
            r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[0,0]}]}"#,
        );
        // The length of the JSON, where the head says it, stays right.
        for length in [body.len(), body.len() - 1] {
            let (length, grant) = (Some(length), Grant::all(0));
            let remembered = kserve_v2::decode_with(&memo, &model, length, body.clone(), &grant);
            let decoded = kserve_v2::decode(&model, length, body.clone(), &grant);
            assert_eq!(format!("{remembered:?}"), format!("{decoded:?}"));
        }
        let is_read = Cell::new(false);
        let known = memo.recall(&model, None, &body, |_, _, _| {
            is_read.set(true);
            None
        });
        assert!(is_read.get() && known.is_none());
    }

    #[test]
    fn what_is_remembered_takes_no_more_than_it_says() {
        let lines = ["a", "b", "c", "d", "e"].map(|it| format!("{it} FP32 [-1]"));
        let lines = lines.each_ref().map(String::as_str);
        let model = Arc::new(samples::model(8, &lines, &lines));
        let is_remembered = |inputs: usize, dims: usize, outputs: usize| {
            let dims = vec!["1"; dims].join(",");
            let input = |name: &str| {
                format!(
                    r#"{{"name":"{name}","shape":[{dims}],"datatype":"FP32","parameters":{{"binary_data_size":4}}}}"#
                )
            };
            let output = |name: &str| format!(r#"{{"name":"{name}"}}"#);
            let names = ["a", "b", "c", "d", "e"];
            let list = |count: usize, of: &dyn Fn(&str) -> String| {
                names.iter().take(count).map(|it| of(it)).collect::<Vec<String>>().join(",")
            };
            let (inputs, outputs) = (list(inputs, &input), list(outputs, &output));
            let json = format!(r#"{{"inputs":[{inputs}],"outputs":[{outputs}]}}"#);
            let tail = vec![0; 4 * inputs.matches("name").count()];
            let (memo, length) = (Memo::default(), Some(json.len()));
            let body = Bytes::from([json.as_bytes(), &tail].concat());
            let decoded = kserve_v2::decode(&model, length, body.clone(), &Grant::all(0)).unwrap();
            let held = allocation_counter::measure(|| {
                let format = Arc::new(decoded.1.clone());
                memo.remember(&model, length, &body, (&decoded.0, &format), &[]);
            });
            let bytes = held.bytes_max as usize + size_of::<Memo>();
            assert!(bytes <= Memo::MOST, "{bytes} bytes");
            is_known(&memo, &model, length, &body)
        };
        assert!(is_remembered(4, MOST_DIMS, 4));
        assert!(!is_remembered(1, MOST_DIMS + 1, 1));
        assert!(!is_remembered(5, 1, 1));
        assert!(!is_remembered(1, 1, 5));
    }
}

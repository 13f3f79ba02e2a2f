//! What TensorFlow Serving writes down of requests: the fields of its `PredictionLog` of which a request is made. Pure.

use std::collections::BTreeMap;

use prost::{DecodeError, Message};

use super::{error::Defect, proto::TensorValue};

/// A request that was written down.
#[derive(Debug)]
pub(super) enum Request {
    Predict {
        /// `None` for the default.
        signature: Option<String>,
        inputs: BTreeMap<String, TensorValue>,
        outputs: Vec<String>,
    },
    /// Of classify, regress and both together.
    Examples { signatures: Vec<Option<String>>, input: Input },
}

/// The request of a `PredictionLog`.
///
/// # Errors
/// What is none, and kinds that are not run; half a sentence.
pub(super) fn request_of(log: &[u8]) -> Result<Request, Defect> {
    let none = |error: DecodeError| Defect::new(format_args!("is no PredictionLog: {error}"));
    let log = PredictionLog::decode(log).map_err(none)?;
    if let Some(logged) = log.predict {
        let Predict { model, inputs, outputs } =
            Predict::decode(logged.request.as_slice()).map_err(none)?;
        return Ok(Request::Predict { signature: signature(model), inputs, outputs });
    }
    if let Some(logged) = log.classify.or(log.regress) {
        let request = WithExamples::decode(logged.request.as_slice()).map_err(none)?;
        let signatures = vec![signature(request.model)];
        return Ok(Request::Examples { signatures, input: request.input.unwrap_or_default() });
    }
    if let Some(logged) = log.multi {
        let request = Several::decode(logged.request.as_slice()).map_err(none)?;
        let signatures = request.tasks.into_iter().map(|it| signature(it.model)).collect();
        return Ok(Request::Examples { signatures, input: request.input.unwrap_or_default() });
    }
    Err(Defect::new("is neither predict, classify, regress nor multi-inference"))
}

fn signature(model: Option<ModelSpec>) -> Option<String> {
    model.map(|it| it.signature).filter(|it| !it.is_empty())
}

/// `prediction_log.proto`. One of its fields is set.
#[derive(Clone, PartialEq, Message)]
struct PredictionLog {
    #[prost(message, optional, tag = "2")]
    classify: Option<Logged>,
    #[prost(message, optional, tag = "3")]
    regress: Option<Logged>,
    #[prost(message, optional, tag = "4")]
    multi: Option<Logged>,
    #[prost(message, optional, tag = "6")]
    predict: Option<Logged>,
}

/// `PredictLog` and its like: a request as it is written, and a response that is skipped.
#[derive(Clone, PartialEq, Message)]
struct Logged {
    #[prost(bytes = "vec", tag = "1")]
    request: Vec<u8>,
}

/// `PredictRequest` of `predict.proto`.
#[derive(Clone, PartialEq, Message)]
struct Predict {
    #[prost(message, optional, tag = "1")]
    model: Option<ModelSpec>,
    #[prost(btree_map = "string, message", tag = "2")]
    inputs: BTreeMap<String, TensorValue>,
    #[prost(string, repeated, tag = "3")]
    outputs: Vec<String>,
}

/// `ClassificationRequest` and `RegressionRequest`.
#[derive(Clone, PartialEq, Message)]
struct WithExamples {
    #[prost(message, optional, tag = "1")]
    model: Option<ModelSpec>,
    #[prost(message, optional, tag = "2")]
    input: Option<Input>,
}

/// `MultiInferenceRequest` of `inference.proto`.
#[derive(Clone, PartialEq, Message)]
struct Several {
    #[prost(message, repeated, tag = "1")]
    tasks: Vec<Task>,
    #[prost(message, optional, tag = "2")]
    input: Option<Input>,
}

#[derive(Clone, PartialEq, Message)]
struct Task {
    #[prost(message, optional, tag = "1")]
    model: Option<ModelSpec>,
}

/// `model.proto`.
#[derive(Clone, PartialEq, Message)]
struct ModelSpec {
    #[prost(string, tag = "3")]
    signature: String,
}

/// `input.proto`: examples as they are written, maybe with what is common to all.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Input {
    #[prost(message, optional, tag = "1")]
    list: Option<Examples>,
    #[prost(message, optional, tag = "2")]
    with_context: Option<Examples>,
}

#[derive(Clone, PartialEq, Message)]
struct Examples {
    #[prost(bytes = "vec", repeated, tag = "1")]
    examples: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "2")]
    context: Vec<u8>,
}

impl Input {
    /// The serialized examples, each behind what is common to all.
    pub(super) fn examples(self) -> Vec<Vec<u8>> {
        let Examples { examples, context } = self.list.or(self.with_context).unwrap_or_default();
        examples.into_iter().map(|it| [context.as_slice(), &it].concat()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(request: &impl Message) -> Option<Logged> {
        Some(Logged { request: request.encode_to_vec() })
    }

    fn model(signature: &str) -> Option<ModelSpec> {
        Some(ModelSpec { signature: signature.to_owned() })
    }

    fn examples(context: &str) -> Option<Input> {
        let examples = vec![b"one".to_vec(), b"two".to_vec()];
        let with_context = Some(Examples { examples, context: context.into() });
        Some(Input { list: None, with_context })
    }

    #[test]
    fn requests_with_examples_have_the_context_in_front_of_each_and_a_run_for_each_task() {
        let request = WithExamples { model: model("classify"), input: examples("c") };
        for log in [
            PredictionLog { classify: logged(&request), ..PredictionLog::default() },
            PredictionLog { regress: logged(&request), ..PredictionLog::default() },
        ] {
            let Request::Examples { signatures, input } = request_of(&log.encode_to_vec()).unwrap()
            else {
                panic!("expected examples")
            };
            assert_eq!(signatures, [Some("classify".to_owned())]);
            assert_eq!(input.examples(), [b"cone", b"ctwo"]);
        }
        let tasks = vec![Task { model: model("a") }, Task { model: None }];
        let request = Several { tasks, input: examples("") };
        let log = PredictionLog { multi: logged(&request), ..PredictionLog::default() };
        let Request::Examples { signatures, .. } = request_of(&log.encode_to_vec()).unwrap() else {
            panic!("expected examples")
        };
        assert_eq!(signatures, [Some("a".to_owned()), None]);
    }

    #[test]
    fn other_kinds_and_what_is_no_message_are_refused() {
        // A session run has the number 5.
        for log in [&[0x2a, 0][..], &[], b"\xff\xff"] {
            assert!(request_of(log).is_err(), "{log:?}");
        }
    }
}

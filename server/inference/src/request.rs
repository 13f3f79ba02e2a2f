//! One inference, between any protocol and any engine: what is asked and what is answered.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{NamedTensor, PartSender, Shape};
pub use backend::{Parameter, Parameters};

use crate::{task::Task, timings::Timings, trace::Trace};

/// A decoded request. Its tensors are slices of the body wherever the format allows.
#[derive(Debug, Clone, Default)]
pub struct InferenceRequest {
    /// The client's name for this request, echoed in the reply and in errors.
    pub id: Option<Arc<str>>,
    /// Which of the model's signatures it is for: 0 is the default.
    pub signature: usize,
    /// Given inputs, in any order.
    pub inputs: Vec<NamedTensor>,
    /// Wanted outputs, in the order of the reply; empty for all of them.
    pub outputs: Vec<Arc<str>>,
    /// What is asked of a model that takes texts; `None` where its inputs say it.
    pub task: Option<Task>,
    /// When the answer stops being of use.
    pub deadline: Option<Instant>,
    /// 1 is the highest; 0 for the model's default.
    pub priority: u64,
    /// The `timeout` parameter: longest time in the queue, where the model's policy heeds it.
    pub queue_timeout: Option<Duration>,
    /// The sequence that it is a part of.
    pub sequence: Option<Sequence>,
    /// Parameters that mean nothing to the server, in their order.
    pub parameters: Parameters,
    /// May shapes be other than the model's, where its graph looks at them itself? TensorFlow Serving's protocols and
    /// SageMaker's leave them to the graph; KServe's do not.
    pub leaves_shapes_to_graph: bool,
    /// The models whose own code has led to it, the outermost first; none where a client has sent it.
    pub lineage: Vec<Arc<str>>,
    /// What is noted of its way through the server, where it is traced.
    pub trace: Option<Arc<Trace>>,
    /// Where the parts of its answer go, where its model answers in parts.
    pub parts: Option<PartSender>,
}

impl InferenceRequest {
    /// The first dimension of all inputs, where each has two or more and they agree in that one.
    pub fn rows(&self) -> Option<usize> {
        let mut shapes = self.inputs.iter().map(|it| it.tensor.shape());
        let first = |it: &Shape| it.rows().filter(|_| it.dims().len() > 1);
        let rows = first(shapes.next()?)?;
        shapes.all(|it| first(it) == Some(rows)).then_some(rows)
    }

    /// Sets a parameter to a text, in place of whatever the body gave that name, in any case of letters: headers may
    /// be those of a proxy that knows the client's identity better than the client does.
    pub fn override_parameter(&mut self, name: &str, text: String) {
        self.parameters.retain(|it| !it.0.eq_ignore_ascii_case(name));
        self.parameters.push((name.into(), Parameter::Text(text.into())));
    }
}

/// A request's place in a sequence of requests that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Which sequence.
    pub id: SequenceId,
    /// Is it the first one?
    pub start: bool,
    /// Is it the last one?
    pub end: bool,
}

/// The client's name for a sequence; neither 0 nor empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SequenceId {
    /// A number.
    Number(u64),
    /// A text.
    Text(Arc<str>),
}

/// The answer to one request.
#[derive(Debug, Clone)]
pub struct InferenceResponse {
    /// Name of the model that ran.
    pub model: Arc<str>,
    /// The version that ran.
    pub version: u64,
    /// The request's id.
    pub id: Option<Arc<str>>,
    /// Rows of the request: the first dimension of its inputs, where all have two or more and agree in that one.
    pub rows: Option<usize>,
    /// The wanted outputs, in the wanted order.
    pub outputs: Vec<NamedTensor>,
    /// What else the model says to the client.
    pub parameters: Parameters,
    /// Where the time went; `None` where it is not known.
    pub timings: Option<Timings>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overriding_parameter_takes_the_place_of_the_one_of_its_name() {
        let bool = |name: &str| (name.into(), Parameter::Bool(true));
        let parameters = vec![bool("X-User"), bool("other")];
        let mut request = InferenceRequest { parameters, ..InferenceRequest::default() };
        request.override_parameter("x-user", "ann".to_owned());
        let ann = ("x-user".into(), Parameter::Text("ann".into()));
        assert_eq!(request.parameters, [bool("other"), ann]);
    }
}

//! `PredictRequest`: a message with tensors by the names of inputs.

use backend::NamedTensor;
use bytes::Bytes;
use smallvec::SmallVec;

use super::{spec::Spec, tensor::Given};
use formats::kserve_v2::suggestion;
use frontend::grpc::wire::{self, Parts, WireProblem};
use inference::{error::Error, request::InferenceRequest, signature::Signature};

/// A `PredictRequest`.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// The model that the request is for.
    pub spec: Spec<'a>,
    inputs: SmallVec<[(&'a str, Given); 1]>,
    /// The outputs that are wanted; none for all.
    filter: SmallVec<[&'a str; 2]>,
}

impl<'a> Request<'a> {
    /// Parses `message`.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the message is malformed, or has too many parts.
    pub fn of(message: &'a Bytes) -> Result<Request<'a>, Error> {
        let mut request = Request::default();
        request.read(message).map_err(|problem| problem.error("PredictRequest"))?;
        request.spec.check()?;
        Ok(request)
    }

    fn read(&mut self, message: &'a Bytes) -> Result<(), WireProblem> {
        let mut parts = Parts::default();
        let mut rest: &'a [u8] = message;
        while let Some((number, kind)) = wire::field(&mut rest)? {
            match number {
                1 => self.spec = Spec::read(wire::delimited(kind, &mut rest)?)?,
                2 => {
                    let mut entry = wire::delimited(kind, &mut rest)?;
                    let (mut name, mut given) = ("", Given::default());
                    while let Some((number, kind)) = wire::field(&mut entry)? {
                        match number {
                            1 => name = wire::text(kind, &mut entry)?,
                            2 => {
                                let tensor = wire::delimited(kind, &mut entry)?;
                                given = Given::read(message, tensor, &mut parts)?;
                            }
                            _ => wire::skip(number, kind, &mut entry)?,
                        }
                    }
                    self.inputs.push((name, given));
                }
                3 => self.filter.push(wire::text(kind, &mut rest)?),
                _ => wire::skip(number, kind, &mut rest)?,
            }
            parts.count(1)?;
        }
        Ok(())
    }

    /// Bytes of memory that decoding takes at most, besides the message.
    pub fn bound(&self) -> usize {
        self.inputs.iter().map(|(_, given)| given.bound()).fold(0, usize::saturating_add)
    }

    /// All inputs that are missing, and all that are not the signature's, as TensorFlow Serving names them.
    fn check_names(&self, signature: &Signature) -> Result<(), Error> {
        let is_given = |name: &str| self.inputs.iter().any(|it| it.0 == name);
        let required = signature.inputs.iter().filter(|it| !it.optional).map(|it| &*it.name);
        let missing = quoted(required.filter(|it| !is_given(it)));
        let given = self.inputs.iter().map(|it| it.0);
        let unknown = quoted(given.filter(|it| signature.input(it).is_none()));
        let problem = match (missing.as_str(), unknown.as_str()) {
            ("", "") => return Ok(()),
            (missing, "") => format!("required inputs are missing: {missing}"),
            ("", unknown) => format!("these are no inputs of it: {unknown}"),
            (missing, unknown) => {
                format!(
                    "required inputs are missing: {missing}; these are no inputs of it: {unknown}"
                )
            }
        };
        let known = quoted(signature.inputs.iter().map(|it| &*it.name));
        Err(Error::InvalidRequest(format!(
            "model '{}', signature '{}': {problem}; its inputs are {known}",
            signature.model,
            signature.name()
        )))
    }

    /// The request. Not checked: whether shapes fit the model, and whether an input is missing.
    ///
    /// # Errors
    /// The name of the input or output, what is wrong, what was expected and what was given.
    pub fn decode(self, signature: &Signature) -> Result<InferenceRequest, Error> {
        let model = &signature.model;
        if signature.named.is_some() {
            self.check_names(signature)?;
        }
        let mut request = InferenceRequest {
            inputs: Vec::with_capacity(self.inputs.len().min(signature.inputs.len())),
            leaves_shapes_to_graph: true,
            ..InferenceRequest::default()
        };
        for (name, given) in self.inputs {
            let Some(port) = signature.input(name) else {
                let known = suggestion(name, signature.inputs.iter().map(|it| &*it.name));
                let problem = format!("model '{model}' has no input '{}'{known}", shown(name));
                return Err(Error::InvalidRequest(problem));
            };
            if request.inputs.iter().any(|it| it.name == port.name) {
                return Err(Error::input(name, "given more than once"));
            }
            let tensor = given.tensor(port.dtype);
            let tensor = tensor.map_err(|problem| Error::input(name, problem))?;
            request.inputs.push(NamedTensor { name: port.name.clone(), tensor });
        }
        for name in self.filter {
            let Some(port) = signature.output(name) else {
                let known = suggestion(name, signature.outputs.iter().map(|it| &*it.name));
                return Err(Error::InvalidRequest(format!(
                    "output_filter: model '{model}' has no output '{}'{known}",
                    shown(name)
                )));
            };
            if request.outputs.contains(&port.name) {
                let problem = format!("output_filter: output '{name}' is given more than once");
                return Err(Error::InvalidRequest(problem));
            }
            request.outputs.push(port.name.clone());
        }
        Ok(request)
    }
}

/// Names in a list, no more than a client can read.
fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.take(MOST_NAMED).map(|it| format!("'{}'", shown(it))).collect();
    names.join(", ")
}

const MOST_NAMED: usize = 32;

/// The start of a client's text, short enough for an error.
fn shown(text: &str) -> String {
    text.chars().take(128).collect()
}

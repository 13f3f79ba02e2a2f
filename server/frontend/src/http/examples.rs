//! A request to a model that works when it is pasted: the smallest one that the model can take. It is shown for models
//! that have answered zeros when they were loaded.

use std::sync::Arc;

use backend::DataType;
use hyper::{HeaderMap, header::HOST};
use serde_json::{Value, json};

use super::{
    address::percent_encode,
    routes::{Listed, MODEL},
    service::{Listener, Service, text},
};
use crate::exchange::offload::offload_covered;
use inference::{
    access::{Category, Need},
    error::{Error, Kind},
    limits::{Permit, out_of_bytes},
    signature::Signature,
    task::Medium,
};
use serving::{ServedModel, request_of_zeros};

/// What a person would send to a model of texts.
pub const SENTENCE: &str = "I am super happy right now.";

/// The sentence as a body of a pipeline.
pub fn sentence() -> String {
    json!({ "inputs": SENTENCE }).to_string()
}

/// Most bytes of the body of an example.
pub const MOST_BYTES: usize = 4096;

/// Most bytes of a body in a line to paste: longer ones are hard to read.
const MOST_OF_LINE: usize = 1024;

/// Models that have a line in one reply. Those beyond are named alone.
const MOST_LINES: usize = 100;

/// What a line takes beside its body and what stands around it in a reply, at most.
const BESIDE_BODY: usize = 1024;

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Its address. The method is POST.
    pub path: String,
    /// Its body, which is JSON.
    pub body: Value,
}

/// A request of zeros in JSON, as KServe v2 has it; `None` where it would have more values than that.
pub fn zeros(signature: &Signature, most: usize) -> Option<Value> {
    let required = signature.inputs.iter().filter(|it| !it.optional);
    let elements = required.map(|it| it.dims.iter().map(|it| it.unwrap_or(1)));
    let all = elements.map(|it| it.fold(1usize, usize::saturating_mul));
    if most < all.fold(0, usize::saturating_add) {
        return None;
    }
    let request = request_of_zeros(signature, 1)?;
    let inputs = request.inputs.iter().map(|input| {
        let (tensor, dtype) = (&input.tensor, input.tensor.dtype());
        let data = vec![zero(dtype); tensor.elements()];
        let shape = tensor.shape().dims();
        json!({"name": &*input.name, "shape": shape, "datatype": dtype.to_string(), "data": data})
    });
    Some(json!({ "inputs": inputs.collect::<Vec<_>>() }))
}

/// The least value of a type, in JSON.
pub fn zero(dtype: DataType) -> Value {
    match dtype {
        DataType::Bytes => "".into(),
        DataType::Bool => false.into(),
        _ => 0.into(),
    }
}

impl Example {
    /// That of a model whose examples are shown; `None` of others, and where no route has a small one.
    pub fn of(service: &Service, model: &ServedModel) -> Option<Example> {
        if !is_shown(model) {
            return None;
        }
        let signature = &*model.signature;
        let of_route = |it: &Listed| {
            let body = (it.route.of_model?)(signature)?.example?;
            let path = it.route.path.replace(MODEL, &percent_encode(&signature.model));
            Some(Example { path, body })
        };
        let mut examples = service.routes.iter().filter_map(of_route);
        // The routes for tensors come first. Those for texts and files, which a pipeline is for, come last.
        match signature.pipeline {
            Some(_) => examples.last(),
            None => examples.next(),
        }
    }
}

/// Are examples of the model shown? It has answered when it was loaded. Models of sounds are not asked for that: most
/// of their graphs refuse zeros for a single sample, which are the least that a request can have.
pub fn is_shown(model: &ServedModel) -> bool {
    model.answers_zeros || model.signature.medium() == Some(Medium::Audio)
}

/// A line for each model that serves, by name.
pub struct Lines {
    /// The names of all models that serve.
    pub names: Vec<Arc<str>>,
    /// The line of each of the first of them.
    pub lines: Vec<String>,
    /// Covers both, and a reply with them.
    pub permit: Permit,
}

impl Lines {
    /// The lines for a client that has sent these headers, for at most so many models.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where there is no memory for them.
    pub async fn of(service: &Service, headers: &HeaderMap, most: usize) -> Result<Lines, Error> {
        let budget = &service.settings.body.budget;
        let names = service.serving.models.ready_names();
        let most = most.min(MOST_LINES).min(names.len());
        // A letter may take six bytes in JSON, and all of it is there twice while a reply is made.
        let of_names: usize = names.iter().map(|it| 12 * it.len() + 64).sum();
        let bytes = of_names + most * 2 * (MOST_OF_LINE + BESIDE_BODY);
        let permit = budget.take(bytes).ok_or_else(|| out_of_bytes(budget))?;
        let origin = origin(service, headers);
        let service = service.clone();
        let write = move || {
            let line = |name: &Arc<str>| line(&service, &origin, name);
            let lines = names.iter().take(most).map(line).collect();
            (names, lines)
        };
        let ((names, lines), permit) = offload_covered(permit, write).await?;
        Ok(Lines { names, lines, permit })
    }

    /// `"models":[..],"try":{..}`: all names, and a line of each of the first, as what is in an object of JSON.
    pub fn to_json(&self) -> String {
        let names = self.names.iter().map(|it| Value::from(&**it)).collect::<Value>();
        let lines = self.names.iter().zip(&self.lines);
        let lines = lines.map(|(name, line)| (name.to_string(), Value::from(line.as_str())));
        let lines = lines.collect::<Value>();
        format!("\"models\":{names},\"try\":{lines}")
    }
}

/// A request for that model as a command: inference where it has answered at load and little is to be sent, else what
/// the model says of itself.
fn line(service: &Service, origin: &Origin, name: &str) -> String {
    let model = service.serving.models.get(name, None).ok();
    let example = model.and_then(|it| Example::of(service, &it));
    let example = example.map(|it| (it.path, it.body.to_string()));
    match example.filter(|(_, body)| body.len() <= MOST_OF_LINE) {
        Some((path, body)) => origin.curl(&path, Some(&body)),
        None => origin.curl(&format!("/v2/models/{}", percent_encode(name)), None),
    }
}

/// Where a client reaches the server, and whether it needs a token there.
pub struct Origin {
    /// `http://localhost:8000`.
    pub url: String,
    /// Does inference need a token?
    pub needs_token: bool,
}

impl Origin {
    /// The command that sends a request: GET, or POST where there is a body.
    pub fn curl(&self, path: &str, body: Option<&str>) -> String {
        let token = match self.needs_token {
            true => " -H 'Authorization: Bearer <token>'",
            false => "",
        };
        let body = body.map(|it| format!(" -d '{}'", it.replace('\'', "'\\''")));
        format!("curl -s {}{path}{token}{}", self.url, body.unwrap_or_default())
    }
}

/// Where the client has reached the server, as it says itself.
fn origin(service: &Service, headers: &HeaderMap) -> Origin {
    let scheme = match service.listener {
        Listener::Tls(_) => "https",
        Listener::Plain | Listener::HealthOnly => "http",
    };
    let is_plain = |it: &&str| {
        let is_of_name = |it: u8| it.is_ascii_alphanumeric() || b".-_:[]".contains(&it);
        !it.is_empty() && it.len() <= 255 && it.bytes().all(is_of_name)
    };
    let host = text(headers, &HOST).filter(is_plain).unwrap_or("localhost");
    Origin { url: format!("{scheme}://{host}"), needs_token: needs_token(service, INFERENCE) }
}

const INFERENCE: Need = Need::reading(Category::Inference);

/// Is a request that needs this refused without a token?
pub fn needs_token(service: &Service, need: Need) -> bool {
    service.check(need, &HeaderMap::new()).is_err_and(|it| it.kind() == Kind::Unauthenticated)
}

//! `/invocations` for models that are a user's script, which reads and writes whole bodies itself: nobody else looks
//! into them.

use std::{
    iter,
    sync::{Arc, OnceLock},
};

use backend::{BackendError, NamedTensor, Parameter, Parameters, Shape, Tensor};
use bytes::Bytes;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Incoming,
    header::{
        ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE,
        HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};

use crate::{front::Hosting, observed::Observed};
use formats::{EncodedReply, json::JsonReader};
use frontend::{
    exchange::{Decoded, Failure, payload::Payload},
    http::{
        answer::{Answer, owned_text},
        body::Segments,
        captures::CUSTOM_ATTRIBUTES,
        in_parts::{Form, inference_in_parts},
        inference::{HttpCodec, Work, inference},
        parts::Parts,
        respond,
    },
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse, Sequence},
    signature::Signature,
};
use serving::{AROUND, SCRIPT, ServedModel};
use telemetry::capture::Captured;

/// Its only input, and its only output.
const BODY: &str = "body";

/// Parameters of an answer: the status, the type of the body, further headers as a JSON object of texts.
const STATUS: &str = "status";
const TYPE: &str = "content_type";
const HEADERS: &str = "headers";

/// The type of a body whose script says none.
const ANY_TYPE: &str = "application/octet-stream";

/// Further headers that scripts are told begin so.
const PLATFORM: &str = "x-amzn-";

/// What the model's parameter says where a script is told all headers, as TorchServe's handlers are.
const WITH_HEADERS: &str = "headers";

/// What no script is told: it is said to this server.
const SECRET: [HeaderName; 2] = [AUTHORIZATION, PROXY_AUTHORIZATION];

/// Headers of a connection and of the frame of a message, which are the server's.
const OF_SERVER: [HeaderName; 8] =
    [CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Is that model one?
pub fn is_script(model: &ServedModel) -> bool {
    model.config.parameters.contains_key(SCRIPT)
}

/// Runs a body on it.
pub async fn infer(
    hosting: &Hosting<'_>,
    model: Arc<ServedModel>,
    parts: &Parts,
    body: Payload<'_, Incoming>,
    sequence: Option<&Sequence>,
) -> Answer {
    let observed = Observed::begin(hosting, &model, parts);
    let head = Arc::new(OnceLock::new());
    let codec = ScriptCodec {
        parameters: [
            parameters(&parts.headers, takes_all_headers(&model)),
            of_what_it_stands_around(hosting, &model),
        ]
        .concat(),
        captured: observed.captured(),
        head: head.clone(),
    };
    let mut answer = match model.streams {
        true => {
            let form = |_: Option<&_>| Form::Body;
            inference_in_parts(hosting.http, model, parts, body, codec, sequence, form).await
        }
        false => inference(hosting.http, model, parts, body, codec, sequence).await,
    };
    if let (Ok(response), Some(head)) = (&mut answer, head.get()) {
        head.put_into(response);
    }
    observed.end(&mut answer);
    answer.or_else(exception)
}

/// An exception of the script is answered with its text alone, as the toolkits that scripts are written for do.
fn exception(failure: Failure) -> Answer {
    let Error::Backend(BackendError::Execute(text)) = &failure.error else { return Err(failure) };
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    failure.answered(status.as_u16());
    let mut response = respond::raw("text/plain; charset=utf-8", Bytes::from(text.clone()));
    *response.status_mut() = status;
    Ok(response)
}

/// Is that model told all headers of a request?
fn takes_all_headers(model: &ServedModel) -> bool {
    model.config.parameters.get(SCRIPT).is_some_and(|it| it == WITH_HEADERS)
}

/// What the script is told of the model that it stands around, where it does.
fn of_what_it_stands_around(hosting: &Hosting<'_>, script: &ServedModel) -> Parameters {
    let Some(model) = script.config.parameters.get(AROUND) else { return Parameters::new() };
    let mut told = vec![("around".into(), Parameter::Text(model.as_str().into()))];
    if hosting.http.serving.control.multi_model().is_ok() {
        told.push(("endpoint".into(), Parameter::Text(script.signature.model.clone())));
    }
    let ports = ["rest_port", "grpc_port"].into_iter().zip(hosting.model_ports);
    let port =
        |(name, port): (&str, Option<u16>)| Some((name.into(), Parameter::Int(port?.into())));
    told.extend(ports.filter_map(port));
    told
}

/// What the script is told of the head of a request.
fn parameters(headers: &HeaderMap, all: bool) -> Parameters {
    let own = [(TYPE, CONTENT_TYPE), ("accept", ACCEPT), ("custom_attributes", CUSTOM_ATTRIBUTES)];
    let is_told = |it: &&HeaderName| match all {
        true => !SECRET.contains(it),
        false => it.as_str().starts_with(PLATFORM),
    };
    let said = |it: &&HeaderName| own.iter().any(|(_, own)| own == *it);
    let further = headers.keys().filter(|it| is_told(it) && !said(it));
    let own = own.iter().map(|(name, header)| ((*name).to_owned(), header.clone()));
    let all = own.chain(further.map(|it| (it.as_str().to_owned(), it.clone())));
    all.filter_map(|(name, header)| {
        let text = owned_text(headers, &header)?;
        Some((name.into(), Parameter::Text(text.into())))
    })
    .collect()
}

/// What the script says of its answer beside the body.
#[derive(Debug, PartialEq)]
struct Head {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Head {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error::Internal`] for a status that a response cannot have, and for headers that are none.
    fn read(parameters: &Parameters, grant: &Grant) -> Result<Head, Error> {
        let wrong = |problem: String| Error::Internal(format!("the script's answer: {problem}"));
        let status = match parameter(parameters, STATUS) {
            None => StatusCode::OK,
            Some(Parameter::Int(number)) => u16::try_from(*number)
                .ok()
                .and_then(|it| StatusCode::from_u16(it).ok())
                .filter(|it| !it.is_informational())
                .ok_or_else(|| {
                    wrong(format!("expected a status from 200 to 999, given {number}"))
                })?,
            Some(other) => return Err(wrong(format!("expected a status, given {other:?}"))),
        };
        let Some(text) = text(parameters, HEADERS) else {
            return Ok(Head { status, headers: Vec::new() });
        };
        // Of the text, and beside it.
        grant.hold(text.len())?;
        let mut headers = Vec::new();
        let read = JsonReader::document(text.as_bytes(), grant, |reader| {
            reader.object(|reader, name| {
                let value = reader.string()?;
                let name = HeaderName::try_from(&*name).ok();
                let value = HeaderValue::try_from(&*value).ok();
                let header = name.zip(value);
                headers.push(header.ok_or_else(|| reader.error("no header can say that"))?);
                Ok(())
            })
        });
        read.map_err(|it| wrong(format!("headers {}: {it}", text.escape_debug())))?;
        headers.retain(|it: &(HeaderName, HeaderValue)| !OF_SERVER.contains(&it.0));
        Ok(Head { status, headers })
    }

    fn put_into(&self, response: &mut Response<Segments>) {
        *response.status_mut() = self.status;
        for (name, value) in &self.headers {
            let by_server = response.headers().get(name).filter(|_| *name == CONTENT_ENCODING);
            // What the server has compressed was encoded before.
            let both = by_server.and_then(|by_server| {
                let both = [value.as_bytes(), b", ", by_server.as_bytes()].concat();
                HeaderValue::from_bytes(&both).ok()
            });
            response.headers_mut().insert(name.clone(), both.unwrap_or_else(|| value.clone()));
        }
    }
}

fn parameter<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a Parameter> {
    parameters.iter().find(|it| &*it.0 == name).map(|it| &it.1)
}

fn text<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    match parameter(parameters, name) {
        Some(Parameter::Text(text)) => Some(text),
        _ => None,
    }
}

/// The codec of whole bodies.
struct ScriptCodec {
    parameters: Parameters,
    captured: Option<Arc<Captured>>,
    /// Where the head of the answer is left for who makes a response of it.
    head: Arc<OnceLock<Head>>,
}

impl HttpCodec for ScriptCodec {
    type Format = Arc<OnceLock<Head>>;

    fn work(&self) -> Work {
        Work::Bytes(0)
    }

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<Arc<OnceLock<Head>>>, Failure> {
        let ScriptCodec { parameters, captured, head } = self;
        if let Some(captured) = captured {
            captured.input(&body);
        }
        // Its length stands in front of it, and it is copied for that.
        if u32::try_from(body.len()).is_err() {
            let problem = format!("a body of {} bytes: a script takes less than 4 GiB", body.len());
            return Err(Error::InvalidRequest(problem).into());
        }
        grant.hold(body.len().saturating_add(size_of::<u32>()))?;
        // A row of a batch, where the script takes several bodies at once.
        let shape: &[usize] = if signature.max_batch_size > 0 { &[1, 1] } else { &[1] };
        let tensor = Tensor::from_strings(Shape::new(shape), iter::once(&body));
        let tensor = tensor.map_err(|it| Error::InvalidRequest(it.to_string()))?;
        let inputs = vec![NamedTensor { name: BODY.into(), tensor }];
        let request = InferenceRequest { inputs, parameters, ..InferenceRequest::default() };
        Ok(Decoded { request, format: head, shared: None })
    }

    fn encode(
        format: &Arc<OnceLock<Head>>,
        _: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        let parameters = &response.parameters;
        let head = Head::read(parameters, grant)?;
        let output = response.outputs.iter().find(|it| &*it.name == BODY);
        let whole = output.map(|it| it.tensor.to_bytes()).unwrap_or_default();
        let body = output.and_then(|it| it.tensor.strings().next()).map_or(0, <[u8]>::len);
        // It ends where the tensor does, as there is one.
        let body = whole.slice(whole.len().saturating_sub(body)..);
        let content_type = text(parameters, TYPE).unwrap_or(ANY_TYPE).to_owned();
        // A run is answered once.
        let _ = format.set(head);
        Ok(EncodedReply {
            content_type: content_type.into(),
            json_length: None,
            headers: Vec::new(),
            body: vec![body],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: i64, headers: &str) -> Result<Head, Error> {
        let headers = (HEADERS.into(), Parameter::Text(headers.into()));
        Head::read(&vec![(STATUS.into(), Parameter::Int(status)), headers], &Grant::uncounted())
    }

    #[test]
    fn a_script_says_status_and_headers_but_not_how_the_message_is_framed() {
        let head = said(415, r#"{"X-Mine": "a", "Content-Length": "7", "connection": "close"}"#);
        let mine = (HeaderName::from_static("x-mine"), HeaderValue::from_static("a"));
        assert_eq!(
            head,
            Ok(Head { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, headers: vec![mine] })
        );
        let head = Head::read(&Parameters::new(), &Grant::uncounted());
        assert_eq!(head, Ok(Head { status: StatusCode::OK, headers: Vec::new() }));
    }

    #[test]
    fn what_no_response_can_say_is_the_scripts_fault() {
        for (status, headers, part) in [
            (100, "{}", "given 100"),
            (-1, "{}", "given -1"),
            (70_000, "{}", "given 70000"),
            (200, "[]", "object"),
            (200, r#"{"a b": "c"}"#, "no header"),
            (200, r#"{"a": "b\r\nc: d"}"#, "no header"),
        ] {
            let error = said(status, headers).unwrap_err();
            assert!(matches!(error, Error::Internal(_)), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

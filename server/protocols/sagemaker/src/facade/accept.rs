//! Accepts an asynchronous invocation: reads its headers, and chooses the place of its result.

use std::time::{Duration, Instant};

use hyper::{
    HeaderMap, Response, StatusCode, Version,
    body::{Body, Incoming},
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT,
        HeaderName, HeaderValue, TRANSFER_ENCODING,
    },
};

use super::{
    endpoint::model_of,
    exception::{Exception, Refusal, json},
    headers::{INNER_CONTENT_TYPE, take_inner_types},
};
use crate::{
    async_invocations::{Input, Job, Submitter},
    codec::aws::{self, Location},
    facade::Facade,
    front::Hosting,
    invocations::parse,
};
use frontend::{
    exchange::intake::{self, Limits},
    http::{body::Segments, parts::Parts, service::text},
};
use inference::{error::Error, identifier::new_uuid};

const INPUT_LOCATION: HeaderName = HeaderName::from_static("x-amzn-sagemaker-inputlocation");
const OUTPUT_LOCATION: HeaderName = HeaderName::from_static("x-amzn-sagemaker-outputlocation");
const FAILURE_LOCATION: HeaderName = HeaderName::from_static("x-amzn-sagemaker-failurelocation");
const INFERENCE_ID: HeaderName = HeaderName::from_static("x-amzn-sagemaker-inference-id");
const TIME_TO_LIVE: HeaderName = HeaderName::from_static("x-amzn-sagemaker-requestttlseconds");
const TIMEOUT: HeaderName = HeaderName::from_static("x-amzn-sagemaker-invocationtimeoutseconds");
const EXTENSION: HeaderName = HeaderName::from_static("x-amzn-sagemaker-s3outputpathextension");
const FILE_NAME: HeaderName = HeaderName::from_static("x-amzn-sagemaker-filename");

/// Most bytes of a body that comes with the request.
const MOST_INLINE: u64 = 128_000;

/// Most characters of an object's address.
const LONGEST_LOCATION: usize = 1024;

/// Seconds that an invocation may wait, and that it may run: least, most, and default.
const WAIT: [u64; 3] = [60, 21_600, 21_600];
const RUN: [u64; 3] = [1, 3600, 900];

/// `POST /endpoints/<name>/async-invocations`.
pub(super) async fn accept(
    hosting: &Hosting<'_>,
    facade: &Facade,
    endpoint: &str,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<Response<Segments>, Refusal> {
    let Some(submitter) = &facade.submitter else {
        return Err(invalid(
            "asynchronous invocations are off: start the server with --async-spool <directory> or --async-output \
             s3://<bucket>/<prefix>",
        ));
    };
    if !hosting.http.serving.drain.is_serving() {
        return Err(Error::ShuttingDown.into());
    }
    // An unknown endpoint is refused at once. The model is looked up again when the invocation runs.
    model_of(hosting, endpoint, &parts.headers, &parse(&parts.headers)).await?;
    let headers = &parts.headers;
    let input = text(headers, &INPUT_LOCATION);
    let input = input.map(|it| input_location(submitter, it)).transpose()?;
    let wait = seconds(headers, &TIME_TO_LIVE, WAIT)?;
    let timeout = seconds(headers, &TIMEOUT, RUN)?;
    let name = new_uuid();
    let (output, failure) = results(submitter, headers, &name)?;
    let inference_id = text(headers, &INFERENCE_ID).map_or_else(new_uuid, str::to_owned);
    let has_body = body.size_hint().exact() != Some(0);
    let input = match (input, has_body) {
        (Some(location), false) => Input::At(location),
        (None, true) => {
            let limits = Limits {
                limit: MOST_INLINE,
                whole: MOST_INLINE,
                ..hosting.http.settings.body.clone()
            };
            Input::Here(intake::read(body, 0, &limits).await.map_err(inline)?)
        }
        (None, false) => {
            return Err(invalid(&format!("expected a body or the header {INPUT_LOCATION}")));
        }
        (Some(_), true) => {
            return Err(invalid(&format!(
                "expected a body or the header {INPUT_LOCATION}, given both"
            )));
        }
    };
    let job = Job {
        endpoint: endpoint.to_owned(),
        parts: inner_parts(parts, &input, &inference_id),
        input,
        output,
        failure,
        inference_id,
        until: Instant::now() + wait,
        wait,
        timeout,
    };
    let mut response = json(StatusCode::ACCEPTED, aws::accepted(&job.inference_id));
    let headers = response.headers_mut();
    for (name, location) in [(OUTPUT_LOCATION, &job.output), (FAILURE_LOCATION, &job.failure)] {
        if let Ok(value) = HeaderValue::try_from(location.to_string()) {
            headers.insert(name, value);
        }
    }
    submitter.push(job)?;
    Ok(response)
}

fn invalid(text: &str) -> Refusal {
    Refusal::Platform(Exception::Validation, Error::InvalidRequest(text.to_owned()).into())
}

/// An inline body has a limit of its own, not the server's.
fn inline(error: Error) -> Refusal {
    match error {
        Error::BodyTooLarge { given, .. } => invalid(&format!(
            "expected a body of at most {MOST_INLINE} bytes, given {given}; put it into S3 or the spool and name it in \
             {INPUT_LOCATION}"
        )),
        error => error.into(),
    }
}

fn input_location(submitter: &Submitter, given: &str) -> Result<Location, Refusal> {
    if LONGEST_LOCATION < given.len() {
        return Err(invalid(&format!(
            "header {INPUT_LOCATION}: expected at most {LONGEST_LOCATION} characters, given {}",
            given.len()
        )));
    }
    let location = Location::parse(given)
        .map_err(|expected| invalid(&format!("header {INPUT_LOCATION}: {expected}")))?;
    match submitter.may_read(&location) {
        true => Ok(location),
        false => Err(invalid(&format!(
            "header {INPUT_LOCATION}: expected an object below one of the places that --async-input names, or without \
             it in the bucket of --async-output, given '{given}'"
        ))),
    }
}

fn seconds(
    headers: &HeaderMap,
    name: &HeaderName,
    [least, most, usual]: [u64; 3],
) -> Result<Duration, Refusal> {
    let Some(given) = headers.get(name) else { return Ok(Duration::from_secs(usual)) };
    let number = given.to_str().ok().and_then(|it| it.trim().parse().ok());
    let fits = number.filter(|it| (least..=most).contains(it));
    fits.map(Duration::from_secs).ok_or_else(|| {
        invalid(&format!(
            "header {name}: expected a whole number of seconds from {least} to {most}, given '{}'",
            String::from_utf8_lossy(given.as_bytes())
        ))
    })
}

/// The place of the reply, and the place of a failure.
fn results(
    submitter: &Submitter,
    headers: &HeaderMap,
    id: &str,
) -> Result<(Location, Location), Refusal> {
    let extension = match headers.get(&EXTENSION) {
        Some(given) => Some(given.to_str().ok().filter(|it| is_extension(it)).ok_or_else(|| {
            invalid(&format!(
                "header {EXTENSION}: expected at most 512 letters, digits and !_.*'()/-, none of the parts between \
                 slashes empty, . or .."
            ))
        })?),
        None => None,
    };
    let file = match headers.get(&FILE_NAME) {
        Some(given) => given.to_str().ok().filter(|it| is_file_name(it)).ok_or_else(|| {
            invalid(&format!(
                "header {FILE_NAME}: expected at most 32 letters, digits, - and _, beginning with a letter or digit, \
                 with at most one dot"
            ))
        })?,
        None => &format!("{id}.out"),
    };
    let stem = file.strip_suffix(".out").unwrap_or(file);
    let output = submitter.result(extension, file);
    let failure = submitter.result(extension, &format!("{stem}-error.out"));
    output.zip(failure).ok_or_else(|| invalid("the result has no place: see --async-output"))
}

fn is_extension(text: &str) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric() || "!_.*'()/-".contains(it);
    let parts = text.trim_matches('/');
    text.len() <= 512
        && text.chars().all(plain)
        && parts.split('/').all(|it| !["", ".", ".."].contains(&it))
}

fn is_file_name(text: &str) -> bool {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    text.len() <= 32
        && text.starts_with(|it: char| it.is_ascii_alphanumeric())
        && text.chars().all(plain)
        && text.matches('.').count() <= 1
}

/// The request as the model's container would see it.
fn inner_parts(parts: &Parts, input: &Input, inference_id: &str) -> Parts {
    let mut inner = parts.clone();
    inner.version = Version::default();
    inner.extensions.clear();
    let headers = &mut inner.headers;
    for name in [AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    if matches!(input, Input::At(_)) {
        // These headers describe the body of this request, which is empty.
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_TYPE);
    }
    take_inner_types(headers);
    headers.remove(INNER_CONTENT_TYPE);
    if let Ok(id) = HeaderValue::try_from(inference_id) {
        headers.insert(INFERENCE_ID, id);
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_and_file_names_are_those_of_the_platform() {
        for text in ["a", "team/2026-01", "a/b/", "x!_.*'()-"] {
            assert!(is_extension(text), "{text}");
        }
        for text in ["", "/", "..", "a/../b", "a//b", "a b", "s3:", "a\\b", &"x".repeat(513)] {
            assert!(!is_extension(text), "{text}");
        }
        for text in ["a", "result.json", "0-_.x"] {
            assert!(is_file_name(text), "{text}");
        }
        for text in ["", ".", "..", ".a", "a.b.c", "a/b", "-a", &"x".repeat(33)] {
            assert!(!is_file_name(text), "{text}");
        }
    }

    #[test]
    fn seconds_are_bounded_and_have_a_usual_value() {
        let check = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(TIMEOUT, HeaderValue::from_static(value));
            }
            seconds(&headers, &TIMEOUT, RUN).ok().map(|it| it.as_secs())
        };
        assert_eq!(check(None), Some(900));
        assert_eq!(check(Some("1")), Some(1));
        assert_eq!(check(Some("3600")), Some(3600));
        for wrong in ["0", "3601", "-1", "1.5", "x", ""] {
            assert_eq!(check(Some(wrong)), None, "{wrong}");
        }
    }
}

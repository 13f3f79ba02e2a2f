//! Encodes `ClassificationResponse`, `RegressionResponse` and `MultiInferenceResponse`.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::{reply::too_large, spec};
use formats::tfs::{Classes, Results, regressions};
use frontend::grpc::{
    PREFIX,
    pieces::{MOST, field, text},
    wire,
};
use inference::{error::Error, request::InferenceResponse, signature::Signature};

/// Encodes the response to `Classify` or `Regress`, with the prefix of its message.
///
/// # Errors
/// [`Error::InvalidRequest`] when the outputs of the run have shapes that the call does not allow.
pub fn encode_one(
    results: &Results,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<VecDeque<Bytes>, Error> {
    let (_, result) = result(results, signature, response)?;
    message(|out| {
        nested(out, 1, &result);
        spec::write(out, 2, signature, response);
    })
}

/// Encodes the response to `MultiInference`, a result for each task.
///
/// # Errors
/// As [`encode_one`].
pub fn encode_many(
    several: &[Results],
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<VecDeque<Bytes>, Error> {
    let results = several.iter().map(|results| {
        let (number, bytes) = result(results, signature, response)?;
        let mut one = Vec::with_capacity(bytes.len() + 64 + response.model.len());
        spec::write(&mut one, 1, signature, response);
        nested(&mut one, number, &bytes);
        Ok(one)
    });
    let results = results.collect::<Result<Vec<_>, Error>>()?;
    message(|out| results.iter().for_each(|it| nested(out, 1, it)))
}

/// The results of several of these messages in the order of `tasks`: for each the next one of its signature.
///
/// # Errors
/// Where they are too large together.
pub fn join(
    tasks: &[String],
    responses: Vec<(String, VecDeque<Bytes>)>,
) -> Result<VecDeque<Bytes>, Error> {
    let broken = || Error::Internal("a response is broken".to_owned());
    let whole = |(name, mut pieces): (String, VecDeque<Bytes>)| match pieces.len() {
        1 => pieces.pop_front().map(|it| (name, it)),
        _ => Some((name, pieces.make_contiguous().concat().into())),
    };
    let responses: Vec<(String, Bytes)> = responses.into_iter().filter_map(whole).collect();
    let mut results = Vec::with_capacity(responses.len());
    for (name, bytes) in &responses {
        let mut rest = bytes.get(PREFIX..).ok_or_else(broken)?;
        let mut own = VecDeque::new();
        while let Some((_, kind)) = wire::field(&mut rest).map_err(|_| broken())? {
            own.push_back(wire::delimited(kind, &mut rest).map_err(|_| broken())?);
        }
        results.push((name, own));
    }
    let mut ordered = Vec::with_capacity(tasks.len());
    for task in tasks {
        let own = results.iter_mut().find(|it| it.0 == task).ok_or_else(broken)?;
        ordered.push(own.1.pop_front().ok_or_else(broken)?);
    }
    message(|out| ordered.iter().for_each(|it| nested(out, 1, it)))
}

/// A message with its prefix.
fn message(write: impl FnOnce(&mut Vec<u8>)) -> Result<VecDeque<Bytes>, Error> {
    let mut out = Vec::new();
    out.put_slice(&[0; PREFIX]);
    write(&mut out);
    let length = out.len() - PREFIX;
    if MOST < length {
        return Err(too_large(length));
    }
    if let Some(prefix) = out.get_mut(1..PREFIX) {
        // The length is at most MOST, so it fits.
        prefix.copy_from_slice(&(length as u32).to_be_bytes());
    }
    Ok([Bytes::from(out)].into())
}

fn nested(out: &mut Vec<u8>, number: u32, message: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.extend_from_slice(message);
}

/// A `ClassificationResult` or `RegressionResult`, and its field number in an `InferenceResult`.
fn result(
    results: &Results,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<(u32, Vec<u8>), Error> {
    let mut out = Vec::new();
    match results {
        Results::Classes(scored) => {
            for row in Classes::of(scored, signature, response)?.rows() {
                let mut classifications = Vec::new();
                for (label, score) in row {
                    let label_length = if label.is_empty() { 0 } else { field(label.len()) };
                    encode_key(1, WireType::LengthDelimited, &mut classifications);
                    encode_varint((label_length + FLOAT) as u64, &mut classifications);
                    if !label.is_empty() {
                        text(&mut classifications, 1, label);
                    }
                    float(&mut classifications, 2, score);
                }
                nested(&mut out, 1, &classifications);
            }
            Ok((2, out))
        }
        Results::Values(name) => {
            for value in regressions(name, response)? {
                encode_key(1, WireType::LengthDelimited, &mut out);
                encode_varint(FLOAT as u64, &mut out);
                float(&mut out, 1, value);
            }
            Ok((3, out))
        }
        Results::Predictions(_) => {
            Err(Error::Internal("predictions are no result of examples".to_owned()))
        }
    }
}

/// Bytes of a float with its key.
const FLOAT: usize = 5;

fn float(out: &mut Vec<u8>, number: u32, value: f32) {
    encode_key(number, WireType::ThirtyTwoBit, out);
    out.extend_from_slice(&value.to_le_bytes());
}

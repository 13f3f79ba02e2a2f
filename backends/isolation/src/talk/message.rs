//! What the two sides of a talk say to each other, in JSON. The bytes of tensors lie behind it, in their order.

use std::{borrow::Cow, collections::BTreeMap, io, sync::Arc};

use backend::{
    CallError, DataType, MetricKind, MetricVerb, NamedTensor, Parameter, Parameters, Shape, Tensor,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::frame::Garbage;

/// A call: the run of the lane that it came with, and its place there.
pub(crate) type CallId = (u64, u32);

/// Bytes of the two lengths before a frame: of its JSON, and of what lies behind that.
pub(super) const HEAD: usize = 8;

/// The longest JSON of a frame that a worker sends: a list of tensors, or the text of an error.
pub(super) const LONGEST_JSON: usize = 512 << 10;

/// What a worker says.
#[derive(Debug, Deserialize)]
pub(super) enum FromWorker<'a> {
    /// One part of the answer to a call.
    Part {
        call: CallId,
        #[serde(borrow)]
        outputs: Vec<SaidTensor<'a>>,
        #[serde(borrow, default)]
        parameters: SaidParameters<'a>,
        /// Is it the end of the answer, too?
        #[serde(default)]
        last: bool,
    },
    /// The end of the answer to a call.
    End { call: CallId, error: Option<CallError> },
    /// The worker waits until a part of that answer is read. It has sent too few for the server to say so by itself.
    Full { call: CallId },
    /// That call has sent its last part, and its request is to be run once more.
    Again { call: CallId },
    /// A request to another model.
    #[serde(borrow)]
    Infer(Box<SaidAsk<'a>>),
    /// Nobody waits for the answer to that request any more.
    Cancel { ask: u64 },
    /// To load another model, to unload it, or whether it is ready.
    Control { ask: u64, verb: SaidControl },
    /// A metric of the model's own.
    Metric(Box<SaidMetric>),
}

type SaidParameters<'a> = BTreeMap<Cow<'a, str>, Parameter>;

/// A tensor, whose bytes lie behind the JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SaidTensor<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    dtype: DataType,
    dims: Vec<u64>,
    len: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct SaidAsk<'a> {
    pub(super) ask: u64,
    /// Those in whose answering it is asked.
    pub(super) calls: Vec<CallId>,
    pub(super) model: String,
    pub(super) version: Option<u64>,
    #[serde(default)]
    pub(super) id: String,
    pub(super) correlation: Option<Parameter>,
    #[serde(default)]
    pub(super) flags: u32,
    #[serde(default)]
    pub(super) timeout_us: u64,
    #[serde(borrow, default)]
    pub(super) parameters: SaidParameters<'a>,
    #[serde(default)]
    pub(super) outputs: Vec<String>,
    #[serde(borrow)]
    pub(super) inputs: Vec<SaidTensor<'a>>,
    pub(super) rest: Option<String>,
    #[serde(default)]
    pub(super) decoupled: bool,
}

#[derive(Debug, Deserialize)]
pub(super) enum SaidControl {
    Load { model: String, config: String, files: Vec<(String, u64)> },
    Unload { model: String, dependents: bool },
    IsReady { model: String, version: Option<u64> },
}

#[derive(Debug, Deserialize)]
pub(super) struct SaidMetric {
    /// `None`: nobody waits for an answer.
    pub(super) ask: Option<u64>,
    pub(super) family: String,
    pub(super) description: String,
    pub(super) kind: MetricKind,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) buckets: Vec<f64>,
    pub(super) verb: MetricVerb,
}

/// What the server says.
#[derive(Debug, Serialize)]
pub(super) enum ToWorker<'a> {
    /// So many parts of the answer to that call were read.
    Taken { call: CallId, parts: u32 },
    /// Nobody waits for the answer to that call any more.
    Left { call: CallId },
    /// One part of the answer to a request of the model's own.
    Answered {
        ask: u64,
        outputs: Vec<SaidTensor<'a>>,
        parameters: BTreeMap<&'a str, &'a Parameter>,
    },
    /// The end of what was asked.
    Ended { ask: u64, error: Option<CallError>, value: Option<Value> },
}

/// What a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    Number(f64),
    Bool(bool),
}

pub(super) fn parameters(said: SaidParameters<'_>) -> Parameters {
    said.into_iter().map(|(name, it)| (name.into(), it)).collect()
}

/// The tensors whose bytes these are, as copies: each is aligned for its elements then.
///
/// # Errors
/// Where they are not what they are said to be.
pub(super) fn tensors(
    said: &[SaidTensor<'_>],
    mut bytes: &[u8],
) -> Result<Vec<NamedTensor>, Garbage> {
    let tensors = said.iter().map(|it| {
        let own = split(&mut bytes, it.len).ok_or_else(|| Garbage::Outside(it.name.to_string()))?;
        let shape: Shape = it.dims.iter().map(|it| *it as usize).collect();
        let tensor = Tensor::new(it.dtype, shape, Bytes::copy_from_slice(own));
        let no_tensor = |error| Garbage::NoTensor { name: it.name.to_string(), error };
        Ok(NamedTensor { name: Arc::from(&*it.name), tensor: tensor.map_err(no_tensor)? })
    });
    let tensors = tensors.collect::<Result<_, Garbage>>()?;
    is_all(bytes).map(|()| tensors)
}

/// The first `len` of these bytes, which go. `None` where there are fewer.
pub(super) fn split<'a>(bytes: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (own, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(own)
}

/// # Errors
/// Where there are bytes that nothing is said of.
pub(super) fn is_all(rest: &[u8]) -> Result<(), Garbage> {
    match rest.len() {
        0 => Ok(()),
        len => Err(Garbage::Unexpected(format!("{len} bytes that nothing is said of"))),
    }
}

/// The frame of that message, and of these tensors: bytes one behind the other.
///
/// # Errors
/// Where it is longer than a frame can be.
pub(super) fn encode(said: &ToWorker<'_>, tensors: &[NamedTensor]) -> io::Result<Vec<Bytes>> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, said)?;
    let bytes: usize = tensors.iter().map(|it| it.tensor.byte_len()).sum();
    let too_long = |_| io::Error::from(io::ErrorKind::FileTooLarge);
    let json = u32::try_from(frame.len() - HEAD).map_err(too_long)?;
    let bytes = u32::try_from(bytes).map_err(too_long)?;
    let head = [json, bytes].map(u32::to_le_bytes);
    frame[..HEAD].copy_from_slice(head.as_flattened());
    let segments = tensors.iter().flat_map(|it| it.tensor.segments().iter().cloned());
    Ok(std::iter::once(frame.into()).chain(segments).collect())
}

/// What is said of these tensors.
pub(super) fn said(tensors: &[NamedTensor]) -> Vec<SaidTensor<'_>> {
    tensors.iter().map(SaidTensor::from).collect()
}

impl<'a> From<&'a NamedTensor> for SaidTensor<'a> {
    fn from(it: &'a NamedTensor) -> SaidTensor<'a> {
        SaidTensor {
            name: Cow::Borrowed(&it.name),
            dtype: it.tensor.dtype(),
            dims: it.tensor.shape().dims().iter().map(|it| *it as u64).collect(),
            len: it.tensor.byte_len() as u64,
        }
    }
}

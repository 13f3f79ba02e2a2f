//! Runs of a program that answers each request of a batch by itself: what is said of such a run, in JSON, beside what
//! is said of any.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use backend::{About, Call, CallAnswer, CallError, NamedTensor, Parameter, Parameters};
use serde::{Deserialize, Serialize};

use crate::{
    arena::HostArena,
    frame::Garbage,
    message::{Answer, Execute, Placed},
};

/// A flag of Triton's C interface: the first request of a sequence, the last one.
const SEQUENCE_START: u32 = 1;
const SEQUENCE_END: u32 = 2;

/// One run of requests that are answered each by itself.
#[derive(Debug, Serialize)]
pub(crate) struct ExecuteCalls<'a> {
    #[serde(flatten)]
    pub(crate) run: Execute<'a>,
    pub(crate) calls: Vec<SaidCall<'a>>,
}

/// One of its requests.
#[derive(Debug, Serialize)]
pub(crate) struct SaidCall<'a> {
    rows: usize,
    outputs: &'a [Arc<str>],
    about: SaidAbout<'a>,
    /// Is it answered in parts, by way of the talk?
    streams: bool,
}

#[derive(Debug, Default, Serialize)]
struct SaidAbout<'a> {
    id: &'a str,
    parameters: BTreeMap<&'a str, &'a Parameter>,
    correlation: Option<&'a Parameter>,
    flags: u32,
    timeout_us: u64,
}

impl<'a> From<&Call<'a>> for SaidCall<'a> {
    fn from(call: &Call<'a>) -> SaidCall<'a> {
        let about = call.about.map(SaidAbout::from).unwrap_or_default();
        SaidCall { rows: call.rows, outputs: call.outputs, about, streams: call.parts.is_some() }
    }
}

impl<'a> From<&'a About> for SaidAbout<'a> {
    fn from(about: &'a About) -> SaidAbout<'a> {
        let (correlation, flags) = match &about.sequence {
            None => (None, 0),
            Some((id, place)) => {
                let start = if place.start { SEQUENCE_START } else { 0 };
                (Some(id), if place.end { start | SEQUENCE_END } else { start })
            }
        };
        let parameters = about.parameters.iter().map(|(name, value)| (&**name, value)).collect();
        let (id, timeout_us) = (about.id.as_deref().unwrap_or_default(), about.timeout_us);
        SaidAbout { id, parameters, correlation, flags, timeout_us }
    }
}

/// What is answered to such a run.
#[derive(Debug, Deserialize)]
pub(crate) struct CallsAnswer<'a> {
    /// Without outputs.
    #[serde(borrow, flatten)]
    pub(crate) run: Answer<'a>,
    #[serde(borrow, default)]
    pub(crate) each: Vec<Result<SaidAnswer<'a>, CallError>>,
}

/// What one of its requests is answered.
#[derive(Debug, Deserialize)]
pub(crate) struct SaidAnswer<'a> {
    #[serde(borrow)]
    outputs: Vec<Placed<'a>>,
    #[serde(borrow, default)]
    parameters: BTreeMap<Cow<'a, str>, Parameter>,
    /// Is it to be run once more?
    #[serde(default)]
    again: bool,
}

/// The answers with their outputs, which are copied out of the memory of the lane.
///
/// # Errors
/// Those of [`HostArena::take`].
pub(crate) fn take_each(
    arena: &mut HostArena,
    each: Vec<Result<SaidAnswer<'_>, CallError>>,
) -> Result<Vec<Result<CallAnswer, CallError>>, Garbage> {
    let mut placed = Vec::new();
    let said: Vec<Result<(usize, Parameters, bool), CallError>> = each
        .into_iter()
        .map(|it| {
            it.map(|SaidAnswer { outputs, parameters, again }| {
                let count = outputs.len();
                placed.extend(outputs);
                let parameters = parameters.into_iter().map(|(name, it)| (name.into(), it));
                (count, parameters.collect(), again)
            })
        })
        .collect();
    let mut outputs = arena.take(&placed)?.into_iter();
    let answer = |(count, parameters, again)| {
        let outputs: Vec<NamedTensor> = outputs.by_ref().take(count).collect();
        CallAnswer { outputs, parameters, again }
    };
    let mut answer = answer;
    Ok(said.into_iter().map(|it| it.map(&mut answer)).collect())
}

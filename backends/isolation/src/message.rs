//! What the two sides say to each other. Frames are written by postcard; names of tensors are lent, not copied.

use std::{any::Any, borrow::Cow, sync::Arc, time::Duration};

use backend::{
    BackendError, DataType, Device, ModelSource, ModelSpec, RunMemory, Signatures, WarmUp,
};
use serde::{Deserialize, Serialize};

use crate::sandbox::Order;

/// What the server says to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// The first message: the model to load, by the engine of that name, in that sandbox, on threads of that niceness.
    /// Answered by an [`Entered`] and a [`LoadAnswer`].
    Load { engine: String, source: Box<ModelSource>, order: Order, niceness: i32 },
    /// The load, or the making of an instance, has lasted too long.
    StopLoad,
    /// One more instance. A socket, by which it is answered, and its two memory files come along: frames, and tensors.
    /// May it look for frames before it sleeps? A program that is not this one is told what it makes.
    Open { lane: u32, device: Device, may_look: bool, instance: Option<InstanceFacts> },
    /// Nobody waits for that run of that lane any more.
    Stop { lane: u32, run: u64 },
    /// Does the model's own code say that it can serve? A socket comes along, by which a program answers [`Readiness`].
    IsReady,
    /// Memory is scarce: what the model and its engine keep for later runs is to go.
    TrimMemory,
    /// The load is over: what its runs have left in the engine is to go.
    GiveBackMemory,
}

/// What an instance is told of itself: the program has nobody else to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceFacts {
    /// Its name, as Triton forms it.
    pub(crate) name: String,
    /// The configuration that its model is served with, in JSON.
    pub(crate) config: Arc<str>,
}

/// What a worker says once it is in its sandbox. Where that is `true`, a file comes along by which the kernel asks the
/// server before a thread is started.
pub(crate) type Entered = Result<bool, Fault>;

/// What a worker answers to a load, after that.
pub(crate) type LoadAnswer = Result<Box<Loaded>, Fault>;

/// What a model says of itself, as [`backend::Model`] does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Loaded {
    pub(crate) spec: Option<ModelSpec>,
    pub(crate) signatures: Option<Signatures>,
    pub(crate) run_memory: RunMemory,
    pub(crate) notes: Vec<(Cow<'static, str>, String)>,
    pub(crate) keeps_state: bool,
    pub(crate) allows_trial_runs: bool,
    pub(crate) warm_up: Option<WarmUp>,
    /// Of the engine's library.
    pub(crate) version: Option<String>,
    /// The configuration as the model's own code has completed it, in JSON.
    pub(crate) completed: Option<String>,
    /// Are requests answered each by itself?
    pub(crate) answers_each: bool,
    /// May they be answered in parts?
    pub(crate) streams: bool,
    /// Does the model's own code say whether it can serve?
    pub(crate) tells_readiness: bool,
}

impl Loaded {
    /// What makes another load one of another model. Files are looked at elsewhere.
    pub(crate) fn change_to(&self, other: &Loaded) -> Option<String> {
        let of = |version: &Option<String>| version.clone().unwrap_or_else(|| "unknown".to_owned());
        // What the same requests took is another time with each load.
        let requests = |it: &Loaded| it.warm_up.map(|it| it.requests);
        let is_same = || {
            let other = Loaded { warm_up: self.warm_up, ..other.clone() };
            *self == other
        };
        match other {
            other if self.version != other.version => Some(format!(
                "the version of its engine's library has changed from {} to {}",
                of(&self.version),
                of(&other.version)
            )),
            other if requests(self) != requests(other) || !is_same() => {
                Some("it has got other inputs, outputs or properties".to_owned())
            }
            _ => None,
        }
    }
}

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Execute<'a> {
    /// Its number in the lane, counted from zero.
    pub(crate) run: u64,
    #[serde(borrow)]
    pub(crate) inputs: Vec<Placed<'a>>,
    #[serde(borrow)]
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) rows: u64,
    pub(crate) signature: u32,
    /// After that time the outcome is of no use.
    pub(crate) ends_in: Option<Duration>,
    /// May it take all processors?
    pub(crate) wide: bool,
}

/// What a program answers to [`ToWorker::IsReady`]: what the model says, or how that has failed.
pub(crate) type Readiness = Result<bool, Fault>;

/// What a lane answers when it is open.
pub(crate) type Opened = Result<(), Fault>;

/// What a lane answers to a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer<'a> {
    /// That of its [`Execute`].
    pub(crate) run: u64,
    /// What the engine took.
    pub(crate) took: Duration,
    /// Has it taken more threads than any run does?
    pub(crate) wide: bool,
    #[serde(borrow)]
    pub(crate) outputs: Result<Vec<Placed<'a>>, Fault>,
}

/// A tensor in the memory of a lane.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Placed<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    pub(crate) dtype: DataType,
    pub(crate) dims: Vec<u64>,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// The text of a fault is cut here, so that it fits into an answer.
const LONGEST_TEXT: usize = 64 << 10;

/// A [`BackendError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    kind: FaultKind,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum FaultKind {
    Load,
    Device,
    InvalidInput,
    OutOfMemory,
    Execute,
    Busy,
    Panic,
}

impl Fault {
    fn new(kind: FaultKind, mut text: String) -> Fault {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        Fault { kind, text }
    }

    /// The engine has panicked.
    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Fault {
        let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        Fault::new(FaultKind::Panic, text)
    }

    /// Has the model failed, and not what runs it?
    pub(crate) fn is_of_model(&self) -> bool {
        self.kind == FaultKind::Execute
    }

    pub(crate) fn is_panic(&self) -> bool {
        self.kind == FaultKind::Panic
    }

    pub(crate) fn load(text: String) -> Fault {
        Fault::new(FaultKind::Load, text)
    }

    pub(crate) fn execute(text: String) -> Fault {
        Fault::new(FaultKind::Execute, text)
    }

    pub(crate) fn out_of_memory(text: String) -> Fault {
        Fault::new(FaultKind::OutOfMemory, text)
    }
}

impl From<BackendError> for Fault {
    fn from(error: BackendError) -> Fault {
        let (kind, text) = match error {
            BackendError::Load(text) => (FaultKind::Load, text),
            BackendError::Device(text) => (FaultKind::Device, text),
            BackendError::InvalidInput(text) => (FaultKind::InvalidInput, text),
            BackendError::OutOfMemory(text) => (FaultKind::OutOfMemory, text),
            BackendError::Execute(text) | BackendError::Crashed(text) => (FaultKind::Execute, text),
            BackendError::Busy(text) => (FaultKind::Busy, text),
            BackendError::Unavailable(outage) => (FaultKind::Execute, outage.reason),
        };
        Fault::new(kind, text)
    }
}

impl From<Fault> for BackendError {
    fn from(Fault { kind, text }: Fault) -> BackendError {
        match kind {
            FaultKind::Load => BackendError::Load(text),
            FaultKind::Device => BackendError::Device(text),
            FaultKind::InvalidInput => BackendError::InvalidInput(text),
            FaultKind::OutOfMemory => BackendError::OutOfMemory(text),
            FaultKind::Execute => BackendError::Execute(text),
            FaultKind::Busy => BackendError::Busy(text),
            FaultKind::Panic => BackendError::Execute(format!("the engine panicked: {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_of_the_same_model_may_take_another_time_for_the_same_requests() {
        let loaded = |requests, seconds| Loaded {
            allows_trial_runs: true,
            warm_up: Some(WarmUp { requests, took: Duration::from_secs(seconds) }),
            version: Some("1.0".to_owned()),
            ..Loaded::default()
        };
        assert_eq!(loaded(3, 1).change_to(&loaded(3, 2)), None);
        assert!(loaded(3, 1).change_to(&loaded(4, 1)).unwrap().contains("properties"));
        let newer = Loaded { version: Some("1.1".to_owned()), ..loaded(3, 1) };
        assert!(loaded(3, 1).change_to(&newer).unwrap().contains("from 1.0 to 1.1"));
        let stateful = Loaded { keeps_state: true, ..loaded(3, 1) };
        assert!(loaded(3, 1).change_to(&stateful).unwrap().contains("properties"));
    }
}

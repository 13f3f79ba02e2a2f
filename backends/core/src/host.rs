//! What a model's own code may ask of the server that runs it: inference on other models, their loading, metrics.

use std::{fmt, sync::Arc, time::Instant};

use serde::{Deserialize, Serialize};

use crate::{CallError, NamedTensor, Parameter, Parameters, PartSender, SequenceFlags};

/// The server, as a model's own code sees it. The engine hands on what the code asks, and decides nothing.
pub trait Host: Send + Sync {
    /// Runs a request of a model's own code as one of a client: checked, queued, merged, counted. What comes of it goes
    /// to `answer`, one part or many; where nobody waits there any more, the request is withdrawn. Returns at once.
    fn infer(&self, ask: Ask, answer: PartSender);

    /// Is that model ready, in that version or in any? Returns at once.
    fn is_ready(&self, model: &str, version: Option<u64>) -> bool;

    /// Loads, or unloads, a model by the rules of the server. Blocking, for as long as a load takes.
    ///
    /// # Errors
    /// Why that was not done.
    fn control(&self, control: Control) -> Result<(), CallError>;

    /// A metric of a model's own.
    ///
    /// # Errors
    /// What is wrong with the family, the labels, or the value.
    fn metric(&self, change: MetricChange) -> Result<f64, CallError>;
}

/// A [`Host`] that may not be there: an engine that is loaded outside of a server has none.
#[derive(Clone, Default)]
pub struct HostHandle(pub Option<Arc<dyn Host>>);

impl fmt::Debug for HostHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a server" } else { "no server" })
    }
}

/// A request of a model's own code to another model.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The models whose calls have led to it, the outermost first; the last one asks.
    pub lineage: Vec<Arc<str>>,
    /// The model that is asked.
    pub model: Arc<str>,
    /// Its version; `None` for the one that serves clients who name none.
    pub version: Option<u64>,
    /// The name of the request.
    pub id: Option<Arc<str>>,
    /// Inputs in the shapes that clients send.
    pub inputs: Vec<NamedTensor>,
    /// The method of TensorFlow Serving's REST whose body the only input is; the only output is the body of its answer.
    /// `None` where inputs and outputs are those of the model.
    pub rest: Option<Arc<str>>,
    /// Wanted outputs; all of them where there are none.
    pub outputs: Vec<Arc<str>>,
    /// Parameters.
    pub parameters: Parameters,
    /// The sequence that it is part of, and its place there.
    pub sequence: Option<(Parameter, SequenceFlags)>,
    /// What it may take in the queue, in microseconds; 0: as long as it likes.
    pub timeout_us: u64,
    /// When the calls that led to it end, whatever it has come to; `None` where they have no such time.
    pub deadline: Option<Instant>,
    /// May it be answered in many parts?
    pub is_decoupled: bool,
    /// The `traceparent` of the request that led to it.
    pub trace: Option<Arc<str>>,
}

/// What a model's own code does with another model.
#[derive(Debug, Clone)]
pub enum Control {
    /// Load it, or load it anew.
    Load {
        /// Its name.
        model: String,
        /// Its configuration, in the JSON form of Triton's `ModelConfig`, in place of that of its files; may be empty.
        config: String,
        /// Its files, by their paths `file:<version>/<name>`; empty where those of the repository are meant.
        files: Vec<(String, Vec<u8>)>,
    },
    /// Unload it.
    Unload {
        /// Its name.
        model: String,
        /// The members of the ensemble that it is, too?
        dependents: bool,
    },
}

/// Kinds of metrics that a model's own code may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Any number.
    Gauge,
    /// Counts observations below bounds.
    Histogram,
}

/// What is done to a metric of a model's own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum MetricVerb {
    /// The family is there from now on; the change has no labels.
    MakeFamily,
    /// Nobody has the family any more.
    DropFamily,
    /// It is there from now on.
    Make,
    /// By so much.
    Increment(f64),
    /// To that.
    Set(f64),
    /// One more observation.
    Observe(f64),
    /// Asks for its value.
    Value,
    /// Nobody has it any more.
    Drop,
}

/// A change of a metric of a model's own, with all that names it.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricChange {
    /// Name of the family.
    pub family: String,
    /// What it says.
    pub description: String,
    /// Its kind.
    pub kind: MetricKind,
    /// Labels, by their names.
    pub labels: Vec<(String, String)>,
    /// Bounds of a histogram, ascending.
    pub buckets: Vec<f64>,
    /// What is done.
    pub verb: MetricVerb,
}

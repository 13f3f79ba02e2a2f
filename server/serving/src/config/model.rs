//! A model's configuration as the rest of the server uses it: checked, completed, with units. How it comes
//! to be is in `complete`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use backend::{DataType, Shape};

use crate::config::{sequence_batching::SequenceBatching, server_ports::ServerPorts};
use inference::signature::{MERGING, Port, Signature};
use schedule::{ragged::Ragged, ratelimit::Limits};

/// The parameter in which a configuration, as clients see it, says in which process the model runs, where the server
/// has found that out. It is written by the server alone.
pub const PLACE: &str = "muster_isolation";

/// The parameter in which it is noted whose folders have the layout in which a model lies; [`TF_SERVING`], or none. It
/// is written by the server alone, and clients do not see it.
pub const LAYOUT: &str = "muster_layout";

/// A SavedModel that is a version's directory itself, `<n>/saved_model.pb`: so TensorFlow Serving has them.
pub const TF_SERVING: &str = "tensorflow_serving";

/// The parameter in which code of a model's own says that it takes and gives whole bodies, which nobody else is to
/// read: one input `body` and one output `body`, a string each. It is written by what runs the code alone, and clients
/// do not see it.
pub const SCRIPT: &str = "muster_script";

/// The parameter in which it is noted that a script stands around another model: the name of that one. It is written by
/// the server alone, and clients do not see it.
pub const AROUND: &str = "muster_around";

/// The parameter in which it is noted that SageMaker's requests reach a model through a script: the name of that one.
/// It is written by the server alone, and clients do not see it.
pub const BEHIND: &str = "muster_behind";

/// The parameter in which code that runs a model says that NaN is a value that is missing to it. It is written by that
/// code alone, and clients do not see it.
pub const MISSING: &str = "muster_missing";

/// Is that parameter one that says what the server has found out? A configuration that was copied from what clients see
/// may have it; it means nothing there.
pub fn is_finding(parameter: &str) -> bool {
    [MERGING, PLACE, LAYOUT, SCRIPT, AROUND, BEHIND, MISSING].contains(&parameter)
}

/// The configuration of one model. Every value in it is valid.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Name of the model and of its folder.
    pub name: String,
    /// The engine and its format, for example `onnxruntime_onnx`; empty where the engine has but one.
    pub platform: String,
    /// The engine, for example `onnxruntime`.
    pub backend: String,
    /// Which versions are served.
    pub version_policy: VersionPolicy,
    /// Most rows in one run; 0: the model has no batch dimension.
    pub max_batch_size: usize,
    /// Inputs, in the order of the file or else of the model.
    pub inputs: Vec<PortConfig>,
    /// Outputs, likewise; possibly fewer than the model has.
    pub outputs: Vec<PortConfig>,
    /// At least one.
    pub instance_groups: Vec<InstanceGroup>,
    /// Name of the model file within a version's folder; `None` where the engine needs no file.
    pub default_model_filename: Option<String>,
    /// Whether and how requests are merged.
    pub scheduling: Scheduling,
    /// Settings for the engine and for the server, by Triton's names.
    pub parameters: BTreeMap<String, String>,
    /// How far the engine may rewrite the graph: 0 all, -1 basic, 1 extended, 2 off.
    pub graph_level: Option<i32>,
    /// Do its threads go before or behind those of other models?
    pub priority: Priority,
    /// Accelerators within the engine, for instances on GPUs.
    pub gpu_accelerators: Vec<Accelerator>,
    /// The same for instances on the CPU.
    pub cpu_accelerators: Vec<Accelerator>,
    /// What runs on every instance before the model is ready.
    pub warmups: Vec<Warmup>,
    /// Extra labels of the model's metrics.
    pub metric_tags: BTreeMap<String, String>,
    /// Bucket bounds by metric family, ascending.
    pub histograms: BTreeMap<String, Vec<f64>>,
    /// Answers may be kept and given again to equal requests, where the server has a cache.
    pub response_cache: bool,
    /// What of the model its clients never see.
    pub made: ServerPorts,
    /// How batches are put together whose requests differ in shape.
    pub ragged: Option<Ragged>,
    /// Does a run itself look at the shapes of its inputs?
    pub graph_checks_shapes: bool,
    /// Is NaN a value that is missing to the model?
    pub takes_missing: bool,
}

/// Who goes first where processors are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Before the threads of other models.
    Max,
    /// Like most.
    Default,
    /// Behind those of other models.
    Min,
}

/// Which of the versions in the repository are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionPolicy {
    /// So many, the highest numbers first. At least 1.
    Latest(usize),
    /// Every one.
    All,
    /// These; at least one, ascending.
    Specific(Vec<u64>),
}

/// One input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// Its name.
    pub name: Arc<str>,
    /// Element type.
    pub dtype: DataType,
    /// What clients send or get, without the batch dimension; never empty. `None`: any size.
    pub dims: Vec<Option<usize>>,
    /// How many dimensions it has is not known: any shape goes to the engine as it is.
    pub any_rank: bool,
    /// What the engine takes or gives, where it differs; empty for a scalar. It has as many free sizes as
    /// `dims`, in the same order, and as many elements.
    pub reshape: Option<Vec<Option<usize>>>,
    /// An input that a request may leave out.
    pub optional: bool,
    /// File in the model's folder with one class name per line, for an output.
    pub label_filename: Option<String>,
    /// The engine takes or gives the elements of a whole batch in one dimension, and shapes may differ inside it.
    pub ragged: bool,
}

impl PortConfig {
    /// The engine's shape, without the batch dimension.
    pub fn engine_dims(&self) -> &[Option<usize>] {
        self.reshape.as_deref().unwrap_or(&self.dims)
    }

    /// The shape in which the engine gets what a client sent as `shape`; `rows` tells whether both begin
    /// with the batch dimension. `None` if `shape` is none of a client's.
    pub fn to_engine(&self, shape: &Shape, rows: Rows) -> Option<Shape> {
        reshaped(shape, &self.dims, self.engine_dims(), rows)
    }

    /// The shape in which a client gets what the engine gave as `shape`; the reverse of `to_engine`.
    pub fn to_client(&self, shape: &Shape, rows: Rows) -> Option<Shape> {
        reshaped(shape, self.engine_dims(), &self.dims, rows)
    }
}

/// Do shapes begin with a batch dimension?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// The first dimension is the number of rows, and stays as it is.
    First,
    /// There is none.
    Absent,
}

/// `shape`, which has the form `from`, in the form `to`: the free sizes of the one go to those of the
/// other, in order.
fn reshaped(
    shape: &Shape,
    from: &[Option<usize>],
    to: &[Option<usize>],
    rows: Rows,
) -> Option<Shape> {
    let (head, given) = match rows {
        Rows::First => (Some(shape.rows()?), shape.inner()),
        Rows::Absent => (None, shape.dims()),
    };
    let fits = |(form, size): (&Option<usize>, &usize)| form.is_none_or(|it| it == *size);
    if given.len() != from.len() || !from.iter().zip(given).all(fits) {
        return None;
    }
    let mut free = from.iter().zip(given).filter(|(form, _)| form.is_none()).map(|(_, &it)| it);
    let inner = to.iter().map(|form| form.or_else(|| free.next()));
    head.map(Some).into_iter().chain(inner).collect()
}

/// Instances of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceGroup {
    /// A name for logs and metrics.
    pub name: String,
    /// Where they run.
    pub kind: InstanceKind,
    /// How many, per GPU or in all on the CPU. `None`: the configuration does not say.
    pub count: Option<usize>,
    /// Which GPUs; empty for all of them, and on the CPU.
    pub gpus: Vec<u32>,
    /// It would get no requests; none is made.
    pub passive: bool,
    /// What its runs need of resources that all models share.
    pub limits: Option<Limits>,
}

/// Where instances run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceKind {
    /// On GPUs where there are any that the engine can use, else on the CPU.
    Auto,
    /// On GPUs.
    Gpu,
    /// On the CPU.
    Cpu,
    /// The model itself decides.
    Model,
}

/// Whether requests are merged into batches.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheduling {
    /// Each request is one execution.
    Plain,
    /// They are merged.
    Dynamic(DynamicBatching),
    /// They come in sequences.
    Sequences(SequenceBatching),
}

/// How requests are merged, in Triton's terms.
#[derive(Debug, Clone, PartialEq)]
pub struct DynamicBatching {
    /// Sizes worth waiting for, ascending, within `1..=max_batch_size`. Empty only when the model does not
    /// batch.
    pub preferred_batch_sizes: Vec<usize>,
    /// Longest a request waits for company.
    pub max_queue_delay: Duration,
    /// Replies leave in the order of their requests.
    pub preserve_ordering: bool,
    /// Number of levels, 1 the highest; 0: no priorities.
    pub priority_levels: u64,
    /// Level of a request that names none; within `1..=priority_levels`, or 0 without priorities.
    pub default_priority_level: u64,
    /// For levels without a policy of their own.
    pub default_queue_policy: QueuePolicy,
    /// By level.
    pub priority_queue_policies: BTreeMap<u64, QueuePolicy>,
}

/// What happens to requests that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePolicy {
    /// What becomes of a request that waited too long.
    pub timeout_action: TimeoutAction,
    /// Longest time in the queue; zero for no limit. Never interrupts a run.
    pub default_timeout: Duration,
    /// A request may ask for a shorter time.
    pub allow_timeout_override: bool,
    /// Most requests waiting; 0 for no limit.
    pub max_queue_size: usize,
}

/// What becomes of a request that waited too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutAction {
    /// It is refused.
    Reject,
    /// It goes behind all that have not waited too long.
    Delay,
}

/// An accelerator within the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accelerator {
    /// For example `tensorrt`.
    pub name: String,
    /// Its settings.
    pub parameters: BTreeMap<String, String>,
}

/// A request that runs on every instance before the model is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warmup {
    /// A name for errors.
    pub name: String,
    /// Rows of one run; 1 for a model without a batch dimension.
    pub rows: usize,
    /// How often it runs; at least once.
    pub count: usize,
    /// What each input is filled with, sorted by name. Every input that is not optional is here.
    pub inputs: Vec<WarmupInput>,
}

/// The data of one input of a warm-up request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmupInput {
    /// Name of the input.
    pub name: Arc<str>,
    /// Element type.
    pub dtype: DataType,
    /// Its shape as a client would send it, without the batch dimension.
    pub dims: Vec<usize>,
    /// Where the elements come from.
    pub data: WarmupData,
}

/// Where the elements of a warm-up input come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarmupData {
    /// Zeros, or empty strings.
    Zero,
    /// Random numbers, or empty strings.
    Random,
    /// This file in the folder `warmup` of the model, raw and row-major.
    File(String),
}

impl ModelConfig {
    /// Do shapes begin with a batch dimension?
    pub fn rows(&self) -> Rows {
        if self.max_batch_size > 0 { Rows::First } else { Rows::Absent }
    }

    /// What clients see of that version, but for the names of columns. `labels` are the class names by output.
    pub fn signature(&self, version: u64, labels: &BTreeMap<Arc<str>, Arc<[String]>>) -> Signature {
        let port = |it: &PortConfig| Port {
            name: it.name.clone(),
            dtype: it.dtype,
            dims: it.dims.clone(),
            any_rank: it.any_rank,
            scalar: (self.max_batch_size > 0 || self.graph_checks_shapes)
                && it.reshape.as_ref().is_some_and(Vec::is_empty),
            optional: it.optional,
            labels: Arc::default(),
            text_codes: Default::default(),
        };
        let output = |it: &PortConfig| Port {
            labels: labels.get(&it.name).cloned().unwrap_or_default(),
            ..port(it)
        };
        // The rows of a sequence, or of a ragged batch, belong together.
        let is_whole = matches!(self.scheduling, Scheduling::Sequences(_)) || self.ragged.is_some();
        Signature {
            graph_checks_shapes: self.graph_checks_shapes,
            takes_missing: self.takes_missing || self.parameters.contains_key(MISSING),
            model: self.name.as_str().into(),
            version,
            max_batch_size: self.max_batch_size,
            most_rows: is_whole.then_some(self.max_batch_size),
            inputs: self.inputs.iter().map(port).collect(),
            outputs: self.outputs.iter().map(output).collect(),
            on_request: Vec::new(),
            pipeline: None,
            named: None,
        }
    }
}

/// All that is wrong with a model's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// Name of the model.
    pub model: String,
    /// Each names the field, what was given, and what is allowed; never empty.
    pub problems: Vec<String>,
}

impl std::error::Error for ConfigErrors {}

impl std::fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.problems.as_slice() {
            [problem] => write!(f, "configuration of model '{}': {problem}", self.model),
            problems => {
                write!(f, "configuration of model '{}': {} problems", self.model, problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(dims: &[i64], reshape: Option<&[i64]>) -> PortConfig {
        let sizes = |it: &[i64]| it.iter().map(|&size| usize::try_from(size).ok()).collect();
        PortConfig {
            name: "x".into(),
            dtype: DataType::Fp32,
            dims: sizes(dims),
            any_rank: false,
            reshape: reshape.map(sizes),
            optional: false,
            label_filename: None,
            ragged: false,
        }
    }

    #[track_caller]
    fn check(port: &PortConfig, client: &[usize], engine: &[usize], rows: Rows) {
        let (client, engine) = (Shape::new(client), Shape::new(engine));
        assert_eq!(port.to_engine(&client, rows).as_ref(), Some(&engine));
        assert_eq!(port.to_client(&engine, rows).as_ref(), Some(&client));
    }

    #[test]
    fn without_a_reshape_shapes_stay_as_they_are() {
        check(&port(&[3, -1], None), &[2, 3, 7], &[2, 3, 7], Rows::First);
        check(&port(&[3, -1], None), &[3, 7], &[3, 7], Rows::Absent);
    }

    #[test]
    fn a_scalar_per_row_loses_its_dimension_and_gets_it_back() {
        check(&port(&[1], Some(&[])), &[4, 1], &[4], Rows::First);
        check(&port(&[1], Some(&[])), &[1], &[], Rows::Absent);
    }

    #[test]
    fn free_sizes_keep_their_order() {
        check(
            &port(&[4, -1, 6, -1], Some(&[2, 2, -1, 3, 2, -1])),
            &[9, 4, 5, 6, 7],
            &[9, 2, 2, 5, 3, 2, 7],
            Rows::First,
        );
    }

    #[test]
    fn a_shape_of_another_form_has_no_image() {
        let port = port(&[4, -1], Some(&[2, 2, -1]));
        for shape in [&[4, 5, 6][..], &[5, 5], &[4], &[]] {
            assert_eq!(port.to_engine(&Shape::new(shape), Rows::Absent), None, "{shape:?}");
        }
    }

    #[test]
    fn one_problem_is_one_line_and_several_are_a_list() {
        let errors = |problems: &[&str]| ConfigErrors {
            model: "m".into(),
            problems: problems.iter().map(|&it| it.to_owned()).collect(),
        };
        assert_eq!(errors(&["a"]).to_string(), "configuration of model 'm': a");
        assert_eq!(
            errors(&["a", "b"]).to_string(),
            "configuration of model 'm': 2 problems\n- a\n- b"
        );
    }
}

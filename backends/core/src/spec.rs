//! What a model is made from, and what it says about itself.

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{DataType, FileContents, HostHandle, Stop};

/// Where an instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Device {
    /// The host's processors.
    Cpu,
    /// The GPU of that number, counted from zero among the visible ones.
    Gpu(u32),
}

/// The instances of a model on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Where they run.
    pub device: Device,
    /// The most that will be made there. An engine whose instances share something sizes it by this.
    pub instances: NonZeroUsize,
}

/// One input or output as the engine sees it, batch dimension included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// The name in the graph.
    pub name: Arc<str>,
    /// Element type.
    pub dtype: DataType,
    /// One entry per dimension; `None` where the model takes any size. Empty for a scalar.
    pub dims: Vec<Option<usize>>,
    /// The file does not say how many dimensions it has: `dims` is empty, and any shape will do.
    pub any_rank: bool,
    /// An input that may be left out, because the graph holds a default for it.
    pub optional: bool,
}

/// What a graph says by itself of the rows of a run: has an answer to do with the other rows?
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum GraphRows {
    /// That is to be tried.
    #[default]
    Unknown,
    /// It has not, whatever is sent.
    Independent,
    /// It has, though trial values may not show it: the name of the operator that all rows of a run share.
    Shared(String),
}

/// The names of a model's inputs and outputs, where its files say them; else none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortNames {
    /// What clients send.
    pub inputs: Vec<Arc<str>>,
    /// What they get.
    pub outputs: Vec<Arc<str>>,
}

/// Numbers that stand for texts, as categories of a model's training do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextCodes {
    /// The number of each text.
    pub codes: BTreeMap<String, u32>,
    /// Is any other text a missing value? Otherwise it is wrong.
    pub others_are_missing: bool,
}

/// The inputs and outputs of a model, in the order of its file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSpec {
    /// What it takes.
    pub inputs: Vec<TensorSpec>,
    /// What it gives.
    pub outputs: Vec<TensorSpec>,
    /// Names of classes by output, in their order, where the file says them.
    pub labels: BTreeMap<Arc<str>, Arc<[String]>>,
    /// Names of the elements of a row by input, in their order, where the file says them. No two of an input are alike.
    pub columns: BTreeMap<Arc<str>, Arc<[String]>>,
    /// Codes of the texts that elements of a row may be given as, by input and by the element's place.
    pub text_codes: BTreeMap<Arc<str>, Arc<BTreeMap<usize, TextCodes>>>,
    /// What the file says about itself, by key: what exporters write beside the graph.
    pub metadata: BTreeMap<String, String>,
    /// Are its rows answered as they are alone, as far as the graph tells?
    pub rows: GraphRows,
}

/// What the configuration says of one input or output: all an engine has where its files do not say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorHint {
    /// The name that clients use.
    pub name: Arc<str>,
    /// Element type; `None` where the configuration leaves it out.
    pub dtype: Option<DataType>,
    /// One entry per dimension as the engine sees it, batch dimension included; `None` in it where any
    /// size is taken. `None` as a whole where the configuration leaves it out.
    pub dims: Option<Vec<Option<usize>>>,
}

/// The inputs and outputs of the configuration, in its order. Empty where it names none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hints {
    /// What clients send.
    pub inputs: Vec<TensorHint>,
    /// What clients get.
    pub outputs: Vec<TensorHint>,
    /// Does it say that the first dimension is no batch?
    pub is_unbatched: bool,
}

/// A way to run a model, or parts of it, faster than the engine does by itself: an entry of Triton's
/// `optimization.execution_accelerators`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accelerator {
    /// For example `tensorrt`.
    pub name: String,
    /// Its settings.
    pub parameters: BTreeMap<String, String>,
}

/// Everything that an engine gets to load one model version.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelSource {
    /// The model's name, for error texts and logs.
    pub name: String,
    /// Its version, for the same.
    pub version: u64,
    /// The model file, or the folder that holds it. It may not exist; saying so is the engine's task.
    pub path: PathBuf,
    /// Other files of the same format that are one model with it, in order: what it answers is what all of them do.
    pub folds: Vec<PathBuf>,
    /// The model's directory: `path` is in it, is it, or lies beside it.
    pub directory: PathBuf,
    /// The directory of models in which the model's own is one, where it may name files of the others.
    pub repository: Option<PathBuf>,
    /// Directories of other models, where each has one of its own: no setting of this one opens them.
    pub others: Vec<PathBuf>,
    /// Engine settings under the names of Triton's `parameters`, for example `intra_op_thread_count`.
    pub options: BTreeMap<String, String>,
    /// Threads for one run where `options` do not say: this instance's share of the processors.
    pub default_threads: NonZeroUsize,
    /// Threads for a run beside which there is no other, where `options` do not say: all processors. `None`: no more
    /// than for any run, as somebody has said how many that are.
    pub wide_threads: Option<NonZeroUsize>,
    /// By how much the threads that run the model are nicer than the server's process. The server sees to its own.
    pub niceness: i32,
    /// Where its instances will run, each device once, in the order in which the first of each are made.
    pub placements: Vec<Placement>,
    /// Instances of the same model version that are not this load's to make: those on other devices, which are in
    /// processes of their own.
    pub elsewhere: Vec<Placement>,
    /// Where it has processes of its own: is one more kept that has loaded it, for the place of one that dies?
    pub standby: bool,
    /// Accelerators for instances on GPUs, the preferred one first.
    pub accelerators: Vec<Accelerator>,
    /// What the configuration says of its inputs and outputs.
    pub hints: Hints,
    /// Shared libraries with operators of the model's own.
    pub op_libraries: Vec<PathBuf>,
    /// The model's configuration as far as its files say it, in the JSON form of Triton's `ModelConfig`; `None` where
    /// there is none.
    pub config: Option<Arc<str>>,
    /// May the model's own code complete its configuration?
    pub completes_config: bool,
    /// Why the model is refused if it brings code, or reaches files of this machine: a clause for the error. `None`
    /// where it may. The server refuses what a configuration says; what is in the model's own files only the engine
    /// sees.
    pub code_refusal: Option<String>,
    /// What is known of the contents of its files. It is filled while they are loaded, and stays with the server.
    #[serde(skip)]
    pub contents: Arc<FileContents>,
    /// Requested when the load has lasted too long. An engine that cannot end it then loads on, and is not waited for.
    #[serde(skip)]
    pub stop: Arc<Stop>,
    /// What the model's own code may ask of the server.
    #[serde(skip)]
    pub host: HostHandle,
}

impl ModelSource {
    /// One instance with one thread on the CPU, of a model of which nothing is configured.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> ModelSource {
        let path: PathBuf = path.into();
        ModelSource {
            name: name.into(),
            version: 1,
            directory: path.parent().map(Into::into).unwrap_or_default(),
            path,
            folds: Vec::new(),
            repository: None,
            others: Vec::new(),
            options: BTreeMap::new(),
            default_threads: NonZeroUsize::MIN,
            wide_threads: None,
            niceness: 0,
            placements: vec![Placement { device: Device::Cpu, instances: NonZeroUsize::MIN }],
            elsewhere: Vec::new(),
            standby: false,
            accelerators: Vec::new(),
            hints: Hints::default(),
            op_libraries: Vec::new(),
            config: None,
            completes_config: true,
            code_refusal: None,
            contents: Arc::default(),
            stop: Arc::default(),
            host: HostHandle::default(),
        }
    }

    /// Will the model have instances on that device, whoever makes them?
    pub fn is_for(&self, device: Device) -> bool {
        self.placements.iter().chain(&self.elsewhere).any(|it| it.device == device)
    }

    /// The same for each device in turn: its own instances are there, and the others are elsewhere.
    pub fn by_device(&self) -> Vec<ModelSource> {
        let on_one = |own: &Placement| {
            let others = self.placements.iter().filter(|it| it.device != own.device);
            let elsewhere = self.elsewhere.iter().chain(others).copied().collect();
            ModelSource { placements: vec![*own], elsewhere, ..self.clone() }
        };
        self.placements.iter().map(on_one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_on_several_devices_is_one_on_each_that_knows_of_the_others() {
        let on = |device| Placement { device, instances: NonZeroUsize::MIN };
        let placements = vec![on(Device::Gpu(0)), on(Device::Gpu(1)), on(Device::Cpu)];
        let source = ModelSource { placements: placements.clone(), ..ModelSource::new("m", "/m") };
        let apart = source.by_device();
        let own: Vec<_> = apart.iter().flat_map(|it| it.placements.clone()).collect();
        assert_eq!(own, placements);
        for source in &apart {
            assert!(placements.iter().all(|it| source.is_for(it.device)));
            assert!(!source.is_for(Device::Gpu(2)));
            assert_eq!((source.placements.len(), source.elsewhere.len()), (1, 2));
        }
    }
}

//! The three traits of an engine, what it foresees, the batch it works on, and how it fails.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    About, CallAnswer, CallError, Device, EngineDescription, ModelSource, ModelSpec, NamedTensor,
    Outage, PartSender, Places, PortNames, Processes, RunMemory, Signatures, Stop, Turn,
    WorkerProgram,
};

/// An engine: it turns files into models.
pub trait Backend: Send + Sync {
    /// The name in a model's configuration, for example `onnxruntime`.
    fn name(&self) -> &'static str;

    /// What it can open, and what its settings are called.
    fn description(&self) -> &'static EngineDescription {
        &EngineDescription::PLAIN
    }

    /// Loads one model version. Blocking.
    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError>;

    /// Would the model load, as far as that can be told without loading it? A missing file or library is found, and
    /// the names that its files say. Blocking: it may open the library.
    ///
    /// # Errors
    /// Those of [`Backend::load`].
    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        let _ = source;
        Ok(PortNames::default())
    }

    /// What is to be told of that model's runs before it is loaded. `None`: no more than how long its files are.
    /// Blocking: it may look into them.
    fn foresee(&self, source: &ModelSource) -> Option<Foresight> {
        let _ = source;
        None
    }

    /// The version of the library that it works with; `None` where it has none, or has loaded no model yet.
    fn version(&self) -> Option<String> {
        None
    }

    /// What of this machine loads and runs reach besides the files that a [`ModelSource`] names: what a process is left
    /// that may reach nothing else. Blocking: it looks for libraries.
    fn places(&self) -> Places {
        Places::default()
    }

    /// The program that a process of the model's own becomes once it is in its sandbox; `None` where the engine itself
    /// loads the model there. Blocking: it looks for programs.
    ///
    /// # Errors
    /// [`BackendError::Load`] where there is no such program on this machine.
    fn program(&self, source: &ModelSource) -> Result<Option<WorkerProgram>, BackendError> {
        let _ = source;
        Ok(None)
    }

    /// In which process it runs that model, and why, where it has decided that by itself: words for whoever looks at
    /// the model. To be asked once the model is loaded and its first runs are made; `None` where a file of the model
    /// has changed since.
    fn found_place(&self, source: &ModelSource) -> Option<String> {
        let _ = source;
        None
    }

    /// Runs of clients take so long, as a rule, of a model that is in this process by a decision of its own. Does it
    /// take the decision back, so that the next load puts the model elsewhere? Words for whoever looks after the server
    /// then; once. Blocking: it looks at files.
    fn reconsider_place(&self, source: &ModelSource, took: Duration) -> Option<String> {
        let _ = (source, took);
        None
    }

    /// Gives memory back to the system that models have freed and the process still holds. Called when a model
    /// is gone, and when memory is scarce. Blocking, some 10 ms.
    fn give_back_memory(&self) {}
}

/// What the files and the settings of a model tell of its runs. To ask loads nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foresight {
    /// A run reads so many bytes of weights, all of them. So it takes no less than that takes.
    Weights(u64),
    /// They do not tell what a run takes, or whether it ends the process: a clause that says why.
    Unknown(String),
}

/// A loaded model version: immutable, shared by its instances.
pub trait Model: Send + Sync {
    /// The inputs and outputs of its graph. `None` where the engine takes whatever the configuration
    /// says (the identity engine does).
    fn spec(&self) -> Option<&ModelSpec>;

    /// Its signatures, where its file has names for them. The default is that of [`Model::spec`].
    fn signatures(&self) -> Option<&Signatures> {
        None
    }

    /// What its file says of itself that fronts ask for, by the names of a configuration's `parameters`. What a
    /// configuration says goes before it.
    fn notes(&self) -> &[(Cow<'static, str>, String)] {
        &[]
    }

    /// Its configuration as its own code has completed it, in the JSON form of Triton's `ModelConfig`; `None` where it
    /// has nothing to add.
    fn completed_config(&self) -> Option<&str> {
        None
    }

    /// The configuration that it is served with, in the same form. Told once, before the first instance is made.
    fn settle(&self, config: &Arc<str>) {
        let _ = config;
    }

    /// Are the requests of a run answered each by itself, by [`Instance::execute_calls`]?
    fn answers_calls(&self) -> bool {
        false
    }

    /// May a request be answered in parts, none or many? Then each [`Call`] of a client brings a
    /// [`crate::PartSender`]: all that it is answered goes there. [`Instance::execute_calls`] returns an empty answer
    /// for it when the instance can begin other runs, which may be before the end of its answer.
    fn streams(&self) -> bool {
        false
    }

    /// What a run takes beside the bytes of its inputs: room is taken for it before the run is made.
    fn run_memory(&self) -> RunMemory {
        RunMemory::default()
    }

    /// Does a run leave something behind that later runs of the same instance see?
    fn keeps_state(&self) -> bool {
        false
    }

    /// May a run of inputs of the same shapes take many times as long as another? It may where the graph runs parts of
    /// itself as often as values say, or is as large as they say. No thread that has other work waits for its runs
    /// then.
    fn time_follows_values(&self) -> bool {
        false
    }

    /// May runs be made up, to warm an instance and to find out whether rows depend on each other? Not where clients
    /// would see what such a run leaves behind, nor where it could end the process.
    fn allows_trial_runs(&self) -> bool {
        !self.keeps_state()
    }

    /// What it has run before it serves, where its files say so; `None` where they do not.
    fn warm_up(&self) -> Option<WarmUp> {
        None
    }

    /// The processes that it runs in, where that is not this one. No thread that has other work waits for its runs
    /// then.
    fn processes(&self) -> Processes {
        Processes::default()
    }

    /// Does its own code say whether it can serve? Then [`Model::own_readiness`] asks it.
    fn tells_readiness(&self) -> bool {
        false
    }

    /// Asks its own code whether it can serve. Blocking, for some seconds at most.
    ///
    /// # Errors
    /// Why it cannot; a sentence.
    fn own_readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// Its first instances are warm, and nobody is served yet: what is not to be beside their runs may begin now. Told
    /// once. Returns at once.
    fn is_warm(&self) {}

    /// Memory is scarce: what instances keep of earlier runs for later ones is to go, at the latest with the next run
    /// of each. What all models of an engine have in common is given back by [`Backend::give_back_memory`]. Returns at
    /// once.
    fn trim_memory(&self) {}

    /// Called every few seconds: what instances that have made no run for a while keep for larger runs than those of
    /// late may go. May take some 10 ms, for which a run of such an instance waits that begins meanwhile.
    fn rest(&self, now: Instant) {
        let _ = now;
    }

    /// Makes one more instance. Blocking.
    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError>;
}

/// What runs batches. One thread at a time holds it, not always the same one.
pub trait Instance: Send {
    /// Runs one batch and returns whole-batch outputs, each at most once, in any order.
    ///
    /// At least the outputs in `batch.outputs` are returned.
    ///
    /// # Errors
    /// [`BackendError::InvalidInput`] when the batch's data is at fault, else the fitting variant. After
    /// an error the instance must be able to run the next batch.
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError>;

    /// Runs one batch whose requests are answered each by itself, in their order.
    ///
    /// # Errors
    /// As of [`Instance::execute`], where no request of the batch can be answered.
    fn execute_calls(
        &mut self,
        batch: &Batch<'_>,
        calls: &[Call<'_>],
    ) -> Result<Vec<Result<CallAnswer, CallError>>, BackendError> {
        let _ = (batch, calls);
        Err(BackendError::Execute("this engine answers whole batches only".to_owned()))
    }

    /// Is what runs have left behind in it gone, as its process has ended since? A run would fail with
    /// [`BackendError::Crashed`], whatever it is, and another instance is to be made.
    fn has_lost_state(&self) -> bool {
        false
    }

    /// Is its next run made in another process than the last, as that has ended since? It may take longer then, like
    /// the first run of an instance. Returns at once.
    fn is_fresh(&self) -> bool {
        false
    }

    /// Has its process ended, so that its next run would wait for another? One that is made anew waits as long, with no
    /// run in it. Returns at once.
    fn has_lost_process(&self) -> bool {
        false
    }

    /// Has the last run failed as its process had ended before it was begun there? Whoever makes the instance anew, and
    /// then the run, repeats nothing. Returns at once.
    fn has_missed_run(&self) -> bool {
        false
    }

    /// The last run that was answered, where it was made in a process of the model's own.
    fn last_turn(&self) -> Option<Turn> {
        None
    }

    /// Has the last run taken more threads than any run does, or was it made twice to find out? Its time says nothing
    /// of others.
    fn has_run_wide(&self) -> bool {
        false
    }

    /// Later runs are made on these terms.
    fn expect_runs(&mut self, terms: RunTerms) {
        let _ = terms;
    }
}

/// What is to be known of a run beside its batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTerms {
    /// Does it share the process with no other run of the model, where that is one of the model's own? One that may end
    /// the process takes no other along then, and the end of the process says whose fault it was.
    pub alone: bool,
    /// Requests of clients in it.
    pub requests: usize,
    /// May it take all processors? Nothing else is run, and nothing waits for an instance. Outputs are the same bytes
    /// either way.
    pub wide: bool,
}

/// Requests that a model's files bring along, to be run before it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// How many they are.
    pub requests: u64,
    /// How long running them took, the first time.
    pub took: Duration,
}

/// The work of one execution.
#[derive(Debug)]
pub struct Batch<'a> {
    /// The inputs, each with `rows` in its first dimension when the model batches.
    pub inputs: &'a [NamedTensor],
    /// The outputs that requests of the batch want, without repetition; never empty.
    pub outputs: &'a [Arc<str>],
    /// Rows in the batch; 1 for a model without a batch dimension.
    pub rows: usize,
    /// Which of the model's signatures is run: 0 for the default, else 1 more than its place in
    /// [`Signatures::others`].
    pub signature: usize,
    /// Requested when no client waits for the result any more.
    pub stop: &'a Stop,
}

/// One request of a run.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Its rows of each input, behind those of the calls before it; all of the inputs where the model does not batch.
    pub rows: usize,
    /// The outputs that it wants.
    pub outputs: &'a [Arc<str>],
    /// What else is known of it; `None` where nobody has asked, as in a run that warms an instance up.
    pub about: Option<&'a About>,
    /// Where the parts of its answer go, where it is answered in parts: see [`Model::streams`].
    pub parts: Option<&'a PartSender>,
}

/// Why an engine could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// The model cannot be loaded: file, format, settings, device.
    #[error("{0}")]
    Load(String),
    /// The device on which an instance is to run cannot be used: no GPU, driver, library or provider for
    /// it. The model may load on another one.
    #[error("{0}")]
    Device(String),
    /// The engine refuses the data it was given.
    #[error("{0}")]
    InvalidInput(String),
    /// Memory of the host or of a device ran out.
    #[error("{0}")]
    OutOfMemory(String),
    /// The run failed, or was ended through its [`Stop`].
    #[error("{0}")]
    Execute(String),
    /// The process that the model runs in has ended: during this run, or before it began. Nothing is known of what the
    /// run would have given, and the instance can run the next batch.
    #[error("{0}")]
    Crashed(String),
    /// Others hold what the run needs, and nothing of it has been done; it may succeed a moment later.
    #[error("{0}")]
    Busy(String),
    /// There is no process for the model to run in, and none is waited for.
    #[error("{0}")]
    Unavailable(Outage),
}

//! Whether requests to a model are merged: what its configuration says, and what trying its rows has shown.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use backend::{BackendError, Device, GraphRows, Instance, Model, ModelSpec};

use crate::{
    config::complete::{Completed, RowsKnown},
    load::{
        create_error::CreateError,
        instances::on_device,
        kept_costs::KeptCosts,
        load_watch::PhaseLimit,
        loader::Loader,
        placement::Plan,
        proof::{Proof, is_due, prove},
        run_limit::{self, RunLimit},
        version_load::Load,
    },
    repository::local::repository_of,
};
use inference::signature::{MERGING, Signature};
use schedule::row_check::RowCheck;
use serving::{
    config::{
        model::{ModelConfig, Scheduling},
        raw::{self, ModelParameter, model_config::SchedulingChoice},
    },
    pipeline::open::folder_of,
};
use steps::{Dir, named_graph};

/// A configuration whose batching is settled.
pub(super) struct Settled {
    pub(super) completed: Completed,
    /// The instance on which rows were tried.
    pub(super) instance: Option<Box<dyn Instance>>,
    /// What operators should know.
    pub(super) warning: Option<String>,
    /// May a request be run in parts?
    pub(super) has_parts: bool,
    /// Would its requests be merged, had trying its rows not shown something else?
    pub(super) is_unproved: bool,
    /// What becomes of the model when its rows turn out to depend on each other after all.
    pub(super) row_check: RowCheck,
    /// Where it is kept what runs of texts cost, if it is.
    pub(super) kept: Option<KeptCosts>,
}

impl Settled {
    /// A model whose requests are run whole and one by one.
    fn new(completed: Completed) -> Settled {
        Settled {
            completed,
            instance: None,
            warning: None,
            has_parts: false,
            is_unproved: false,
            row_check: RowCheck::Off,
            kept: None,
        }
    }
}

impl Loader {
    /// May a model be served as a pipeline?
    pub(super) fn may_be_pipeline(&self, load: &Load<'_>) -> bool {
        let settings = &self.settings.repository;
        let may_be = settings.pipelines.are_served && settings.auto_complete;
        may_be && !load.raw.is_some_and(describes_tensors)
    }

    /// The folder of a model that is served as a pipeline, if the folder can be.
    pub(super) fn folder_of_pipeline<'a>(&self, load: &Load<'a>) -> Option<&'a Path> {
        let asked = self.settings.repository.pipelines.graph.as_deref();
        let may_be = self.may_be_pipeline(load);
        may_be.then(|| folder_of(&load.found.dir, load.path, asked)).flatten()
    }

    /// The same folder with the repository around it, in which links of its files may lead.
    pub(super) fn dir_of_pipeline(&self, load: &Load<'_>) -> Option<Dir> {
        self.folder_of_pipeline(load).map(|it| self.dir_of(load, it))
    }

    /// A directory of a model with the repository around it.
    pub(super) fn dir_of(&self, load: &Load<'_>, dir: &Path) -> Dir {
        let root = repository_of(load.found, &self.settings.repository.from);
        Dir::new(dir, root.as_ref().unwrap_or(&load.found.dir))
    }

    /// The graph of a pipeline that was named, by a flag or in its folder, in the place of the usual one.
    pub(super) fn graph_of(&self, load: &Load<'_>, usual: PathBuf) -> PathBuf {
        let asked = self.settings.repository.pipelines.graph.as_deref();
        let named = |dir: &Path| named_graph(dir, asked).map(|it| dir.join(it));
        let named = self.folder_of_pipeline(load).and_then(named);
        // One for another engine is refused when the folder is read.
        named.filter(|it| it.extension() == usual.extension()).unwrap_or(usual)
    }

    /// Completes the configuration anew, of a model whose rows are not to be trusted and which takes no texts.
    pub(super) fn settle_unproved(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        settled: &mut Settled,
    ) -> Result<(), CreateError> {
        let note = settled.completed.raw.parameters.get(MERGING).map(|it| it.string_value.clone());
        let completed = self.complete(load, model, RowsKnown::Dependent)?;
        settled.completed = noted(completed, note.unwrap_or_default());
        Ok(())
    }

    /// Tries the rows of a signature on the instance, which is made where there is none, and is gone where the engine
    /// panicked.
    ///
    /// # Errors
    /// When the device cannot be used, or the runs take too long.
    pub(super) fn try_rows_of(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        device: Device,
        instance: &mut Option<Box<dyn Instance>>,
        signature: &Signature,
        config: &ModelConfig,
    ) -> Result<Proof, CreateError> {
        let mut tried = match instance.take() {
            Some(it) => it,
            None => self.instantiate(load, model, device)?,
        };
        let started = Instant::now();
        let dir = &load.found.dir;
        let run_limit = self.settings.repository.load_run_limit;
        let limit = PhaseLimit { limit: RunLimit::of(run_limit, device), flag: run_limit::FLAG };
        let prove = || {
            let limit = RunLimit::start(run_limit, device)?;
            let is_on_gpu = device != Device::Cpu;
            let proof = prove(&mut *tried, signature, config, dir, is_on_gpu, &limit);
            limit.check().and(proof)
        };
        let proof = load
            .watch
            .during(limit, &Arc::default(), || catch_unwind(AssertUnwindSafe(prove)))
            .map_err(BackendError::from)?;
        let proof = match proof {
            Ok(proof) => {
                *instance = Some(tried);
                proof.map_err(|it| on_device(device, it))?
            }
            Err(_) => Proof::Lacking("the engine panicked when it was tried".to_owned()),
        };
        let (model_name, us) = (&load.found.name, started.elapsed().as_micros());
        let name = signature.name();
        tracing::debug!(
            model = model_name,
            version = load.version,
            signature = name,
            us,
            ?proof,
            "rows were tried"
        );
        Ok(proof)
    }

    /// Completes the configuration of a model, and tries its rows where requests, or parts of one, would share a run.
    pub(super) fn settle_merging(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        model: &dyn Model,
    ) -> Result<Settled, CreateError> {
        let completed = self.complete(load, model, RowsKnown::Independent)?;
        if model.answers_calls() {
            // It is given the requests of a run, not their rows: nothing is to be tried, and none is cut.
            return Ok(Settled::new(completed));
        }
        let engine = self.descriptions.description(&load.choice.backend);
        if !engine.merges_by_default && !load.raw.is_some_and(is_told_to_merge) {
            // What its rows are is said by the engine, and need not be tried.
            return Ok(Settled::new(completed));
        }
        let device = plan.devices.first().copied();
        // Without a specification everything was written down.
        let spec = model.spec().filter(|_| is_due(&completed.config));
        let Some((device, spec)) = device.zip(spec) else {
            return Ok(Settled { has_parts: true, ..Settled::new(completed) });
        };
        let signature = completed.config.signature(load.version, &BTreeMap::new());
        let mut instance = None;
        let config = &completed.config;
        let is_one = config.max_batch_size == 1;
        let proof = match said_by_graph(spec, model.allows_trial_runs()) {
            // There is no company that it could depend on.
            Some(_) if is_one => Proof::Independent,
            Some(proof) => proof,
            None => self.try_rows_of(load, model, device, &mut instance, &signature, config)?,
        };
        let reason = match proof {
            Proof::Lacking(reason) => reason,
            Proof::NoBatch(reason) => {
                let completed = self.without_batch(load, model, completed, &reason)?;
                let warning = no_batch_warning(load.raw, &completed, &reason);
                let settled = Settled::new(completed);
                return Ok(Settled { instance, warning, is_unproved: true, ..settled });
            }
            Proof::Independent => {
                let row_check = match load.raw.is_some_and(is_told_to_merge) {
                    _ if is_one => RowCheck::Off,
                    true => RowCheck::Report,
                    false => RowCheck::StopMerging,
                };
                let settled = Settled::new(completed);
                return Ok(Settled { instance, has_parts: true, row_check, ..settled });
            }
        };
        if load.raw.is_some_and(is_told_to_merge) {
            let note = format!("on, as dynamic_batching is written in its configuration: {reason}");
            let warning = format!(
                "its requests are merged, as dynamic_batching is written in its configuration, but answers \
                 may be wrong: {reason}"
            );
            let settled = Settled::new(noted(completed, note));
            let warning = Some(warning);
            return Ok(Settled { instance, warning, has_parts: true, ..settled });
        }
        let merged = matches!(completed.config.scheduling, Scheduling::Dynamic(_));
        // Texts are rows of a graph in any case, and have their rows tried by themselves.
        let rows = match self.folder_of_pipeline(load) {
            Some(_) => RowsKnown::OfTexts,
            None => RowsKnown::Dependent,
        };
        let completed = self.complete(load, model, rows)?;
        let completed = noted(completed, format!("off: {reason}"));
        let warning = merged.then(|| {
            format!(
                "its requests are not merged: {reason}; to have them merged all the same, write \
                 dynamic_batching {{ }} into its config.pbtxt"
            )
        });
        Ok(Settled { instance, warning, is_unproved: merged, ..Settled::new(completed) })
    }
}

impl Loader {
    /// The configuration of a model whose outputs have other rows than their runs, without a batch dimension.
    ///
    /// # Errors
    /// Where its own configuration says that there is a batch dimension.
    fn without_batch(
        &self,
        load: &Load<'_>,
        model: &dyn Model,
        completed: Completed,
        reason: &str,
    ) -> Result<Completed, CreateError> {
        let most_rows = completed.config.max_batch_size;
        let is_written = load.raw.is_some_and(|it| 0 < it.max_batch_size());
        let rows = match self.folder_of_pipeline(load) {
            // Texts are rows of a graph in any case, and have their rows tried by themselves.
            Some(_) => RowsKnown::OfTexts,
            None if is_written => {
                return Err(CreateError::Refused(format!(
                    "max_batch_size is {most_rows}, but {reason}; write max_batch_size: 0, and dims with all dimensions"
                )));
            }
            None => RowsKnown::Dependent,
        };
        Ok(noted(self.complete(load, model, rows)?, format!("off: {reason}")))
    }
}

/// What the operator of a model is told that is served without the batch dimension which it was to get.
fn no_batch_warning(
    raw: Option<&raw::ModelConfig>,
    completed: &Completed,
    reason: &str,
) -> Option<String> {
    let ignored = match raw.is_some_and(is_told_to_merge) {
        true => "dynamic_batching merges nothing",
        false => "its requests are not merged",
    };
    let most_rows = completed.config.max_batch_size;
    Some(match most_rows {
        0 => format!(
            "{reason}; it is served without a batch dimension (max_batch_size: 0), and {ignored}"
        ),
        _ => format!("its requests are not merged: {reason}"),
    })
}

/// What is known of the rows of a graph before any is tried. `None` where they are to be tried.
pub(super) fn said_by_graph(spec: &ModelSpec, allows_trial_runs: bool) -> Option<Proof> {
    let lacking = match &spec.rows {
        GraphRows::Independent => return Some(Proof::Independent),
        GraphRows::Shared(operator) => format!(
            "what it answers for a row depends on the other rows of the run, by its operator {operator}"
        ),
        GraphRows::Unknown if !allows_trial_runs => {
            "its rows cannot be tried, as its runs leave something behind".to_owned()
        }
        GraphRows::Unknown => return None,
    };
    Some(Proof::Lacking(lacking))
}

/// Does the configuration say itself that requests are merged?
pub(super) fn is_told_to_merge(raw: &raw::ModelConfig) -> bool {
    matches!(raw.scheduling_choice, Some(SchedulingChoice::DynamicBatching(_)))
}

/// The configuration with that note for its readers.
fn noted(mut completed: Completed, note: String) -> Completed {
    let note = ModelParameter { string_value: note };
    completed.raw.parameters.insert(MERGING.to_owned(), note);
    completed
}

/// Does the configuration say what the graph's engine, inputs or outputs are?
pub(crate) fn describes_tensors(raw: &raw::ModelConfig) -> bool {
    !raw.backend.is_empty()
        || !raw.platform.is_empty()
        || !raw.input.is_empty()
        || !raw.output.is_empty()
}

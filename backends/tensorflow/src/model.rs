//! A loaded SavedModel, and what runs it.

use std::{
    fmt,
    path::Path,
    sync::{Arc, OnceLock},
    time::Instant,
};

use backend::{
    BackendError, Batch, Device, Instance, Model, ModelSource, ModelSpec, NamedSpec, NamedTensor,
    RunMemory, Signatures, StringMemory, Tensor, TensorSpec, WarmUp,
};

use crate::{
    config::{Defaults, ONEDNN, SessionSettings, shares_threads},
    error,
    library::Opened,
    native::{Endpoint, Session},
    patience::Patience,
    saved_model::{
        Danger, MetaGraph, Overrides, SavedModelError, Signature, check_files, danger_of, graph_of,
        overrides_of, read, signatures_of, stamps_of,
    },
    sessions::Sessions,
    warm_up::Replays,
};

/// One version of a model.
pub(crate) struct TensorFlowModel {
    shared: Arc<Shared>,
    signatures: Signatures,
    sessions: Sessions<Loaded, BackendError>,
    warm_up: Option<WarmUp>,
}

/// What all of its instances have.
struct Shared {
    default: Signature,
    others: Vec<Signature>,
    /// How long runs may take, of the default signature and of the others in their order.
    patience: Vec<Patience>,
    /// Does a run of the default signature change what later runs see?
    changes_state: bool,
    /// May runs of it be made up?
    allows_trial_runs: bool,
}

impl Shared {
    fn signatures(&self) -> impl Iterator<Item = &Signature> {
        std::iter::once(&self.default).chain(&self.others)
    }
}

/// A session, and for each signature where tensors enter and leave its graph, or why it cannot be run.
struct Loaded {
    session: Session,
    ends: Vec<Result<Ends, SavedModelError>>,
}

struct Ends {
    feeds: Vec<Endpoint>,
    fetches: Vec<Endpoint>,
}

impl Loaded {
    fn new(session: Session, shared: &Shared) -> Result<Loaded, SavedModelError> {
        let endpoint = |name: &String| {
            let found = session.endpoint(name);
            found.ok_or_else(|| {
                SavedModelError::new(format_args!("the graph has no tensor '{name}'"))
            })
        };
        let ends = |signature: &Signature| -> Result<Ends, SavedModelError> {
            let feeds = signature.feeds.iter().map(endpoint).collect::<Result<_, _>>()?;
            let fetches = signature.fetches.iter().map(endpoint).collect::<Result<_, _>>()?;
            Ok(Ends { feeds, fetches })
        };
        let ends: Vec<Result<Ends, SavedModelError>> = shared.signatures().map(ends).collect();
        match ends.first() {
            Some(Err(problem)) => Err(problem.clone()),
            _ => Ok(Loaded { session, ends }),
        }
    }
}

impl TensorFlowModel {
    /// What the file says is looked at first: what is wrong with it is said without TensorFlow.
    pub(crate) fn load(
        source: &ModelSource,
        folder: &Path,
        defaults: &Defaults,
        open: impl FnOnce() -> Result<Arc<Opened>, BackendError>,
    ) -> Result<TensorFlowModel, BackendError> {
        let refused = |problem: &dyn fmt::Display| {
            BackendError::Load(format!("{}: {problem}", folder.display()))
        };
        if source.placements.iter().any(|it| it.device != Device::Cpu) {
            return Err(BackendError::Device(
                "SavedModels run on the processors here; write KIND_CPU or KIND_AUTO".to_owned(),
            ));
        }
        let settings = SessionSettings::of(source, defaults).map_err(|it| refused(&it))?;
        note(source, &settings);
        let stamps = stamps_of(folder).of_known(&source.contents);
        let file = read(folder)?;
        let (graph, tags) = graph_of(&file, &settings.graph).map_err(|it| refused(&it))?;
        let found =
            signatures_of(graph, settings.signature.as_deref()).map_err(|it| refused(&it))?;
        let all = || std::iter::once(&found.default).chain(&found.others);
        let operations = all().flat_map(|it| it.operations.iter().cloned()).collect();
        check_files(folder, &source.directory, graph, &operations).map_err(|it| refused(&it))?;
        check_reach(source, graph).map_err(|it| refused(&it))?;
        let overrides = overrides_of(folder).map_err(|it| refused(&it))?;
        let signatures: Vec<&Signature> = all().collect();
        let replays = Replays::of(folder, &signatures, defaults.warm_up_iterations);
        let replays = replays.map_err(|it| refused(&it))?;
        let patience = all().map(|it| Patience::of(&it.operations)).collect();
        drop(file);
        let library = open()?;
        library.add_operators(&source.op_libraries)?;
        let writes = |it: &Signature| library.writes(&it.operations);
        // Operators of other libraries may end the process at values that no client sends.
        let is_all_known = source.op_libraries.is_empty();
        let method = |it: &Signature| defaults.checks_methods.then(|| it.method.as_str().into());
        let others = found.others.iter().map(|it| NamedSpec {
            name: it.name.as_str().into(),
            method: method(it),
            spec: it.spec.clone(),
            allows_trial_runs: is_all_known && !writes(it),
        });
        let mut signatures = Signatures {
            default: found.default.name.as_str().into(),
            default_method: method(&found.default),
            others: others.collect(),
            unusable: found.unusable.into_iter().map(|(name, it)| (name.into(), it)).collect(),
            definitions: found.definitions.into(),
        };
        let changes_state = writes(&found.default);
        let allows_trial_runs = is_all_known && !changes_state;
        let several = settings.sessions;
        if 1 < several {
            let model = &source.name;
            tracing::warn!(
                model,
                "it has {several} sessions, and its variables are in memory {several} times"
            );
        }
        let (default, others) = (found.default, found.others);
        let shared =
            Arc::new(Shared { default, others, patience, changes_state, allows_trial_runs });
        let (config, share) =
            (settings.config(&overridden(&source.name, overrides)), settings.share);
        let (own, folder, stop) = (shared.clone(), folder.to_owned(), source.stop.clone());
        let requests = replays.len();
        if 0 < requests {
            let model = &source.name;
            tracing::info!(
                model,
                requests,
                "each session runs the requests of its warm-up file first"
            );
        }
        // Of the first session.
        let took = Arc::new(OnceLock::new());
        let first_took = took.clone();
        let make = move || {
            // What its signatures are has been read before, and each session reads the folder again.
            let session = stamps.while_same(|| {
                let session = Session::load(&library.table, &folder, &tags, &config);
                session.map_err(|it| error::of_load(&folder, &it))
            })?;
            let refused =
                |it: &dyn fmt::Display| BackendError::Load(format!("{}: {it}", folder.display()));
            let loaded = Loaded::new(session, &own).map_err(|it| refused(&it))?;
            let began = Instant::now();
            replays.run(&loaded.session, &stop).map_err(|it| refused(&it))?;
            first_took.get_or_init(|| began.elapsed());
            Ok(loaded)
        };
        let first = make()?;
        for (signature, ends) in shared.signatures().zip(&first.ends) {
            if let Err(problem) = ends {
                signatures.unusable.push((signature.name.as_str().into(), problem.to_string()));
            }
        }
        let sessions = Sessions::new(first, share, make);
        let warm_up = took.get().filter(|_| 0 < requests);
        let warm_up = warm_up.map(|took| WarmUp { requests: requests as u64, took: *took });
        Ok(TensorFlowModel { shared, signatures, sessions, warm_up })
    }
}

/// What is asked for and cannot be had, for the log.
fn note(source: &ModelSource, settings: &SessionSettings) {
    let model = &source.name;
    if settings.is_bfloat16 && environment::is_off(ONEDNN) {
        tracing::warn!(
            model,
            "it calculates in single precision: bfloat16 (TF_MIXED_PRECISION, --tensorflow-mixed-precision) needs \
             oneDNN, which is off; --tensorflow-onednn=on"
        );
    }
    if shares_threads(source) {
        tracing::warn!(
            model,
            "its parameter TF_USE_PER_SESSION_THREADS has no effect: each session has threads of its own"
        );
    }
}

/// What the SavedModel says of its own session, which the log says.
fn overridden(model: &str, overrides: Option<Overrides>) -> Overrides {
    let Some(overrides) = overrides else { return Overrides::default() };
    let off = if overrides.disables_meta_optimizer { "the meta optimizer is off" } else { "" };
    let ignored = match overrides.ignored.is_empty() {
        true => String::new(),
        false => format!("without effect here: {}", overrides.ignored.join(", ")),
    };
    let said: Vec<&str> = [off, &ignored].into_iter().filter(|it| !it.is_empty()).collect();
    if !said.is_empty() {
        tracing::info!(model, "its saved_model_config.pb: {}", said.join("; "));
    }
    overrides
}

/// Whether the graph may read and write files of this machine, or run code.
fn check_reach(source: &ModelSource, graph: &MetaGraph) -> Result<(), SavedModelError> {
    let Some(Danger { node, operation }) = danger_of(graph) else { return Ok(()) };
    if let Some(refusal) = &source.code_refusal {
        return Err(SavedModelError::new(format_args!(
            "its node '{node}' runs {operation}, which reaches files of the server or other programs, and {refusal}"
        )));
    }
    let model = &source.name;
    tracing::warn!(
        model,
        "its node '{node}' runs {operation}, which reaches files of the server or other programs; --secure-mode \
         refuses such models"
    );
    Ok(())
}

impl Model for TensorFlowModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.shared.default.spec)
    }

    fn run_memory(&self) -> RunMemory {
        RunMemory { strings: Some(StringMemory::TENSORFLOW), ..RunMemory::default() }
    }

    fn signatures(&self) -> Option<&Signatures> {
        Some(&self.signatures)
    }

    fn keeps_state(&self) -> bool {
        self.shared.changes_state
    }

    fn time_follows_values(&self) -> bool {
        self.shared.patience.iter().any(Patience::may_take_any_time)
    }

    fn allows_trial_runs(&self) -> bool {
        self.shared.allows_trial_runs
    }

    fn warm_up(&self) -> Option<WarmUp> {
        self.warm_up
    }

    fn instantiate(&self, _: Device) -> Result<Box<dyn Instance>, BackendError> {
        let (shared, loaded) = (self.shared.clone(), self.sessions.place()?);
        Ok(Box::new(TensorFlowInstance { shared, loaded }))
    }
}

/// Runs a session, maybe beside others that run it.
struct TensorFlowInstance {
    shared: Arc<Shared>,
    loaded: Arc<Loaded>,
}

impl Instance for TensorFlowInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let Loaded { session, ends } = &*self.loaded;
        let signature = self.shared.signatures().nth(batch.signature);
        let ends = ends.get(batch.signature).and_then(|it| it.as_ref().ok());
        let (signature, Ends { feeds, fetches }) = signature.zip(ends).ok_or_else(|| {
            BackendError::InvalidInput(format!("signature {} cannot be run", batch.signature))
        })?;
        let patience = self.shared.patience.get(batch.signature);
        if batch.stop.is_stopped() {
            return Err(BackendError::Execute("the run was stopped".to_owned()));
        }
        let input = |((it, default), &endpoint): ((&TensorSpec, _), &Endpoint)| {
            let given = batch.inputs.iter().find(|given| given.name == it.name);
            let given = given.map(|it| &it.tensor).or(Option::as_ref(default));
            let tensor: &Tensor = given.ok_or_else(|| {
                BackendError::InvalidInput(format!("input '{}' is missing", it.name))
            })?;
            match tensor.dtype() == it.dtype {
                true => Ok((endpoint, tensor)),
                false => Err(BackendError::InvalidInput(format!(
                    "input '{}' is {}, expected {}",
                    it.name,
                    tensor.dtype(),
                    it.dtype
                ))),
            }
        };
        let inputs = signature.spec.inputs.iter().zip(&signature.defaults).zip(feeds).map(input);
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let output = |name: &Arc<str>| {
            let index = signature.spec.outputs.iter().position(|it| it.name == *name);
            index.map(|it| fetches[it]).ok_or_else(|| {
                BackendError::InvalidInput(format!("the model has no output '{name}'"))
            })
        };
        let outputs = batch.outputs.iter().map(output).collect::<Result<Vec<_>, _>>()?;
        let bytes = inputs.iter().map(|(_, it)| it.byte_len()).sum();
        let began = Instant::now();
        let limit = patience.and_then(|it| it.limit(bytes, batch.stop.ends_by(), began));
        let tensors = session.run(&inputs, &outputs, limit).map_err(|it| error::of_run(&it))?;
        if let Some(patience) = patience {
            patience.learn(bytes, began.elapsed());
        }
        let named =
            |(name, tensor): (&Arc<str>, Tensor)| NamedTensor { name: name.clone(), tensor };
        Ok(batch.outputs.iter().zip(tensors).map(named).collect())
    }
}

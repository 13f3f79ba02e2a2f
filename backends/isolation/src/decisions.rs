//! Where models run, as far as that was decided: later loads of the same files heed it.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backend::{Backend, Device, Foresight, ModelSource};

use crate::{
    mark::Mark,
    place::{Decision, KnownModel, ModelPlace, decide, reconsidered},
    stamp::Stamp,
};

/// Models of which it is kept where they run. Beyond that the one that was decided first is forgotten, and decided
/// again with its next load.
const KEPT: usize = 1000;

/// What a decision holds for: another file or setting may make another model of it.
#[derive(Debug)]
struct Subject {
    engine: &'static str,
    model: String,
    path: PathBuf,
    options: BTreeMap<String, String>,
    devices: Vec<Device>,
    stamp: Stamp,
}

impl Subject {
    /// Files are looked at elsewhere.
    fn is_same(&self, engine: &str, source: &ModelSource) -> bool {
        self.engine == engine
            && self.model == source.name
            && self.path == source.path
            && self.options == source.options
            && self.devices.iter().copied().eq(source.placements.iter().map(|it| it.device))
    }

    /// Another state of the same version.
    fn is_version_of(&self, other: &Subject) -> bool {
        self.engine == other.engine && self.model == other.model && self.path == other.path
    }
}

/// What has been decided.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    /// Where it is kept for later starts which models are being loaded in the server, if it is.
    folder: Option<PathBuf>,
    /// Guards what is kept, oldest first, each version of a model once.
    kept: Mutex<VecDeque<(Arc<Subject>, Decision)>>,
}

impl Decisions {
    /// None yet. `folder`: where it is kept for later starts which models are being loaded.
    pub(crate) fn new(folder: Option<PathBuf>) -> Decisions {
        Decisions { folder, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Arc<Subject>, Decision)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that says that the model is being loaded, if one does.
    pub(crate) fn mark(&self, engine: &str, source: &ModelSource) -> Option<Mark> {
        self.folder.as_deref().map(|it| Mark::new(it, engine, source))
    }

    /// Where that model runs, if that has been decided. Looks at its files, and reads none.
    pub(crate) fn find(&self, engine: &str, source: &ModelSource) -> Option<Decision> {
        let is_same = |it: &&(Arc<Subject>, Decision)| it.0.is_same(engine, source);
        let same = self.kept().iter().find(is_same).cloned();
        // Without the lock: a file system may take its time.
        same.filter(|(it, _)| it.stamp.first_change().is_none()).map(|(_, decision)| decision)
    }

    /// The same, decided now where it has not been. The log says so, and it is kept for later loads.
    pub(crate) fn place(
        &self,
        engine: &dyn Backend,
        source: &ModelSource,
        is_bounded: bool,
    ) -> ModelPlace {
        if let Some(found) = self.find(engine.name(), source) {
            return found.place;
        }
        // Before the files are read by somebody else.
        let stamp = Stamp::of(source, engine.description().settings_of_files);
        let foresight = engine.foresee(source).unwrap_or(Foresight::Weights(stamp.bytes()));
        let decision = decide(KnownModel {
            is_bounded,
            brings_code: !source.op_libraries.is_empty(),
            has_ended_server: self.mark(engine.name(), source).is_some_and(|it| it.is_there()),
            foresight,
        });
        let (model, why) = (&source.name, &decision.why);
        match decision.place {
            ModelPlace::Server => tracing::info!(model, "it runs in the server's process: {why}"),
            ModelPlace::OwnProcess => {
                tracing::info!(model, "it runs in a process of its own: {why}")
            }
        }
        let place = decision.place;
        let subject = Subject {
            engine: engine.name(),
            model: source.name.clone(),
            path: source.path.clone(),
            options: source.options.clone(),
            devices: source.placements.iter().map(|it| it.device).collect(),
            stamp,
        };
        self.keep(subject, decision);
        place
    }

    /// Runs of clients take so long of a model that runs in the server. If they are long, its next load puts it into a
    /// process of its own: why. Once.
    pub(crate) fn reconsider(
        &self,
        engine: &str,
        source: &ModelSource,
        took: Duration,
    ) -> Option<String> {
        let why = reconsidered(took)?;
        let changed =
            Decision { place: ModelPlace::OwnProcess, is_foreseen: true, why: why.clone() };
        self.change(engine, source, ModelPlace::Server, changed).then_some(why)
    }

    /// A process of its own cannot load it for that reason, and the server's has: so do later loads.
    pub(crate) fn belongs_in_the_server(&self, engine: &str, source: &ModelSource, reason: &str) {
        let why = format!("a process of its own cannot load it: {reason}");
        let changed = Decision { place: ModelPlace::Server, is_foreseen: false, why };
        self.change(engine, source, ModelPlace::OwnProcess, changed);
    }

    /// Another decision takes the place of one for `from` that what comes later may change.
    fn change(&self, engine: &str, source: &ModelSource, from: ModelPlace, to: Decision) -> bool {
        let mut kept = self.kept();
        let same = kept.iter_mut().find(|it| it.0.is_same(engine, source));
        let same = same.filter(|(_, it)| it.place == from && it.is_foreseen);
        same.map(|(_, decision)| *decision = to).is_some()
    }

    fn keep(&self, subject: Subject, decision: Decision) {
        let mut kept = self.kept();
        kept.retain(|(other, _)| !other.is_version_of(&subject));
        if KEPT <= kept.len() {
            kept.pop_front();
        }
        kept.push_back((Arc::new(subject), decision));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use backend::{BackendError, Model};

    use super::*;

    /// Its models have the weights that the option `bytes` says, else what their files have.
    struct Engine;

    impl Backend for Engine {
        fn name(&self) -> &'static str {
            "identity"
        }

        fn load(&self, _: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
            Err(BackendError::Load("no models here".to_owned()))
        }

        fn foresee(&self, source: &ModelSource) -> Option<Foresight> {
            Some(Foresight::Weights(source.options.get("bytes")?.parse().ok()?))
        }
    }

    fn place(decisions: &Decisions, source: &ModelSource) -> ModelPlace {
        decisions.place(&Engine, source, false)
    }

    fn found(decisions: &Decisions, source: &ModelSource) -> Option<ModelPlace> {
        decisions.find("identity", source).map(|it| it.place)
    }

    #[test]
    fn a_decision_holds_for_the_same_files_settings_and_engine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        fs::write(&path, "one").unwrap();
        let decisions = Decisions::default();
        let mut source = ModelSource::new("m", &path);
        assert_eq!(found(&decisions, &source), None);
        assert_eq!(place(&decisions, &source), ModelPlace::Server);
        assert_eq!(found(&decisions, &source), Some(ModelPlace::Server));
        assert!(decisions.find("other", &source).is_none());
        assert_eq!(found(&decisions, &ModelSource::new("n", &path)), None);
        source.options.insert("bytes".into(), "100000000".into());
        assert_eq!(found(&decisions, &source), None);
        assert_eq!(place(&decisions, &source), ModelPlace::OwnProcess);
        assert_eq!(found(&decisions, &source), Some(ModelPlace::OwnProcess));
        // One decision for each version of a model.
        assert_eq!(found(&decisions, &ModelSource::new("m", &path)), None);
        fs::write(&path, "longer").unwrap();
        assert_eq!(found(&decisions, &source), None);
    }

    #[test]
    fn files_are_as_many_weights_as_bytes_where_the_engine_says_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let source = ModelSource::new("m", folder.path().join("m.pt"));
        let file = fs::File::create(&source.path).unwrap();
        assert_eq!(place(&Decisions::default(), &source), ModelPlace::Server);
        file.set_len(40 << 20).unwrap();
        assert_eq!(place(&Decisions::default(), &source), ModelPlace::OwnProcess);
    }

    #[test]
    fn a_model_in_the_server_whose_clients_runs_are_slow_is_in_a_process_of_its_own_after_its_next_load()
     {
        let decisions = Decisions::default();
        let source = ModelSource::new("m", "/nowhere/m");
        let slow = Duration::from_millis(100);
        let reconsider = |took| decisions.reconsider("identity", &source, took);
        assert_eq!(reconsider(slow), None);
        place(&decisions, &source);
        assert_eq!(reconsider(Duration::from_millis(3)), None);
        assert_eq!(found(&decisions, &source), Some(ModelPlace::Server));
        assert!(reconsider(slow).is_some_and(|it| it.contains("100.0ms")));
        assert_eq!(place(&decisions, &source), ModelPlace::OwnProcess);
        assert_eq!(reconsider(slow), None, "once");
        // A process of its own could not load it.
        decisions.belongs_in_the_server("identity", &source, "no");
        assert_eq!((reconsider(slow), place(&decisions, &source)), (None, ModelPlace::Server));
    }

    #[test]
    fn of_many_models_those_decided_last_are_kept() {
        let decisions = Decisions::default();
        let source = |number: usize| ModelSource::new(number.to_string(), "/nowhere/m");
        for number in 0..=KEPT {
            place(&decisions, &source(number));
        }
        let found = |number| found(&decisions, &source(number));
        assert_eq!([found(0), found(1)], [None, Some(ModelPlace::Server)]);
        assert_eq!(decisions.kept().len(), KEPT);
    }

    #[test]
    fn a_model_that_was_being_loaded_when_the_server_ended_has_a_process_of_its_own_once() {
        let folder = tempfile::tempdir().unwrap();
        let start = || Decisions::new(Some(folder.path().join("kept")));
        let source = ModelSource::new("m", "/nowhere/m");
        assert_eq!(place(&start(), &source), ModelPlace::Server);
        start().mark("identity", &source).unwrap().put();
        let next = start();
        assert_eq!(place(&next, &source), ModelPlace::OwnProcess);
        let why = next.find("identity", &source).unwrap().why;
        assert!(why.contains("when the server ended last"), "{why}");
        assert_eq!(place(&start(), &ModelSource::new("n", "/nowhere/m")), ModelPlace::Server);
        next.mark("identity", &source).unwrap().remove();
        assert_eq!(place(&start(), &source), ModelPlace::Server);
    }
}

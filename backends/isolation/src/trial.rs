//! Models that are loaded in a process of their own to find out where they are to run, and what was found out.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use backend::{Backend, BackendError, Device, ModelSource};

use crate::{
    mark::Mark,
    place::{Decision, EngineRun, Known, Place, decide, reconsidered},
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
    /// Where the decision is kept for later starts, if it is.
    mark: Option<Mark>,
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
    /// Where it is kept for later starts, if it is.
    folder: Option<PathBuf>,
    /// Guards what is kept, oldest first, each version of a model once.
    kept: Mutex<VecDeque<(Arc<Subject>, Decision)>>,
}

impl Decisions {
    /// None yet. `folder`: where they are kept for later starts.
    pub(crate) fn new(folder: Option<PathBuf>) -> Decisions {
        Decisions { folder, kept: Mutex::default() }
    }

    /// The model is loaded where that was decided, if it was, and its first runs are made: later starts need not try
    /// one that is in the server. Another is loaded once in any case.
    pub(crate) fn note_loaded(&self, engine: &str, source: &ModelSource) {
        let same = self.kept().iter().find(|it| it.0.is_same(engine, source)).cloned();
        let Some((subject, decision)) = same else { return };
        let is_kept = decision.place == Place::Server && decision.is_measured;
        if let Some(mark) = subject.mark.as_ref().filter(|_| is_kept) {
            mark.write(&decision.why);
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Arc<Subject>, Decision)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where that model runs, if that has been decided. Looks at its files, and reads none.
    pub(crate) fn find(&self, engine: &str, source: &ModelSource) -> Option<Decision> {
        let is_same = |it: &&(Arc<Subject>, Decision)| it.0.is_same(engine, source);
        let same = self.kept().iter().find(is_same).cloned();
        // Without the lock: a file system may take its time.
        same.filter(|(it, _)| it.stamp.first_change().is_none()).map(|(_, decision)| decision)
    }

    /// Runs of clients take so long of a model that runs in the server. If they take clearly longer than those did by
    /// which that was decided, its next load puts it into a process of its own: why. Once.
    pub(crate) fn reconsider(
        &self,
        engine: &str,
        source: &ModelSource,
        took: Duration,
    ) -> Option<String> {
        let why = reconsidered(took)?;
        let mut kept = self.kept();
        let (subject, decision) = kept.iter_mut().find(|it| it.0.is_same(engine, source))?;
        if decision.place != Place::Server || !decision.is_measured {
            return None;
        }
        *decision = Decision { place: Place::OwnProcess, is_measured: true, why: why.clone() };
        let subject = subject.clone();
        drop(kept);
        if let Some(mark) = &subject.mark {
            // One that has not come back yet is not there.
            let _ = mark.remove();
        }
        Some(why)
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

/// A model that is being loaded in a process of its own, to find out where it is to run.
#[derive(Debug)]
pub(crate) struct Trial {
    decisions: Arc<Decisions>,
    is_bounded: bool,
    brings_code: bool,
    /// Guards what is decided once, and the most telling run so far.
    state: Mutex<(Option<Subject>, Option<EngineRun>)>,
}

impl Trial {
    /// To be made before the files are read by somebody else.
    pub(crate) fn begin(
        decisions: &Arc<Decisions>,
        engine: &dyn Backend,
        source: &ModelSource,
        is_bounded: bool,
    ) -> Trial {
        let stamp = Stamp::of(source, engine.description().settings_of_files);
        let brings_code = !source.op_libraries.is_empty();
        let folder = decisions.folder.as_deref().filter(|_| !is_bounded && !brings_code);
        let mark = folder.and_then(|it| Mark::new(it, engine, source, &stamp));
        let subject = Subject {
            engine: engine.name(),
            model: source.name.clone(),
            path: source.path.clone(),
            options: source.options.clone(),
            devices: source.placements.iter().map(|it| it.device).collect(),
            stamp,
            mark,
        };
        let state = Mutex::new((Some(subject), None));
        Trial { decisions: decisions.clone(), is_bounded, brings_code, state }
    }

    /// Has an earlier start found out that the model runs in the server? There is nothing to try then.
    pub(crate) fn was_in_the_server(&self) -> bool {
        self.settle_as_before().is_some()
    }

    fn settle_as_before(&self) -> Option<()> {
        let (subject, _) = &mut *self.state();
        let mark = subject.as_ref()?.mark.as_ref()?;
        let decision = mark.read()?;
        // Until the model is loaded: should that end the server, the next start finds out again.
        mark.remove().ok()?;
        let subject = subject.take()?;
        told(&subject.model, &decision);
        self.decisions.keep(subject, decision);
        Some(())
    }

    fn state(&self) -> MutexGuard<'_, (Option<Subject>, Option<EngineRun>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run has succeeded.
    pub(crate) fn ran(&self, run: EngineRun) {
        let (_, best) = &mut *self.state();
        *best = Some(best.map_or(run, |it| it.telling(run)));
    }

    /// Decides by the runs so far, says so, and keeps it for later loads. Is the model to be loaded in the server?
    /// False once that has been decided. `has_died` says that its process has, in these runs.
    pub(crate) fn moves_to_the_server(&self, has_died: bool) -> bool {
        let (subject, run) = {
            let (subject, run) = &mut *self.state();
            (subject.take(), *run)
        };
        let Some(subject) = subject else { return false };
        let Trial { is_bounded, brings_code, .. } = *self;
        let decision = decide(Known { run, is_bounded, brings_code, has_died });
        told(&subject.model, &decision);
        let moves = decision.place == Place::Server;
        self.decisions.keep(subject, decision);
        moves
    }

    /// A process of its own cannot load it for that reason, and the server's has: so do later loads.
    pub(crate) fn belongs_in_the_server(&self, error: &BackendError) {
        let Some(subject) = self.state().0.take() else { return };
        let why = format!("a process of its own cannot load it: {error}");
        self.decisions.keep(subject, Decision { place: Place::Server, is_measured: false, why });
    }
}

fn told(model: &str, Decision { place, why, .. }: &Decision) {
    match place {
        Place::Server => tracing::info!(model, "it runs in the server's process: {why}"),
        Place::OwnProcess => tracing::info!(model, "it runs in a process of its own: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn run(micros: u64) -> EngineRun {
        EngineRun { rows: 1, bytes: 4, output_bytes: 4, took: Duration::from_micros(micros) }
    }

    struct Engine;

    impl Backend for Engine {
        fn name(&self) -> &'static str {
            "identity"
        }

        fn load(&self, _: &ModelSource) -> Result<Arc<dyn backend::Model>, BackendError> {
            Err(BackendError::Load("no models here".to_owned()))
        }
    }

    fn settled(decisions: &Arc<Decisions>, source: &ModelSource, runs: &[EngineRun]) -> bool {
        let trial = Trial::begin(decisions, &Engine, source, false);
        assert!(!trial.was_in_the_server());
        runs.iter().for_each(|it| trial.ran(*it));
        let moves = trial.moves_to_the_server(false);
        assert!(!trial.moves_to_the_server(false));
        moves
    }

    #[test]
    fn what_is_decided_holds_until_a_file_or_a_setting_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        fs::write(&path, "one").unwrap();
        let decisions = Arc::default();
        let mut source = ModelSource::new("m", &path);
        let find = |source: &ModelSource| {
            Decisions::find(&decisions, "identity", source).map(|it| it.place)
        };
        assert_eq!(find(&source), None);
        assert!(settled(&decisions, &source, &[run(7)]));
        assert_eq!(find(&source), Some(Place::Server));
        assert!(decisions.find("other", &source).is_none());
        assert_eq!(find(&ModelSource::new("n", &path)), None);
        source.options.insert("execute_delay_ms".into(), "5".into());
        assert_eq!(find(&source), None);
        assert!(!settled(&decisions, &source, &[run(5000)]));
        assert_eq!(find(&source), Some(Place::OwnProcess));
        // One decision for each version of a model.
        assert_eq!(find(&ModelSource::new("m", &path)), None);
        fs::write(&path, "longer").unwrap();
        assert_eq!(find(&source), None);
    }

    #[test]
    fn a_model_in_the_server_whose_clients_runs_are_slow_is_in_a_process_of_its_own_after_its_next_load()
     {
        let decisions = Arc::default();
        let source = ModelSource::new("m", "/nowhere/m");
        let find = || Decisions::find(&decisions, "identity", &source).map(|it| it.place);
        let slow = Duration::from_millis(100);
        let reconsider = |took| Decisions::reconsider(&decisions, "identity", &source, took);
        assert_eq!(reconsider(slow), None);
        settled(&decisions, &source, &[run(7)]);
        assert_eq!(reconsider(Duration::from_millis(3)), None);
        assert_eq!(find(), Some(Place::Server));
        assert!(reconsider(slow).is_some_and(|it| it.contains("100.0ms")));
        assert_eq!(find(), Some(Place::OwnProcess));
        assert_eq!(reconsider(slow), None, "once");
        // A process of its own could not load it.
        let trial = Trial::begin(&decisions, &Engine, &source, false);
        trial.belongs_in_the_server(&BackendError::Load("no".into()));
        assert_eq!((reconsider(slow), find()), (None, Some(Place::Server)));
    }

    #[test]
    fn of_many_models_those_decided_last_are_kept() {
        let decisions = Arc::default();
        let source = |number: usize| ModelSource::new(number.to_string(), "/nowhere/m");
        for number in 0..=KEPT {
            settled(&decisions, &source(number), &[]);
        }
        let place = |number| decisions.find("identity", &source(number)).map(|it| it.place);
        assert_eq!([place(0), place(1)], [None, Some(Place::Server)]);
        assert_eq!(decisions.kept().len(), KEPT);
    }

    #[test]
    fn a_later_start_finds_out_nothing_of_a_model_that_was_loaded_as_it_is() {
        let (folder, models) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = |name: &str| {
            let path = models.path().join(name);
            fs::write(&path, name.get(..1).unwrap()).unwrap();
            ModelSource { directory: models.path().to_owned(), ..ModelSource::new(name, path) }
        };
        let found = |source: &ModelSource| {
            let start = Arc::new(Decisions::new(Some(folder.path().to_owned())));
            let found = Trial::begin(&start, &Engine, source, false).was_in_the_server();
            let place = start.find("identity", source).map(|it| it.to_string());
            assert_eq!(place.is_some_and(|it| it.starts_with("in_process: a run takes")), found);
            (start, found)
        };
        let first = Arc::new(Decisions::new(Some(folder.path().to_owned())));
        let (fast, slow) = (source("fast"), source("slow"));
        settled(&first, &fast, &[run(7)]);
        assert!(!found(&fast).1, "it is not loaded yet");
        first.note_loaded("identity", &fast);
        let (second, was_there) = found(&fast);
        assert!(was_there);
        assert!(!found(&fast).1, "as where its load has ended the server");
        second.note_loaded("identity", &fast);
        let other = ModelSource { options: [("a".into(), "b".into())].into(), ..fast.clone() };
        assert!(!found(&other).1);
        let bounded = Trial::begin(&second, &Engine, &fast, true);
        assert!(!bounded.was_in_the_server());
        let (third, was_there) = found(&fast);
        assert!(was_there);
        third.note_loaded("identity", &fast);
        let config = models.path().join("config.pbtxt");
        fs::write(&config, "model_warmup {}").unwrap();
        assert!(!found(&fast).1, "its load makes other runs");
        fs::remove_file(&config).unwrap();
        fs::write(&fast.path, "other").unwrap();
        assert!(!found(&fast).1);
        // One that is in a process of its own was loaded once.
        settled(&first, &slow, &[run(5000)]);
        first.note_loaded("identity", &slow);
        assert!(!found(&slow).1);
    }

    #[test]
    fn what_clients_runs_have_shown_is_found_out_anew_by_later_starts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        fs::write(&path, "m").unwrap();
        let source = ModelSource::new("m", path);
        let start = || Arc::new(Decisions::new(Some(folder.path().to_owned())));
        let first = start();
        settled(&first, &source, &[run(7)]);
        first.note_loaded("identity", &source);
        assert!(first.reconsider("identity", &source, Duration::from_millis(100)).is_some());
        assert!(!Trial::begin(&start(), &Engine, &source, false).was_in_the_server());
    }
}

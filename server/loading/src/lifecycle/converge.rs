//! From what serves of a model to what should: loads what is new beside it, changes from one to the other in one
//! step, and hands what is old to the reaper.

use std::{
    collections::BTreeMap,
    fmt::Display,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::HeldDir;

use crate::{
    lifecycle::{
        decide::{Sources, Work, decide},
        eviction::Eviction,
        find::Finder,
        load_override::ReadOverride,
        load_slots::LoadSlots,
        members::{MemberWait, MemberWaits, members},
        model_table::{ModelRecord, ModelTable},
        publish::{Publisher, member_failed, versions_failed},
    },
    load::{checksum::check_files, load_error::LoadError, loader::Loader},
    repository::{
        catalogue::Catalogue, file_stamps::FileStamps, local::FoundModel, remote::Copies,
        versions::wanted_versions,
    },
};
use inference::{
    error::{Error, Kind},
    messages,
};
use machine::anonymous_bytes;
use serving::{
    config::raw,
    lock::lock,
    manager::{ModelManager, Versions},
    model_id::ModelId,
    served::ServedModel,
    state::{Reason, State},
};

/// What a model is to be made of.
pub(super) struct Target {
    found: FoundModel,
    raw: Option<raw::ModelConfig>,
    files: Option<Arc<HeldDir>>,
    sources: Sources,
}

impl Target {
    pub(super) fn found(&self) -> &FoundModel {
        &self.found
    }

    pub(super) fn raw(&self) -> Option<&raw::ModelConfig> {
        self.raw.as_ref()
    }

    pub(super) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The directory or the file of a version.
    pub(super) fn path_of(&self, version: u64) -> Option<&Path> {
        self.found.versions.get(&version).map(PathBuf::as_path)
    }
}

/// How it is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadMode {
    /// As far as it works: of a model that does not serve yet, versions that load serve without those that do
    /// not.
    BestEffort,
    /// All or nothing.
    AllOrNothing,
}

/// The versions that were loaded, and those that were not, and why.
type Loaded = (Versions, Vec<(u64, LoadError)>);

/// Brings models to what they should be: the one way in which models are loaded.
pub(super) struct Converger {
    pub(super) loader: Arc<Loader>,
    pub(super) manager: Arc<ModelManager>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) finder: Finder,
    pub(super) table: Arc<ModelTable>,
    pub(super) publisher: Arc<Publisher>,
    /// There only where requests load models.
    pub(super) eviction: Option<Arc<Eviction>>,
    pub(super) load_slots: LoadSlots,
    pub(super) member_waits: MemberWaits,
    /// How often a version that cannot be loaded is tried again.
    pub(super) retries: usize,
}

impl Converger {
    /// Loads a model because a client asked for it.
    pub(super) fn load_by_request(
        &self,
        name: &str,
        given: Option<ReadOverride>,
    ) -> Result<(), Error> {
        let found = with_given(name, self.finder.find(name, Copies::Fresh), given.as_ref())?;
        let id = found.id();
        let shared = self.table.record(&id);
        let mut record = lock(&shared);
        let given = given.or_else(|| record.kept_config(&found));
        let target = self.target(&mut record, found, given.as_ref())?;
        let changed = self.converge(&mut record, target, LoadMode::AllOrNothing)?;
        if let Some(loaded) = record.loaded.as_ref().filter(|_| !changed) {
            self.load_gone_members(&id, loaded)?;
        }
        (record.given, record.withheld) = (given, false);
        drop(record);
        self.revalidate_if(changed, &id);
        Ok(())
    }

    /// Loads a model as the repository has it; what came with the last request to load it still counts.
    /// `is_member`: because an ensemble needs it, whose record is held.
    pub(super) fn converge_found(
        &self,
        found: FoundModel,
        mode: LoadMode,
        is_member: bool,
    ) -> Result<(), Error> {
        let id = found.id();
        let shared = self.table.record(&id);
        let mut record = lock(&shared);
        let given = record.given.clone();
        let target = self.target(&mut record, found, given.as_ref()).inspect_err(|error| {
            self.publisher.failed(&id, None, &error.to_string());
        })?;
        let changed = self.converge(&mut record, target, mode)?;
        record.withheld = false;
        drop(record);
        // An ensemble could not use a member that did not serve.
        self.revalidate_if(changed && !is_member, &id);
        Ok(())
    }

    /// A model as the repository has it, or as it came with a request to load it.
    pub(super) fn found(
        &self,
        id: &ModelId,
        given: Option<&ReadOverride>,
    ) -> Result<FoundModel, Error> {
        with_given(&id.name, self.finder.find_in(id), given)
    }

    pub(super) fn target(
        &self,
        record: &mut ModelRecord,
        found: FoundModel,
        given: Option<&ReadOverride>,
    ) -> Result<Target, Error> {
        let mut found = self.catalogue.latest(found);
        let files = given.and_then(|it| it.files.clone());
        if let Some((private, versions)) = &files {
            private.path().clone_into(&mut found.dir);
            found.versions.clone_from(versions);
            found.config = None;
            found.is_of_request = true;
        }
        // What is known of files that have come before is known of no others.
        found.contents = Arc::default();
        // Before anything is read: what changes from now on is seen to be a change.
        let mut stamps = FileStamps::take_to_load(&found);
        if let Some(loaded) = &record.loaded {
            stamps = stamps.since(&loaded.stamps);
            found.contents = stamps.contents.clone();
        }
        record.settled = Some(stamps.clone());
        let raw = match given {
            Some(given) => Some(given.raw.clone()),
            None => self.loader.read_config(&found).map_err(|reason| {
                Error::Repository(format!("{}: {reason}", messages::poll_failed(&found.name)))
            })?,
        };
        let raw = self.catalogue.with_policy(&found, raw);
        self.loader.find_version(&mut found, raw.as_ref());
        let sources = Sources::new(&found.name, raw.clone(), stamps);
        Ok(Target { found, raw, files: files.map(|it| it.0), sources })
    }

    /// Brings the model to its target. Was anything of it loaded?
    fn converge(
        &self,
        record: &mut ModelRecord,
        target: Target,
        mode: LoadMode,
    ) -> Result<bool, Error> {
        let id = target.found.id();
        let wanted = wanted_versions(target.raw.as_ref(), &target.found);
        let wanted = wanted.map_err(|reason| self.failed(&id, reason))?;
        for version in &wanted.missing {
            let dir = target.found.dir.display();
            tracing::error!(model = %id, version, "version_policy asks for it, and {dir} has none");
        }
        let numbers: Vec<u64> = wanted.here.iter().map(|(number, _)| *number).collect();
        let serving = self.manager.serving(&id);
        let serves: Vec<u64> = serving.keys().copied().collect();
        let has_ended = |it: &(&u64, &Arc<ServedModel>)| it.1.is_to_be_loaded_again();
        let ended: Vec<u64> = serving.iter().filter(has_ended).map(|(it, _)| *it).collect();
        let work = decide(record.loaded.as_ref(), &serves, &ended, &target.sources, &numbers);
        if work.is_nothing() {
            record.loaded = Some(target.sources);
            return Ok(false);
        }
        // Reads whole files, so only where they are going to be loaded.
        if !work.load.is_empty() {
            check_files(target.raw.as_ref(), &target.found)
                .map_err(|reason| self.failed(&id, reason))?;
        }
        let members = members(&target.found.namespace, &target.sources.raw);
        // Until the ensemble serves: an unload of a member waits for that.
        let _loading = self.load_members(&id, &members)?;
        // What came with a request is the server's own, and does not change.
        let read: &[u64] = if target.found.is_of_request { &[] } else { &work.load };
        let load = || self.load_versions(record, &target, &work, mode);
        let (mut next, failures) = target.sources.stamps.while_read(read, load)?;
        let kept_versions = work.keep.iter().filter_map(|it| Some((*it, serving.get(it)?)));
        for (version, model) in kept_versions {
            match self.keep(&target, version, model, work.resize) {
                Ok(model) => drop(next.insert(version, model)),
                Err(error) => {
                    self.publisher.give_up(&id, next, &error.to_string());
                    return Err(error);
                }
            }
        }
        self.publisher.switch(&id, next, Reason::Unloaded);
        for (version, error) in &failures {
            self.manager.note(
                &id,
                Some(*version),
                State::Unavailable,
                Reason::Failed(error.to_string()),
            );
        }
        self.table.set_members(id.clone(), members);
        self.catalogue.serves(&target.found.dir);
        record.loaded = Some(target.sources);
        Ok(!work.load.is_empty())
    }

    /// Loads what is to be loaded. All of it, or, of a model that does not serve yet, what can be.
    fn load_versions(
        &self,
        record: &mut ModelRecord,
        target: &Target,
        work: &Work,
        mode: LoadMode,
    ) -> Result<Loaded, Error> {
        let id = target.found.id();
        let serving = self.manager.serving(&id);
        for version in work.load.iter().filter(|it| !serving.contains_key(it)) {
            self.manager.note(&id, Some(*version), State::Loading, "");
        }
        let (mut loaded, mut failures) = (Versions::new(), Vec::new());
        {
            let _permit = self.load_slots.take();
            let on_disk = target.sources.stamps.bytes(work.load.iter().copied());
            let mut room = self.make_room(&id, on_disk.max(record.bytes));
            for version in &work.load {
                match room.clone().and_then(|()| self.load_version(target, *version)) {
                    Ok(model) => drop(loaded.insert(*version, Arc::new(model))),
                    Err(reason) => failures.push((*version, reason)),
                }
            }
            record.bytes = loaded.values().map(|it| it.memory_bytes()).sum();
            // Now that it is known what it takes.
            room = room.and_then(|()| self.make_room(&id, record.bytes));
            if let Err(reason) = room {
                let versions = std::mem::take(&mut loaded);
                failures.extend(versions.into_keys().map(|it| (it, reason.clone())));
            }
        }
        for (version, error) in &failures {
            self.publisher.failed(&id, Some(*version), &error.to_string());
        }
        let partly = mode == LoadMode::BestEffort && serving.is_empty() && !loaded.is_empty();
        if failures.is_empty() || partly {
            return Ok((loaded, failures));
        }
        self.publisher.give_up(&id, loaded, "another version failed to load");
        let reason = versions_failed(&id, &failures);
        let lacks_memory = |(_, it): &(u64, LoadError)| matches!(it, LoadError::OutOfMemory(_));
        Err(match failures.iter().any(lacks_memory) {
            true => LoadError::OutOfMemory(reason).into(),
            false => LoadError::Refused(reason).into(),
        })
    }

    fn load_version(&self, target: &Target, version: u64) -> Result<ServedModel, LoadError> {
        let Some(path) = target.found.versions.get(&version) else {
            return Err("it is not there any more".to_owned().into());
        };
        // Without what the first model of an engine brings with it: libraries, which the system can drop.
        let before = anonymous_bytes();
        let load = || self.loader.load_version(&target.found, target.raw.as_ref(), version, path);
        let mut outcome = load();
        for attempt in 1..=self.retries {
            let Err(reason) = &outcome else { break };
            let model = &target.found.name;
            tracing::warn!(
                model,
                version,
                attempt,
                "cannot load the model, trying again: {reason}"
            );
            outcome = load();
        }
        let mut model = outcome?;
        model.files.clone_from(&target.files);
        if let Some(eviction) = &self.eviction {
            model.used.now(eviction.now());
            if eviction.has_budget() {
                let on_disk = target.sources.stamps.bytes([version].into_iter());
                model.bytes = anonymous_bytes().saturating_sub(before).max(on_disk);
            }
        }
        Ok(model)
    }

    /// A version that stays, with other instances if its configuration asks for them.
    pub(super) fn keep(
        &self,
        target: &Target,
        version: u64,
        model: &Arc<ServedModel>,
        resize: bool,
    ) -> Result<Arc<ServedModel>, Error> {
        let Some(path) = target.found.versions.get(&version).filter(|_| resize) else {
            return Ok(model.clone());
        };
        let (found, raw) = (&target.found, target.raw.as_ref());
        let failed = |reason: String| {
            tracing::error!(model = found.name, version, "cannot change the instances: {reason}");
            Error::InvalidRequest(format!("model '{}' version {version}: {reason}", found.name))
        };
        match self.loader.resize(model, found, raw, path) {
            Ok(Some(resized)) => Ok(Arc::new(resized)),
            // On other devices it is another model. A process that knows the files by what the system said of them
            // makes no instance of equal copies.
            Ok(None) | Err(_) => {
                self.load_again(target, version).map_err(|it| failed(it.to_string()))
            }
        }
    }

    /// A version that serves, once more.
    pub(super) fn load_again(
        &self,
        target: &Target,
        version: u64,
    ) -> Result<Arc<ServedModel>, LoadError> {
        let _permit = self.load_slots.take();
        self.load_version(target, version).map(Arc::new)
    }

    /// Loads the models that this one hands requests to, unless they serve. It counts as being loaded until what this
    /// returns is dropped.
    fn load_members<'a>(
        &'a self,
        id: &'a ModelId,
        members: &[ModelId],
    ) -> Result<Option<MemberWait<'a>>, Error> {
        if members.is_empty() {
            return Ok(None);
        }
        let loading = self.no_circle(id, members).map_err(|circle| self.failed(id, circle))?;
        for member in members {
            let problem = |error: Error| {
                let text = member_failed(id, member, &error);
                self.publisher.failed(id, None, &text);
                match error.kind() {
                    Kind::OutOfMemory => Error::from(LoadError::OutOfMemory(text)),
                    _ => Error::from(LoadError::Refused(text)),
                }
            };
            if self.manager.serving(member).is_empty() {
                let found = self.finder.find_in(member).map_err(problem)?;
                self.converge_found(found, LoadMode::BestEffort, true).map_err(problem)?;
            }
        }
        Ok(Some(loading))
    }

    /// Waits of that model for its members, unless they are made of it.
    ///
    /// # Errors
    /// The circle.
    pub(super) fn no_circle<'a>(
        &'a self,
        id: &'a ModelId,
        members: &[ModelId],
    ) -> Result<MemberWait<'a>, String> {
        let loading = self.member_waits.wait_for(id, members, |it| self.members_on_disk(it));
        loading.map_err(|circle| format!("the ensembles are made of each other: {circle}"))
    }

    /// Of an ensemble that was loaded before: loads the members that were unloaded since.
    fn load_gone_members(&self, id: &ModelId, loaded: &Sources) -> Result<(), Error> {
        let members = members(&id.namespace, &loaded.raw);
        if members.iter().any(|it| self.manager.serving(it).is_empty()) {
            let _loading = self.load_members(id, &members)?;
            members.iter().for_each(|it| self.manager.revalidate_ensembles(it));
        }
        Ok(())
    }

    /// Compares the ensembles of which this model is a member with what was loaded.
    fn revalidate_if(&self, changed: bool, id: &ModelId) {
        if changed {
            self.manager.revalidate_ensembles(id);
        }
    }

    /// Notes why a model is not loaded.
    fn failed(&self, id: &ModelId, reason: impl Display) -> Error {
        self.publisher.failed(id, None, &reason.to_string());
        Error::InvalidRequest(format!("{}: {reason}", messages::load_failed(&id.to_string())))
    }

    fn make_room(&self, id: &ModelId, bytes: u64) -> Result<(), LoadError> {
        self.eviction.as_ref().map_or(Ok(()), |it| it.make_room(id, bytes))
    }

    fn members_on_disk(&self, id: &ModelId) -> Vec<ModelId> {
        let found = self.finder.find_in(id).ok();
        let raw = found.and_then(|it| self.loader.read_config(&it).ok().flatten());
        raw.map(|it| members(&id.namespace, &it)).unwrap_or_default()
    }
}

/// Without a directory in the repository files that are given are all that there is.
fn with_given(
    name: &str,
    found: Result<FoundModel, Error>,
    given: Option<&ReadOverride>,
) -> Result<FoundModel, Error> {
    match (found, given) {
        (Ok(found), _) => Ok(found),
        (Err(_), Some(ReadOverride { files: Some(_), .. })) => Ok(only_given(name)),
        (Err(error), _) => Err(error),
    }
}

/// A model of which everything came with the request.
fn only_given(name: &str) -> FoundModel {
    FoundModel {
        name: name.to_owned(),
        namespace: Arc::default(),
        config: None,
        dir: Default::default(),
        versions: BTreeMap::new(),
        renamed: false,
        label: None,
        is_of_request: false,
        others: Arc::default(),
        script: None,
        contents: Default::default(),
    }
}

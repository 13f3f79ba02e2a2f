//! Sessions of one model, as many as are asked for, all of the same files.

use std::{io, path::Path, path::PathBuf, sync::Arc};

use backend::{BackendError, FileStamps};

use crate::{
    cache::Cache,
    files::ModelFiles,
    graph::Made,
    held::{Held, InMemory},
    leased::Leases,
    library::Runtime,
    native::{Session, Source},
    options::Settings,
    own_tensor::OwnTensor,
    place::open,
    zipmap::{self, Unzipped},
};

/// The files of a model version, and where its sessions come from.
pub(crate) struct Opener {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) path: PathBuf,
    /// What was made for the weights at that path, if that is what they are.
    pub(crate) made: Option<Made>,
    /// The files as they were when the model was loaded.
    pub(crate) stamps: FileStamps,
    /// What the model consists of. `None` where it cannot be walked.
    pub(crate) files: Option<ModelFiles>,
    /// Where the optimised forms of large models are kept.
    pub(crate) cache: Option<Arc<Cache>>,
    /// Where copies of its weights are made.
    pub(crate) scratch: Vec<PathBuf>,
    /// Bytes of memory that the process may take.
    pub(crate) memory: Option<u64>,
    /// Is the model without the `ZipMap` of its file?
    pub(crate) is_unzipped: bool,
}

impl Opener {
    /// The first session, of what was just read. Blocking.
    pub(crate) fn first(
        &self,
        settings: &Settings,
        unzipped: Option<&Unzipped>,
    ) -> Result<Session, BackendError> {
        if let Some(session) = self.completed(settings) {
            return session;
        }
        let kept = self.kept(settings).and_then(|(cache, files)| {
            cache.session(&self.runtime, files, settings, &|| self.held())
        });
        if let Some(session) = kept {
            return Ok(session);
        }
        if let Some(session) = self.in_place(settings) {
            return Ok(session);
        }
        let held = self.held()?;
        let session = open(
            &self.runtime,
            held.model(&self.path),
            self.source(unzipped),
            held.in_memory(),
            settings,
        );
        match (session, held) {
            // A provider for GPUs may read the file again when shapes come that it has no plan for.
            (Ok(session), Held::Copied(copy)) if !settings.providers.is_empty() => {
                Ok(session.with(copy))
            }
            (Ok(session), _) => Ok(session),
            (Err(error), held) => Err(held.renamed(error)),
        }
    }

    /// A session of a graph that was made, from the files where they lie. `None` where they could change meanwhile, or
    /// would be in use behind it. Blocking.
    fn in_place(&self, settings: &Settings) -> Option<Session> {
        let (made, files) = (self.made.as_ref()?, self.files.as_ref()?);
        // A provider for GPUs may read them again.
        let is_for_us = settings.providers.is_empty() && !self.is_unzipped;
        let leases = is_for_us.then(|| Leases::of(files.paths_of_weights()))?;
        let in_memory = |tensors: &Vec<OwnTensor>| {
            let (path, source) = (&self.path, self.source(None));
            open(&self.runtime, path, source, InMemory::Tensors(tensors), settings)
        };
        let session = || -> Result<Session, BackendError> {
            let failed = |error: io::Error| BackendError::Load(error.to_string());
            let leases = leases.map_err(failed)?;
            // From here on headers cannot change: what they say is what will be mapped.
            made.check(&self.path)?;
            let tensors = leases.read(&self.runtime.native, made.plain()).map_err(failed)?;
            let session = self.stamps.while_same(|| in_memory(&tensors))?.with_tensors(tensors);
            leases.check().map_err(failed)?;
            Ok(session)
        };
        let found = session();
        let told = |error: &BackendError| {
            let path = self.path.display();
            tracing::debug!(%error, "{path} is copied, as it cannot be used where it lies");
        };
        found.inspect_err(told).ok()
    }

    /// A session of a graph that was made and has all of its weights in memory: they are read once, and the files are
    /// not needed any more. `None` where a session reads them itself. Blocking.
    fn completed(&self, settings: &Settings) -> Option<Result<Session, BackendError>> {
        let made = self.made.as_ref()?;
        let failed =
            |error: io::Error| BackendError::Load(format!("{}: {error}", self.path.display()));
        let read = |weight: &graphs::Plain| {
            let file = backend::open_file(&self.path.with_file_name(&weight.file))?;
            OwnTensor::read(&self.runtime.native, weight, &file)
        };
        let content = made.completed(&self.path)?;
        Some(self.stamps.while_same(|| {
            // What the header says now is what was read.
            made.check(&self.path)?;
            let content = content?;
            let tensors = made.plain().iter().map(read).collect::<io::Result<Vec<_>>>();
            let tensors = tensors.map_err(failed)?;
            let (source, in_memory) = (Source::Content(&content), InMemory::Tensors(&tensors));
            let session = open(&self.runtime, &self.path, source, in_memory, settings)?;
            Ok(session.with_tensors(tensors))
        }))
    }

    /// The files where nobody else writes to them. Blocking.
    fn held(&self) -> Result<Held, BackendError> {
        match &self.files {
            None => Ok(Held::InPlace),
            Some(files) => self.stamps.while_same(|| Held::of(files, &self.scratch, self.memory)),
        }
    }

    /// One more session. Blocking. A file that has been replaced since is another model, even where it looks the same.
    pub(crate) fn another(&self, settings: &Settings) -> Result<Session, BackendError> {
        self.stamps.while_same(|| {
            let unzipped = self.is_unzipped.then(|| read_unzipped(&self.path)).flatten();
            self.first(settings, unzipped.as_ref())
        })
    }

    /// Bytes of its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |it| it.bytes)
    }

    /// Are they so many that what a load frees is worth giving back?
    pub(crate) fn is_large(&self) -> bool {
        self.files.as_ref().is_some_and(ModelFiles::is_large)
    }

    /// What a session is made of: the file, or what is in its place.
    fn source<'a>(&'a self, unzipped: Option<&'a Unzipped>) -> Source<'a> {
        let made = self.made.as_ref().map(Made::bytes);
        unzipped.map(|it| &*it.model).or(made).map_or(Source::Model, Source::Content)
    }

    /// Where such a session is kept. What is kept is made for the processor, and by the operators of ONNX Runtime
    /// alone.
    fn kept(&self, settings: &Settings) -> Option<(&Cache, &ModelFiles)> {
        let is_of_file = !self.is_unzipped && self.made.is_none();
        let is_kept =
            settings.providers.is_empty() && settings.op_libraries.is_empty() && is_of_file;
        let files = self.files.as_ref().filter(|it| is_kept && it.is_large())?;
        Some((self.cache.as_deref()?, files))
    }
}

/// The model without its `ZipMap`. `None` where the file cannot be read, which opening it will explain.
pub(crate) fn read_unzipped(path: &Path) -> Option<Unzipped> {
    zipmap::unzip(&backend::read_file(path).ok()?)
}

//! That a model is being loaded in the server, kept on disk: should that end the server, the next one gives the model a
//! process of its own.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use backend::ModelSource;

/// The file of one model, there from the begin of its load to the end of its first runs.
#[derive(Debug, Clone)]
pub(crate) struct Mark(PathBuf);

impl Mark {
    /// In that folder, which need not exist.
    pub(crate) fn new(folder: &Path, engine: &str, source: &ModelSource) -> Mark {
        let of = format!("{engine:?} {:?} {:?}", source.name, source.path);
        let digest = blake3::hash(of.as_bytes()).to_hex();
        // Not the form of a name in the cache of models, which may be in the same folder.
        Mark(folder.join(format!("loading-{}", digest.get(..32).unwrap_or_default())))
    }

    /// Was the load of it that began last never over?
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_file()
    }

    /// Its load begins. Where that cannot be kept, the next server does not know of it.
    pub(crate) fn put(&self) {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        let put = fs::create_dir_all(folder).and_then(|()| fs::write(&self.0, ""));
        self.told(put);
    }

    /// It has made its first runs, or is not loaded.
    pub(crate) fn remove(&self) {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => self.told(removed),
        }
    }

    fn told(&self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            let path = self.0.display();
            tracing::debug!(%error, "that a model is loaded cannot be kept in {path}");
        }
    }
}

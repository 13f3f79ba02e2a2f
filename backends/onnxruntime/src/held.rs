//! A model's files as a session is made of them: where nobody else changes them while it lives.

use std::{
    ffi::CString,
    io::{self, Read},
    path::{Path, PathBuf},
};

use backend::BackendError;
use rustix::fs::StatVfsMountFlags;

use crate::{files::ModelFiles, own_tensor::OwnTensor, private_copy::PrivateCopy};

/// The content of a file of weights, by its name in the model.
pub(crate) type Beside = (CString, Vec<u8>);

/// Weights of a model that are in memory already.
#[derive(Clone, Copy)]
pub(crate) enum InMemory<'a> {
    /// Files of them; a session copies what it needs.
    Files(&'a [Beside]),
    /// Tensors, which a session uses where they are.
    Tensors(&'a [OwnTensor]),
}

impl InMemory<'_> {
    /// None are.
    pub(crate) const NOTHING: InMemory<'static> = InMemory::Files(&[]);
}

/// How the files are held.
pub(crate) enum Held {
    /// A model in one file: that is read, and then not needed any more.
    InPlace,
    /// The weights are mapped from there.
    Copied(PrivateCopy),
    /// The weights have been read, and a session copies them.
    Read(Vec<Beside>),
}

impl Held {
    /// Holds the files of a model: in a copy, or in memory where no folder takes one. `memory` is what the process may
    /// take. Blocking.
    ///
    /// # Errors
    /// Where neither can be.
    pub(crate) fn of(
        files: &ModelFiles,
        places: &[PathBuf],
        memory: Option<u64>,
    ) -> Result<Held, BackendError> {
        if files.weights.is_empty() {
            return Ok(Held::InPlace);
        }
        // They are there twice until the session is made, in memory or in a folder that lies in it.
        let room = memory.map_or(u64::MAX, |it| it / 2);
        let error = match PrivateCopy::of(files, places, room) {
            Ok(copy) => return Ok(Held::Copied(copy)),
            Err(error) => error,
        };
        if room < files.bytes {
            let flags = rustix::fs::statvfs(&files.model).map(|it| it.f_flag);
            if flags.is_ok_and(|it| it.contains(StatVfsMountFlags::RDONLY)) {
                tracing::warn!(
                    "the weights are used where they are, as nothing here can write to them: {error}"
                );
                return Ok(Held::InPlace);
            }
            return Err(error);
        }
        tracing::warn!(
            "the weights are read into memory, which takes twice as much during the load: {error}"
        );
        let folder = files.model.parent().unwrap_or(Path::new(""));
        let read = |name: &String| -> io::Result<Beside> {
            let mut file = backend::open_file(&folder.join(name))?;
            let mut content = Vec::new();
            let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
            content.try_reserve_exact(length)?;
            file.read_to_end(&mut content)?;
            Ok((CString::new(name.as_str())?, content))
        };
        let inside = files.weights.iter().filter(|it| PrivateCopy::takes(it));
        let read = inside.map(read).collect::<io::Result<_>>();
        read.map(Held::Read).map_err(|it| BackendError::Load(format!("{error}; {it}")))
    }

    /// The model's own file, which is `original` where there is no copy.
    pub(crate) fn model<'a>(&'a self, original: &'a Path) -> &'a Path {
        match self {
            Held::Copied(copy) => copy.model(),
            Held::InPlace | Held::Read(_) => original,
        }
    }

    /// Weights that are in memory.
    pub(crate) fn in_memory(&self) -> InMemory<'_> {
        match self {
            Held::Read(beside) => InMemory::Files(beside),
            Held::InPlace | Held::Copied(_) => InMemory::NOTHING,
        }
    }

    /// An error that was made of these files as one about the model's own.
    pub(crate) fn renamed(&self, error: BackendError) -> BackendError {
        match self {
            Held::Copied(copy) => copy.renamed(error),
            Held::InPlace | Held::Read(_) => error,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_where_no_folder_takes_a_copy_and_memory_has_room_for_two() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/external/model.onnx");
        let files = ModelFiles::of(path.as_path()).unwrap();
        let nowhere = [PathBuf::from("/proc/no such folder")];
        let held = Held::of(&files, &nowhere, Some(2 * files.bytes)).unwrap();
        let InMemory::Files([(name, content)]) = held.in_memory() else {
            panic!("there is one file of weights")
        };
        assert_eq!(name.to_str().unwrap(), "weights.bin");
        assert_eq!(*content, std::fs::read(path.with_file_name("weights.bin")).unwrap());
        assert_eq!(held.model(&path), path);
        let error = Held::of(&files, &nowhere, Some(2 * files.bytes - 1)).err().unwrap();
        assert!(error.to_string().contains("no folder takes a copy"), "{error}");
    }
}

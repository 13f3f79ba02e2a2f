//! Copies of a model's files that nobody else writes to. ONNX Runtime maps files of weights for as long as a session
//! lives: what is written into such a file changes answers at once. Where it is cut, the next touch ends the process.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

use backend::{BackendError, HeldDir};

use crate::files::ModelFiles;

/// What the names of its folders begin with.
const PREFIX: &str = "muster-weights-";

/// A folder with a model's file and its weights, removed when dropped. What has mapped its files keeps them.
pub(crate) struct PrivateCopy {
    folder: HeldDir,
    /// The file of the model in it, and where the model really is.
    model: PathBuf,
    original: PathBuf,
}

impl PrivateCopy {
    /// Copies the files into the first of these folders that takes them; into one that lies in memory only where they
    /// are no more than `memory` bytes. Blocking.
    ///
    /// # Errors
    /// [`BackendError::Load`] where none of them does: the folders, why, and what to do.
    pub(crate) fn of(
        files: &ModelFiles,
        places: &[PathBuf],
        memory: u64,
    ) -> Result<PrivateCopy, BackendError> {
        let mut problems = Vec::new();
        let mut places: Vec<&PathBuf> = places.iter().collect();
        // The system cannot drop a copy that lies in memory.
        places.sort_by_cached_key(|it| is_in_memory(it));
        for place in places {
            let made =
                has_room(place, files, memory).and_then(|()| PrivateCopy::in_place(files, place));
            match made {
                Ok(copy) => return Ok(copy),
                Err(problem) => problems.push(format!("{}: {problem}", place.display())),
            }
        }
        Err(BackendError::Load(format!(
            "{}: no folder takes a copy of its {} bytes of weights, which lie in files of their own and are not to change \
             while they serve ({}); give TMPDIR or --model-cache-dir a folder with so much room, or save the weights in \
             the model's own file",
            files.model.display(),
            files.bytes,
            problems.join("; "),
        )))
    }

    fn in_place(files: &ModelFiles, place: &Path) -> io::Result<PrivateCopy> {
        // What cannot be removed stays, and is no reason not to serve.
        HeldDir::remove_left(place, PREFIX);
        let folder = HeldDir::new(place, PREFIX)?;
        let model = folder.path().join(files.model.file_name().unwrap_or_default());
        let copy = PrivateCopy { folder, model, original: files.model.clone() };
        copy_file(&files.model, &copy.model)?;
        let from = files.model.parent().unwrap_or(Path::new(""));
        for name in &files.weights {
            if PrivateCopy::takes(name) {
                let to = copy.folder.path().join(name);
                if let Some(parent) = to.parent() {
                    fs::create_dir_all(parent)?;
                }
                // One file may have two names, as `w` and `./w`.
                if !to.exists() {
                    copy_file(&from.join(name), &to)?;
                }
            }
        }
        Ok(copy)
    }

    /// Is that the name of a file in the model's folder? ONNX Runtime refuses one outside, and says so.
    pub(crate) fn takes(name: &str) -> bool {
        let inside = |it| matches!(it, Component::Normal(_) | Component::CurDir);
        Path::new(name).components().all(inside)
    }

    /// The model's file.
    pub(crate) fn model(&self) -> &Path {
        &self.model
    }

    /// An error about the copy as one about the files that it was made of.
    pub(crate) fn renamed(&self, error: BackendError) -> BackendError {
        let renamed = |text: String| {
            let original = self.original.parent().unwrap_or(Path::new(""));
            text.replace(&self.folder.path().display().to_string(), &original.display().to_string())
        };
        match error {
            BackendError::Load(text) => BackendError::Load(renamed(text)),
            BackendError::OutOfMemory(text) => BackendError::OutOfMemory(renamed(text)),
            BackendError::Device(text) => BackendError::Device(renamed(text)),
            error => error,
        }
    }
}

/// Does what is written there take memory?
fn is_in_memory(place: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    // The field's type is another on each architecture.
    rustix::fs::statfs(place)
        .is_ok_and(|it| matches!(it.f_type as u64 & 0xffff_ffff, TMPFS | RAMFS))
}

/// Is there room for a copy of these files? A disk holds no more than what is stored, as holes stay holes; in memory a
/// hole takes room once it is read.
fn has_room(place: &Path, files: &ModelFiles, memory: u64) -> io::Result<()> {
    if is_in_memory(place) && memory < files.bytes {
        return Err(io::Error::other("it lies in memory, which has no room for them"));
    }
    let free = rustix::fs::statvfs(place)?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    match stored_bytes(files) <= free {
        true => Ok(()),
        false => Err(io::Error::other(format!("{free} bytes are free"))),
    }
}

/// What these files take on their disk: less than their length where they have holes.
fn stored_bytes(files: &ModelFiles) -> u64 {
    const BLOCK: u64 = 512;
    let paths = std::iter::once(files.model.clone()).chain(files.paths_of_weights());
    let stored = |path| fs::metadata(path).map_or(0, |it| it.len().min(it.blocks() * BLOCK));
    paths.map(stored).sum()
}

/// Copies what a file holds, and leaves its holes. File systems that can share the blocks until they are written to.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let (mut from, mut to) = (backend::open_file(from)?, File::create_new(to)?);
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut at = 0;
    while at < length {
        let Some(data) = data_from(&from, at, length)? else { break };
        from.seek(SeekFrom::Start(data.start))?;
        to.seek(SeekFrom::Start(data.start))?;
        let copied = io::copy(&mut (&from).take(data.end - data.start), &mut to)?;
        if copied == 0 {
            return Err(io::Error::other("a file has become shorter while it was copied"));
        }
        at = data.start + copied;
    }
    Ok(())
}

/// The next piece of a file of that length that is no hole.
fn data_from(file: &File, at: u64, length: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    use rustix::{fs::SeekFrom, io::Errno};
    let seek = |to| rustix::fs::seek(file, to);
    match seek(SeekFrom::Data(at)) {
        Ok(start) => {
            let end = seek(SeekFrom::Hole(start)).unwrap_or(length).min(length);
            Ok((start < end).then_some(start..end))
        }
        Err(Errno::NXIO) => Ok(None),
        // The file system does not know.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(at..length)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    fn files() -> ModelFiles {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/external/model.onnx");
        ModelFiles::of(path.as_path()).unwrap()
    }

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("muster-copy-{name}-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        place
    }

    #[test]
    fn a_copy_has_the_same_bytes_is_for_one_user_and_goes_when_it_is_dropped() {
        let (files, place) = (files(), place("bytes"));
        let copy = PrivateCopy::of(&files, std::slice::from_ref(&place), u64::MAX).unwrap();
        let copied = ModelFiles::of(copy.model()).unwrap();
        assert_eq!(copied.weights, files.weights);
        for (one, other) in files.paths_of_weights().zip(copied.paths_of_weights()) {
            assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap());
        }
        assert_eq!(fs::metadata(copy.model().parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        // Another process that makes a copy leaves it alone.
        let second = PrivateCopy::of(&files, std::slice::from_ref(&place), u64::MAX).unwrap();
        assert!(copy.model().exists());
        drop((copy, second));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn what_an_ended_process_has_left_is_removed_and_the_next_place_is_taken_where_one_is_none() {
        let place = place("left");
        let left = place.join(format!("{PREFIX}{:016x}", 0));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("w"), "").unwrap();
        let places = [place.join("absent"), place.clone()];
        let copy = PrivateCopy::of(&files(), &places, u64::MAX).unwrap();
        assert!(!left.exists() && copy.model().starts_with(&place));
        let error = PrivateCopy::of(&files(), &places[..1], u64::MAX).err().unwrap().to_string();
        assert!(
            error.contains("model.onnx: no folder takes") && error.contains("TMPDIR"),
            "{error}"
        );
        drop(copy);
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn holes_stay_holes() {
        let place = place("holes");
        let (from, to) = (place.join("from"), place.join("to"));
        let file = File::create(&from).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"end", (1 << 40) - 3).unwrap();
        copy_file(&from, &to).unwrap();
        let copied = fs::metadata(&to).unwrap();
        assert!(copied.len() == 1 << 40 && copied.blocks() < 100);
        let mut end = [0; 3];
        std::os::unix::fs::FileExt::read_exact_at(
            &File::open(&to).unwrap(),
            &mut end,
            (1 << 40) - 3,
        )
        .unwrap();
        assert_eq!(&end, b"end");
        fs::remove_dir_all(&place).unwrap();
    }
}

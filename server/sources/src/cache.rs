//! A directory of models as `huggingface_hub` has it: contents by their digests in `blobs`, links to them in
//! `snapshots/<revision>`, and in `refs` which revision a branch was. Both programs may use one at the same time.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use crate::{
    download::{Turn, make_sure_of_room},
    error::Problem,
};

/// What a directory of copies says of itself to programs that make backups.
const TAG: (&str, &str) = (
    "CACHEDIR.TAG",
    "Signature: 8a477f597d28d172789f06886806bc55\n# Models that are fetched again when they are missing.\n",
);

/// The folder of one model.
#[derive(Debug)]
pub(crate) struct Folder {
    cache: PathBuf,
    name: String,
}

impl Folder {
    /// The folder of that name in a cache. Nothing is made yet.
    pub(crate) fn new(cache: &Path, name: String) -> Folder {
        Folder { cache: cache.to_owned(), name }
    }

    /// Makes its directories.
    pub(crate) fn make(&self) -> Result<(), Problem> {
        let blobs = self.path().join("blobs");
        fs::create_dir_all(&blobs).map_err(|it| Problem::disk("make", &blobs, &it))?;
        let tag = self.cache.join(TAG.0);
        if !tag.exists() {
            // It is of use to others alone.
            let _ = fs::write(tag, TAG.1);
        }
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.cache.join(&self.name)
    }

    /// Where a content lies.
    pub(crate) fn blob(&self, name: &str) -> PathBuf {
        self.path().join("blobs").join(name)
    }

    /// The directory of a revision.
    pub(crate) fn snapshot(&self, revision: &str) -> PathBuf {
        self.path().join("snapshots").join(revision)
    }

    /// Waits until nobody else fetches this content.
    pub(crate) fn turn(&self, blob: &str) -> Result<Turn, Problem> {
        Turn::wait(&self.cache.join(".locks").join(&self.name).join(format!("{blob}.lock")))
    }

    /// Puts a link to a content into a revision, under a relative path without `..`.
    pub(crate) fn link(&self, revision: &str, file: &str, blob: &str) -> Result<(), Problem> {
        let link = self.snapshot(revision).join(file);
        let made = || -> io::Result<()> {
            if let Some(folder) = link.parent() {
                fs::create_dir_all(folder)?;
            }
            let up = "../".repeat(file.split('/').count() + 1);
            replace(&link, |it| symlink(format!("{up}blobs/{blob}"), it))
        };
        made().map_err(|it| Problem::disk("link", &link, &it))
    }

    /// The revision that a branch or a tag was when it was last fetched.
    pub(crate) fn reference(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path().join("refs").join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|it| is_commit(it))
    }

    /// Notes which revision a branch or a tag is.
    pub(crate) fn note_reference(&self, name: &str, revision: &str) -> Result<(), Problem> {
        if self.reference(name).as_deref() == Some(revision) {
            return Ok(());
        }
        let path = self.path().join("refs").join(name);
        let written = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            replace(&path, |it| fs::write(it, revision))
        };
        written().map_err(|it| Problem::disk("write", &path, &it))
    }

    /// The files of a revision that are here, by name; none where the revision is not.
    pub(crate) fn files(&self, revision: &str) -> Vec<String> {
        let root = self.snapshot(revision);
        let mut found = Vec::new();
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                match path.metadata() {
                    Ok(it) if it.is_dir() => open.push(path),
                    Ok(_) => {
                        let name = path.strip_prefix(&root).ok().and_then(Path::to_str);
                        found.extend(name.map(str::to_owned));
                    }
                    // A link to a content that is gone.
                    Err(_) => {}
                }
            }
        }
        found.sort();
        found
    }

    /// Fails where the disk has less room than so many bytes.
    pub(crate) fn make_sure_of_room(&self, needed: u64) -> Result<(), Problem> {
        make_sure_of_room(&self.path(), needed)
    }
}

/// Makes a file or a link beside its place and moves it there, over what is there.
fn replace(path: &Path, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    make(&beside)?;
    fs::rename(&beside, path)
}

/// Is it a commit as a hub has it? It becomes the name of a directory.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|it| it.is_ascii_hexdigit())
}

/// Is it a path that stays in the folder that it is put into?
pub(crate) fn is_inside(path: &str) -> bool {
    let is_plain = Path::new(path).components().all(|it| matches!(it, Component::Normal(_)));
    let parts_are = path.split('/').all(|it| !it.is_empty() && it != ".");
    is_plain && parts_are && path.len() <= 1024 && !path.contains(['\\', '\0'])
}

/// Is it a word that may name a content?
pub(crate) fn is_blob(text: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || b"-_".contains(&it);
    !text.is_empty() && text.len() <= 128 && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_of_a_folder_are_known() {
        for path in ["a", "onnx/model.onnx", "1_Pooling/config.json", "..a/b"] {
            assert!(is_inside(path), "{path}");
        }
        for path in ["", "/a", "../a", "a/../b", "a//b", "a/./b", "a/", "a\\b", "a\0"] {
            assert!(!is_inside(path), "{path}");
        }
        assert!(is_blob("0a-_Z") && !is_blob("../x") && !is_blob("W/\"x\"") && !is_blob(""));
    }
}

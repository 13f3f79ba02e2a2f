//! A directory of models as `huggingface_hub` has it: contents by their digests in `blobs`, links to them in
//! `snapshots/<revision>`, and in `refs` which revision a branch was. Both programs may use one at the same time.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{
    digest::Digest,
    download::{Turn, WantedFile, make_sure_of_room, missing},
    error::SourceProblem,
    http::Http,
};

/// What a directory of copies says of itself to programs that make backups.
const TAG: (&str, &str) = (
    "CACHEDIR.TAG",
    "Signature: 8a477f597d28d172789f06886806bc55\n# Models that are fetched again when they are missing.\n",
);

/// Contents of one model that are fetched at the same time: one connection seldom fills the line.
const AT_THE_SAME_TIME: usize = 4;

/// A file of a revision, and its content.
#[derive(Debug)]
pub(crate) struct Item {
    /// Its path in the revision.
    pub(crate) file: String,
    /// What its content is called here.
    pub(crate) blob: String,
    /// Where it is from.
    pub(crate) wanted: WantedFile,
}

/// A model that is here.
#[derive(Debug)]
pub(crate) struct CachedModel {
    /// Its revision.
    pub(crate) revision: String,
    /// The directory of that.
    pub(crate) directory: PathBuf,
    /// The files that are served.
    pub(crate) files: Vec<String>,
}

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
    pub(crate) fn make(&self) -> Result<(), SourceProblem> {
        let blobs = self.path().join("blobs");
        fs::create_dir_all(&blobs).map_err(|it| SourceProblem::disk("make", &blobs, &it))?;
        let tag = self.cache.join(TAG.0);
        if !tag.exists() {
            // It is of use to others alone.
            let _ = fs::write(tag, TAG.1);
        }
        Ok(())
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> PathBuf {
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
    pub(crate) async fn turn(&self, blob: &str) -> Result<Turn, SourceProblem> {
        let folder = self.cache.join(".locks").join(&self.name);
        Turn::wait(&folder.join(format!("{blob}.lock"))).await
    }

    /// Brings contents here that are not, each under its name in `blobs`, several at the same time.
    ///
    /// # Errors
    /// When the disk has no room for all of them, and those of [`WantedFile::bring`].
    pub(crate) async fn bring(&self, http: &Http, items: &[Item]) -> Result<(), SourceProblem> {
        self.make()?;
        let bytes = items.iter().filter(|it| !self.blob(&it.blob).is_file());
        let bytes = bytes.map(|it| missing(&it.wanted, &self.blob(&it.blob)));
        let bytes = bytes.fold(0, u64::saturating_add);
        make_sure_of_room(&self.path(), bytes)?;
        tracing::info!(model = self.name, files = items.len(), bytes, "fetching it");
        let each = items.iter().map(|it| self.bring_one(http, it));
        let all = stream::iter(each).buffer_unordered(AT_THE_SAME_TIME);
        all.try_collect().await
    }

    async fn bring_one(&self, http: &Http, item: &Item) -> Result<(), SourceProblem> {
        let Item { file, blob, wanted } = item;
        let _turn = self.turn(blob).await?;
        let path = self.blob(blob);
        if !path.is_file() {
            wanted.bring(http, &path).await?;
            tracing::info!(file, bytes = wanted.size, "fetched");
        }
        Ok(())
    }

    /// Makes a file that lies in this folder a content by its SHA-256, and puts a link to it into a revision. Blocking.
    pub(crate) fn adopt(
        &self,
        revision: &str,
        file: &str,
        from: &Path,
    ) -> Result<Digest, SourceProblem> {
        // It may come from an archive, which says who may read it.
        let moved = || -> io::Result<Digest> {
            fs::set_permissions(from, Permissions::from_mode(0o644))?;
            let digest = Digest::sha256(from)?;
            fs::rename(from, self.blob(digest.hex()))?;
            Ok(digest)
        };
        let digest = moved().map_err(|it| SourceProblem::disk("keep", from, &it))?;
        self.link(revision, file, digest.hex())?;
        Ok(digest)
    }

    /// Puts a link to a content into a revision, under a relative path without `..`.
    pub(crate) fn link(&self, revision: &str, file: &str, blob: &str) -> Result<(), SourceProblem> {
        let link = self.snapshot(revision).join(file);
        let made = || -> io::Result<()> {
            if let Some(folder) = link.parent() {
                fs::create_dir_all(folder)?;
            }
            let up = "../".repeat(file.split('/').count() + 1);
            replace(&link, |it| symlink(format!("{up}blobs/{blob}"), it))
        };
        made().map_err(|it| SourceProblem::disk("link", &link, &it))
    }

    /// The revision that a branch or a tag was when it was last fetched.
    pub(crate) fn reference(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path().join("refs").join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|it| is_blob(it))
    }

    /// Notes which revision a branch or a tag is.
    pub(crate) fn note_reference(&self, name: &str, revision: &str) -> Result<(), SourceProblem> {
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
        written().map_err(|it| SourceProblem::disk("write", &path, &it))
    }

    /// The files of a revision that are here, by name; none where the revision is not.
    pub(crate) fn files(&self, revision: &str) -> Vec<String> {
        files_below(&self.snapshot(revision))
    }

    /// A revision that is here, with all its files.
    pub(crate) fn found(&self, revision: &str) -> CachedModel {
        let (directory, files) = (self.snapshot(revision), self.files(revision));
        CachedModel { revision: revision.to_owned(), directory, files }
    }
}

/// The files of a directory and of those in it, by their paths; none where there is no such directory. Blocking.
pub(crate) fn files_below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.metadata() {
                Ok(it) if it.is_dir() => open.push(path),
                Ok(_) => {
                    let name = path.strip_prefix(root).ok().and_then(Path::to_str);
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

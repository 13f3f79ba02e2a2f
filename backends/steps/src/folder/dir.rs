//! A directory whose files are read, and where links among them may lead: whoever can write a model must not be able to
//! have other files of the machine read.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::error::FolderError;

/// A directory, and the directories in which its files must lie when links are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    path: PathBuf,
    /// Without links. Those that are not there are left out.
    roots: Vec<PathBuf>,
}

impl Dir {
    /// The directory `path`, of a model below `root`: a repository, or the model's own directory. Links may lead to
    /// files in either of them. Either may be a link itself.
    ///
    /// Where either is a snapshot of Hugging Face's cache, links may lead to the files of that cache entry, too.
    pub fn new(path: &Path, root: &Path) -> Dir {
        let mut dir = Dir { path: path.to_owned(), roots: Vec::new() };
        dir.allow(root);
        dir.allow(path);
        dir
    }

    /// A directory whose links may lead to files in it.
    pub fn alone(path: &Path) -> Dir {
        Dir::new(path, path)
    }

    /// Links may lead to files in `root`, too.
    pub(crate) fn allow(&mut self, root: &Path) {
        let Ok(root) = fs::canonicalize(root) else { return };
        self.roots.extend(blobs_of(&root));
        self.roots.push(root);
    }

    /// Another directory, where links may lead to the same places.
    pub(crate) fn at(&self, path: &Path) -> Dir {
        Dir { path: path.to_owned(), roots: self.roots.clone() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The place of a file, without links; `None` where there is none. Blocking.
    ///
    /// # Errors
    /// When a link leads out of the places to which it may lead.
    pub(crate) fn place(&self, file: &str) -> Result<Option<PathBuf>, FolderError> {
        let path = self.path.join(file);
        let place = match fs::canonicalize(&path) {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(FolderError::file(file, format!("cannot be read: {error}")));
            }
        };
        if self.roots.iter().any(|it| place.starts_with(it)) {
            return Ok(Some(place));
        }
        let root = self.roots.first().unwrap_or(&self.path);
        let problem = format!(
            "its link leads to {}, which is outside of {}",
            place.display(),
            root.display()
        );
        Err(FolderError::file(file, problem).remedy("put the file itself there"))
    }
}

/// Where the files of a snapshot of Hugging Face's cache lie: its links lead from `<model>/snapshots/<revision>` to
/// `<model>/blobs`.
fn blobs_of(snapshot: &Path) -> Option<PathBuf> {
    let snapshots = snapshot.parent().filter(|it| it.ends_with("snapshots"))?;
    let blobs = snapshots.parent()?.join("blobs");
    // Itself no link: it would lead anywhere.
    fs::symlink_metadata(&blobs).is_ok_and(|it| it.is_dir()).then_some(blobs)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of its own that is removed with this.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root =
                std::env::temp_dir().join(format!("muster-dir-{name}-{}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            Tree(fs::canonicalize(root).unwrap())
        }

        fn file(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            path
        }

        fn link(&self, name: &str, to: impl AsRef<Path>) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(to, path).unwrap();
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_link_may_lead_within_the_repository_and_not_out_of_it() {
        let tree = Tree::new("out");
        let secret = tree.file("secret");
        let shared = tree.file("models/shared/tokenizer.json");
        tree.file("models/m/config.json");
        tree.link("models/m/tokenizer.json", "../shared/tokenizer.json");
        tree.link("models/m/labels.txt", &secret);
        tree.link("models/m/sub", "../..");
        let dir = Dir::new(&tree.0.join("models/m"), &tree.0.join("models"));
        assert_eq!(dir.place("tokenizer.json"), Ok(Some(shared)));
        assert!(dir.place("config.json").unwrap().is_some());
        assert_eq!(dir.place("nothing"), Ok(None));
        let error = dir.place("labels.txt").unwrap_err().to_string();
        let root = tree.0.display();
        let expected = format!(
            "labels.txt: its link leads to {root}/secret, which is outside of {root}/models; put the file itself there"
        );
        assert_eq!(error, expected);
        assert!(dir.place("sub/secret").is_err());
        // Alone, its links stay in it.
        assert!(Dir::alone(&tree.0.join("models/m")).place("tokenizer.json").is_err());
    }

    #[test]
    fn a_directory_that_is_a_link_itself_is_read() {
        let tree = Tree::new("itself");
        let file = tree.file("data/m/config.json");
        tree.link("models/m", tree.0.join("data/m"));
        let dir = Dir::new(&tree.0.join("models/m"), &tree.0.join("models"));
        assert_eq!(dir.place("config.json"), Ok(Some(file)));
    }

    #[test]
    fn a_snapshot_of_the_cache_of_hugging_face_has_its_files_beside_it() {
        let tree = Tree::new("cache");
        let blob = tree.file("models--m/blobs/0123");
        tree.file("models--other/blobs/4567");
        tree.link("models--m/snapshots/abc/config.json", "../../blobs/0123");
        tree.link("models--m/snapshots/abc/labels.txt", "../../../models--other/blobs/4567");
        let snapshot = tree.0.join("models--m/snapshots/abc");
        assert_eq!(Dir::alone(&snapshot).place("config.json"), Ok(Some(blob.clone())));
        assert!(Dir::alone(&snapshot).place("labels.txt").is_err());
        tree.link("models/m", &snapshot);
        let dir = Dir::new(&tree.0.join("models/m"), &tree.0.join("models"));
        assert_eq!(dir.place("config.json"), Ok(Some(blob)));
    }
}

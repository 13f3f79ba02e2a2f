//! What of this machine an engine reaches besides the files of models.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What of this machine an engine reaches besides the files that a [`crate::ModelSource`] names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Files and directories that it reads: its libraries.
    pub reads: Vec<PathBuf>,
    /// Directories that it also writes to, where it keeps something from one load to the next. They need not exist.
    pub keeps: Vec<PathBuf>,
}

impl Places {
    /// What the loader reads to open that library: the shared libraries in its directory.
    pub fn of_library(library: &Path) -> Places {
        // Where it is a link, also those beside what it leads to.
        let real = fs::canonicalize(library).unwrap_or_default();
        let folders = [library, &real].into_iter().filter_map(|it| fs::read_dir(it.parent()?).ok());
        let is_library = |it: &fs::DirEntry| it.file_name().to_string_lossy().contains(".so");
        let beside = folders.flatten().flatten().filter(is_library);
        let mut reads: Vec<PathBuf> = beside.map(|it| it.path()).collect();
        reads.sort();
        reads.dedup();
        Places { reads, keeps: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_opened_with_those_beside_it_and_nothing_else() {
        let folder = fs::canonicalize(std::env::temp_dir()).unwrap();
        let folder = folder.join(format!("muster-places-{}", std::process::id()));
        fs::create_dir_all(folder.join("models")).unwrap();
        for name in ["liba.so.1.2", "libb.so", "secret"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let places = Places::of_library(&folder.join("libb.so"));
        assert_eq!(places.reads, [folder.join("liba.so.1.2"), folder.join("libb.so")]);
        assert!(places.keeps.is_empty());
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(Places::of_library(Path::new("/nowhere/lib.so")), Places::default());
    }
}

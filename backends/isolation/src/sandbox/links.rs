//! Where links in a model's directory lead: repositories are made of links by some of those that fill them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Entries that are looked at. Links beyond are not followed.
const MOST_ENTRIES: usize = 10_000;

/// What links at or below `root` lead to outside of it, and what links below that lead to.
pub(super) fn targets(root: &Path) -> Vec<PathBuf> {
    let mut targets = BTreeSet::new();
    let mut left = MOST_ENTRIES;
    let mut roots: Vec<PathBuf> = fs::canonicalize(root).into_iter().collect();
    let mut waiting = roots.clone();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Some(next) = left.checked_sub(1) else { break };
            left = next;
            match entry.file_type() {
                Ok(it) if it.is_dir() => waiting.push(entry.path()),
                Ok(it) if it.is_symlink() => {
                    let Ok(target) = fs::canonicalize(entry.path()) else { continue };
                    if roots.iter().any(|it| target.starts_with(it)) {
                        continue;
                    }
                    if target.is_dir() {
                        roots.push(target.clone());
                        waiting.push(target.clone());
                    }
                    targets.insert(target);
                }
                _ => {}
            }
        }
    }
    targets.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_out_of_a_directory_are_followed_and_circles_end() {
        let dir = tempfile::tempdir().unwrap();
        let at = |it: &str| dir.path().join(it);
        for folder in ["model/1", "blobs", "data/deep"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("blobs/a"), "").unwrap();
        symlink("../../blobs/a", at("model/1/graph")).unwrap();
        symlink("1", at("model/latest")).unwrap();
        symlink(at("data"), at("model/2")).unwrap();
        symlink(at("model"), at("data/deep/back")).unwrap();
        symlink(at("blobs"), at("data/deep/more")).unwrap();
        symlink(at("nowhere"), at("model/broken")).unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let expected: Vec<PathBuf> =
            ["blobs", "blobs/a", "data"].iter().map(|it| root.join(it)).collect();
        assert_eq!(targets(&at("model")), expected);
        assert!(targets(&at("nowhere")).is_empty());
    }
}

//! What is kept in `generated` is what the definitions say.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|it| if it.is_dir() { below(&it) } else { vec![it] }).collect();
    files.sort();
    files
}

#[test]
fn what_is_kept_is_what_the_definitions_say() {
    let generated = muster_proto::folder().join("generated");
    let files = muster_proto::files().unwrap();
    let expected: Vec<PathBuf> = files.keys().map(|it| generated.join(it)).collect();
    let remedy = "`cargo run -p muster-proto` writes them anew";
    assert_eq!(below(&generated), expected, "{remedy}");
    for (path, content) in files {
        assert!(fs::read(generated.join(&path)).unwrap() == content, "{path:?}: {remedy}");
    }
}

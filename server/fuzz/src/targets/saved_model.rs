//! What is read of a SavedModel before TensorFlow sees it: its graphs, signatures, and what they reach.

use std::{fs, path::Path};

use formats::expansion::Limit;
use tempfile::TempDir;

use super::Target;
use crate::{oracle, seen::Seen};

/// What the messages of a file take in memory: an empty one is two bytes of it.
const BOUND: Limit = Limit { free: 4 << 20, ratio: 200, most: usize::MAX };

/// The file `saved_model.pb`, in a folder with nothing else.
pub(super) const SAVED_MODEL: Target = Target {
    name: "saved_model",
    decode: |data| {
        let mut seen = Seen::default();
        let folder = TempDir::new().expect("a directory can be made");
        fs::write(folder.path().join("saved_model.pb"), data).expect("a file can be written");
        let look = oracle::within(BOUND, data.len(), || tensorflow::look(folder.path()));
        // The folder is another one at every run.
        let place = folder.path().display().to_string();
        if let Some(look) = seen.result(look.map_err(|it| it.to_string().replace(&place, ""))) {
            seen.fact((look.signatures.len().min(8), look.danger));
        }
        seen
    },
    examples,
    words: &[
        "serve",
        "serving_default",
        "__saved_model_init_op",
        "StatefulPartitionedCall",
        "saver_filename",
        "ReadFile",
        "WriteFile",
        "PyFunc",
        "Const",
        "VarHandleOp",
        "tensorflow/serving/predict",
    ],
};

/// Small ones of the fixtures.
const FOLDERS: [&str; 6] =
    ["half_plus_two", "several", "signatures", "words", "writes", "examples_of_tf1"];

fn examples() -> Vec<Vec<u8>> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/savedmodels");
    let of = |it: &&str| {
        let versioned = fixtures.join(it).join("1/saved_model.pb");
        fs::read(versioned).or_else(|_| fs::read(fixtures.join(it).join("saved_model.pb"))).ok()
    };
    let files: Vec<Vec<u8>> = FOLDERS.iter().filter_map(of).collect();
    assert_eq!(files.len(), FOLDERS.len(), "each folder has its file");
    files
}

//! What a model tries to reach beyond itself.

use std::fs;

use super::Repository;

/// What came of the attempts of the engine `identity` to reach beyond itself, as the error of such a run tells it.
pub fn attempts_in(error: &str) -> Vec<(String, String)> {
    let attempts = error.split("; ").filter_map(|it| {
        let (what, outcome) = it.rsplit_once(": ")?;
        Some((what.rsplit(": ").next()?.to_owned(), outcome.to_owned()))
    });
    attempts.collect()
}

/// The error of such a run says that what is its own was reached, and nothing else.
#[track_caller]
pub fn check_denied(error: &str) {
    let attempts = attempts_in(error);
    assert_eq!(attempts.len(), 11, "{attempts:?}");
    for (what, outcome) in attempts {
        let is_its_own = ["write to TMPDIR", "start a thread"].contains(&&*what);
        let expected = if is_its_own { "done" } else { "denied" };
        assert_eq!(outcome, expected, "{what}");
    }
}

/// The model `m`, whose weights are said to be in a file of the system's.
pub fn with_weights_of_the_system(repository: Repository) -> Repository {
    // As long as the name that stands there.
    let (name, other) = (b"weights.bin", b"/etc/passwd");
    let repository =
        repository.copy("m/1/model.onnx", "backends/onnxruntime/tests/models/external");
    let graph = repository.path().join("m/1/model.onnx/model.onnx");
    let mut bytes = fs::read(&graph).unwrap();
    let at = bytes.windows(name.len()).position(|it| it == name).unwrap();
    bytes[at..at + other.len()].copy_from_slice(other);
    fs::write(&graph, bytes).unwrap();
    repository
}

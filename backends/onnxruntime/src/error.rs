//! ONNX Runtime's failures as ours.

use std::path::Path;

use backend::BackendError;
use ort::ErrorCode;

/// A text longer than this is cut: some list every node of the graph.
const LONGEST: usize = 1000;

/// Why a file did not become a session: one sentence with the path and ONNX Runtime's text.
pub(crate) fn of_load(path: &Path, error: &ort::Error) -> BackendError {
    let text = one_line(error.message());
    let shown = path.display().to_string();
    let text = match text.contains(&shown) {
        true => text,
        false => format!("{shown}: {text}"),
    };
    match out_of_memory(&text) {
        true => BackendError::OutOfMemory(text),
        false => BackendError::Load(text),
    }
}

/// Why a run failed.
pub(crate) fn of_run(error: &ort::Error) -> BackendError {
    let text = one_line(error.message());
    match error.code() {
        _ if out_of_memory(&text) => BackendError::OutOfMemory(text),
        ErrorCode::InvalidArgument => BackendError::InvalidInput(text),
        _ => BackendError::Execute(text),
    }
}

/// The library has no code for this.
fn out_of_memory(text: &str) -> bool {
    ["Failed to allocate memory", "bad_alloc", "bad allocation", "out of memory"]
        .iter()
        .any(|it| text.contains(it))
}

/// The text without the line breaks and indentation that the library puts into it.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(LONGEST));
    for word in text.split_whitespace() {
        if line.len() + word.len() > LONGEST {
            line.push_str(" ...");
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_many_lines_becomes_one_and_a_long_one_is_cut() {
        assert_eq!(
            one_line("Got invalid dimensions\n index: 1 \n"),
            "Got invalid dimensions index: 1"
        );
        let cut = one_line(&"word ".repeat(1000));
        assert!(cut.len() < LONGEST + 10 && cut.ends_with("word ..."));
    }
}

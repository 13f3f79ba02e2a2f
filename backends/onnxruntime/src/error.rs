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

/// The text on one line, without the places in ONNX Runtime's source.
fn one_line(text: &str) -> String {
    let text = without_places(text);
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

/// Takes out `/onnxruntime_src/<file>:<line> <signature of a function>`, wherever it stands.
fn without_places(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find("/onnxruntime_src/") {
        let (before, place) = rest.split_at(begin);
        let Some(end) = end_of_signature(place) else { break };
        kept.push_str(before);
        let after = place.get(end..).unwrap_or_default();
        rest = after.strip_prefix(" const ").unwrap_or(after).trim_start();
        // As in "failed:/onnxruntime_src/...".
        if before.ends_with(':') {
            kept.push(' ');
        }
    }
    kept.push_str(rest);
    kept
}

/// Where the arguments that begin with the first bracket end.
fn end_of_signature(place: &str) -> Option<usize> {
    let mut depth = 0;
    for (index, character) in place.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(index + 1),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_source_are_taken_out() {
        let text = "Load model from m.onnx failed:/onnxruntime_src/core/graph/utils.h:46 void \
                    Validate(const std::map<int, std::function<int(int)>>&, int) const Opset 99 is \
                    under development (see /onnxruntime_src/docs)";
        let expected = "Load model from m.onnx failed: Opset 99 is under development (see \
                        /onnxruntime_src/docs)";
        assert_eq!(one_line(text), expected);
    }

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

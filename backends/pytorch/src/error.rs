//! libtorch's failures as ours. Its texts are traces of two languages; what is of use is one line of them.

use std::{fmt, path::Path};

use backend::BackendError;

use crate::native::TorchFailure;

/// Why a module cannot be served: what does not fit, and what to configure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleError(String);

impl ModuleError {
    pub(crate) fn new(text: impl fmt::Display) -> ModuleError {
        ModuleError(text.to_string())
    }
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModuleError {}

/// What trial runs have not shown, as the part of a sentence: the useful line of libtorch's text, or a reason of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrialError(String);

impl TrialError {
    pub(crate) fn new(text: impl fmt::Display) -> TrialError {
        TrialError(text.to_string())
    }

    /// What it says, to learn of it what the module takes.
    pub(crate) fn line(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TrialError {}

/// A text longer than this is cut.
const LONGEST: usize = 600;

/// Why a file did not become a module.
pub(crate) fn of_load(path: &Path, failure: &TorchFailure) -> BackendError {
    let line = useful_line(&failure.text);
    let text = explained(&line);
    match failure.out_of_memory {
        true => BackendError::OutOfMemory(format!("{}: {text}", path.display())),
        false => of_module(path, &text),
    }
}

/// Why a module cannot be served, in a sentence that may contain libtorch's text.
pub(crate) fn of_module(path: &Path, problem: &str) -> BackendError {
    let text = format!("{}: {problem}", path.display());
    match out_of_memory(problem) {
        true => BackendError::OutOfMemory(text),
        false => BackendError::Load(text),
    }
}

/// Why a run failed. `sizes_vary`: the model takes inputs of any size in some dimension besides the first, so
/// that a failure over sizes is the request's fault; else the server has seen to it that sizes are right.
pub(crate) fn of_run(failure: &TorchFailure, sizes_vary: bool) -> BackendError {
    let line = useful_line(&failure.text);
    if failure.out_of_memory || out_of_memory(&line) {
        return BackendError::OutOfMemory(line);
    }
    match is_about_values(&line) || (sizes_vary && is_about_sizes(&line)) {
        true => BackendError::InvalidInput(line),
        false => BackendError::Execute(line),
    }
}

/// Did memory of the host, a GPU or a disk run out? Not each of these failures has a C++ type of its own.
fn out_of_memory(line: &str) -> bool {
    let says_so = [
        "can't allocate memory",
        "ailed to allocate memory",
        "not enough memory",
        "bad_alloc",
        "ut of memory",
        "Out Of Memory",
        "OutOfMemory",
        "OUT_OF_MEMORY",
        "MemoryError",
        "No space left on device",
        "CUBLAS_STATUS_ALLOC_FAILED",
        // CUDA's libraries could not make their handles.
        "CUBLAS_STATUS_NOT_INITIALIZED",
        "CUDNN_STATUS_NOT_INITIALIZED",
    ];
    let words = || line.split(|it: char| !it.is_ascii_alphanumeric());
    // The abbreviation is a part of other words.
    says_so.iter().any(|it| line.contains(it)) || words().any(|it| it == "OOM")
}

/// Texts of operators that look something up by an input's values.
fn is_about_values(line: &str) -> bool {
    line.contains("index out of range")
}

/// Texts of operators that do not get the sizes that they need.
fn is_about_sizes(line: &str) -> bool {
    [
        "shapes cannot be multiplied",
        "must match the size of tensor",
        "Sizes of tensors must match",
        "Kernel size can't be greater than actual input size",
        "Output size is too small",
        "is invalid for input of size",
        "but got input of size",
        "channels, but got",
        "Expected sequence length to be larger than 0",
    ]
    .iter()
    .any(|it| line.contains(it))
}

/// What an operator of the module that libtorch does not have means.
fn explained(line: &str) -> String {
    match line.split_once("Unknown builtin op: ") {
        Some((_, operator)) => format!(
            "it needs the operator {}, which libtorch does not have: custom operators cannot be served",
            operator.trim_end_matches('.')
        ),
        None => line.to_owned(),
    }
}

/// The line that says what is wrong, without the places where it was noticed.
pub(crate) fn useful_line(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|it| !it.is_empty());
    // A failure inside TorchScript comes with the source lines that led to it, and ends with the error.
    let raised = lines().rev().find_map(|it| {
        let (name, what) = it.split_once(": ")?;
        let is_error = name.ends_with("Error") || name.ends_with("Exception");
        let is_name = name.chars().all(|it| it.is_alphanumeric() || "._".contains(it));
        (is_error && is_name).then_some(match name {
            "RuntimeError" => what,
            _ => it,
        })
    });
    let useful = raised.or_else(|| lines().find(|it| !is_place(it))).unwrap_or("no reason given");
    let useful = match useful.find(" (no backtrace available)") {
        Some(end) => &useful[..end],
        None => useful,
    };
    cut(without_prefix(useful))
}

/// Lines about where in TorchScript something happened.
fn is_place(line: &str) -> bool {
    line.starts_with("The following operation failed in the TorchScript interpreter")
        || line.starts_with("Traceback of TorchScript")
        || line.starts_with("File \"")
        || line.starts_with('~')
        || line.starts_with("Exception raised from")
        || line.starts_with("frame #")
}

/// `[enforce fail at inline_container.cc:123] . ` and the like.
fn without_prefix(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("[enforce fail at ") else { return line };
    let rest = rest.split_once(']').map_or(line, |(_, it)| it).trim_start_matches([' ', '.']);
    rest.strip_prefix("err == 0. ").unwrap_or(rest)
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_traceback_the_error_at_its_end_remains() {
        let text = "The following operation failed in the TorchScript interpreter.\n\
                    Traceback of TorchScript, serialized code (most recent call last):\n  \
                    File \"code/__torch__.py\", line 8, in forward\n    fc = self.fc\n    \
                    return (fc).forward(x, )\n            ~~~~~~~~~~~ <--- HERE\n\n\
                    RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x7 and 30x256)\n";
        let line = "mat1 and mat2 shapes cannot be multiplied (2x7 and 30x256)";
        assert_eq!(useful_line(text), line);
        let failure = TorchFailure { out_of_memory: false, text: text.to_owned() };
        assert_eq!(of_run(&failure, true), BackendError::InvalidInput(line.to_owned()));
        assert_eq!(of_run(&failure, false), BackendError::Execute(line.to_owned()));
    }

    #[test]
    fn a_sequence_without_steps_is_the_requests_fault_where_its_length_is_open() {
        let line = "Expected sequence length to be larger than 0 in RNN";
        let failure = TorchFailure { out_of_memory: false, text: line.to_owned() };
        assert_eq!(of_run(&failure, true), BackendError::InvalidInput(line.to_owned()));
        assert_eq!(of_run(&failure, false), BackendError::Execute(line.to_owned()));
    }

    #[test]
    fn what_the_model_raises_keeps_its_name() {
        let text = "The following operation failed in the TorchScript interpreter.\n\
                    Traceback of TorchScript (most recent call last):\n  File \"m.py\", line 3\n\
                    builtins.ValueError: no more than three words\n";
        assert_eq!(useful_line(text), "builtins.ValueError: no more than three words");
    }

    #[test]
    fn a_plain_text_is_its_first_line_without_the_place_in_the_source() {
        assert_eq!(
            useful_line("Expected 3D input\nException raised from f at x.cpp:1\nframe #0"),
            "Expected 3D input"
        );
        assert_eq!(
            useful_line("[enforce fail at inline_container.cc:147] . PytorchStreamReader failed"),
            "PytorchStreamReader failed"
        );
        assert_eq!(useful_line(""), "no reason given");
        assert!(useful_line(&"long ".repeat(1000)).ends_with(" ..."));
    }

    #[test]
    fn an_operator_that_is_missing_is_named() {
        let text =
            "\nUnknown builtin op: mine::twice.\nCould not find any similar ops to mine::twice.";
        let failure = TorchFailure { out_of_memory: false, text: text.to_owned() };
        assert_eq!(
            of_load(Path::new("m.pt"), &failure).to_string(),
            "m.pt: it needs the operator mine::twice, which libtorch does not have: custom operators \
             cannot be served"
        );
    }

    #[test]
    fn memory_that_ran_out_is_recognised_by_its_text_too_and_parts_of_other_words_are_not() {
        let of_run = |text: &str| {
            let failure = TorchFailure { out_of_memory: false, text: text.to_owned() };
            of_run(&failure, true)
        };
        for text in [
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried \
             to allocate 9000000000000 bytes. Error code 12",
            "RuntimeError: CUDA out of memory.",
            "builtins.MemoryError: no more",
            "killed (OOM)",
        ] {
            assert!(matches!(of_run(text), BackendError::OutOfMemory(_)), "{text}");
        }
        assert!(matches!(of_run("no ROOM for it"), BackendError::Execute(_)));
    }
}

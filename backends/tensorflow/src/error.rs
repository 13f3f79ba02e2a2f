//! TensorFlow's failures as the contract's errors.

use std::path::Path;

use backend::BackendError;

use crate::native::{CallError, Code};

/// Of a run: what is the data's fault is told apart from what is not.
pub(crate) fn of_run(failure: &CallError) -> BackendError {
    let text = first_line(&failure.text);
    match failure.code {
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => {
            BackendError::InvalidInput(text)
        }
        Code::ResourceExhausted => BackendError::OutOfMemory(text),
        Code::DeadlineExceeded => {
            BackendError::Execute("the run was ended, as its time was over".to_owned())
        }
        Code::Cancelled | Code::NotFound | Code::DataLoss | Code::Other(_) => {
            BackendError::Execute(text)
        }
    }
}

/// Of a load.
pub(crate) fn of_load(folder: &Path, failure: &CallError) -> BackendError {
    let text = first_line(&failure.text);
    let folder = folder.display();
    let remedy = remedy(&text);
    match failure.code {
        Code::ResourceExhausted => BackendError::OutOfMemory(format!("{folder}: {text}")),
        // Files are read beyond their end, or are not what their sums say.
        Code::OutOfRange | Code::DataLoss => BackendError::Load(format!(
            "{folder}: {} is cut off or damaged ({text}); copy the model again",
            what_was_read(&failure.text)
        )),
        _ => BackendError::Load(format!("{folder}: {text}{remedy}")),
    }
}

/// The file that could not be read, as far as the operation that has read it tells: variables are read by those of the
/// saver, and assets by those that make tables.
fn what_was_read(text: &str) -> String {
    let node = text.rsplit_once("{{node ").and_then(|(_, behind)| behind.split("}}").next());
    let Some(node) = node else { return "a file of its variables or its assets".to_owned() };
    let operation = node.rsplit('/').next().unwrap_or(node);
    match operation.starts_with("Restore") {
        true => "a file of its variables, in variables/,".to_owned(),
        false => format!("what its operation '{node}' reads, such as a file in assets/,"),
    }
}

/// What to do where an operator is missing.
fn remedy(text: &str) -> String {
    let Some((_, behind)) = text.split_once("Op type not registered '") else {
        return String::new();
    };
    let operator = behind.split('\'').next().unwrap_or_default();
    let library = match operator.starts_with("TFText>") {
        true => {
            "_whitespace_tokenizer.so or its like of the Python package tensorflow-text, of TensorFlow's version"
        }
        false => "its library",
    };
    format!(
        "; TensorFlow alone does not have this operator: name {library} in config.pbtxt, model_operations {{ \
         op_library_filename: \"…\" }}"
    )
}

/// The first line, without the places in the graph that TensorFlow puts behind its sentence.
fn first_line(text: &str) -> String {
    let line = text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default().trim();
    let line = match line.find("[[{{") {
        Some(at) => line[..at].trim_end(),
        None => line,
    };
    // TensorFlow 2 puts "Graph execution error:" and a trace of Python before the sentence.
    let line = line.trim_end_matches("[Op:__inference_signature_wrapper]").trim_end();
    match line.is_empty() {
        true => "TensorFlow gives no reason".to_owned(),
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_graph_are_left_out() {
        let text = "Incompatible shapes: [3] vs. [2]\n\t [[{{node add}}]]";
        assert_eq!(first_line(text), "Incompatible shapes: [3] vs. [2]");
        assert_eq!(first_line("bad [[{{node StatefulPartitionedCall/add}}]]"), "bad");
        let in_function = "bad [[{{function_node __inference_f_1}}{{node add}}]]";
        assert_eq!(first_line(in_function), "bad");
        assert_eq!(first_line("\n\n"), "TensorFlow gives no reason");
    }

    #[test]
    fn a_missing_operator_has_the_line_that_brings_it() {
        let of = |operator: &str| {
            let text =
                format!("Op type not registered '{operator}' in binary running on h. Make sure");
            let failure = CallError { code: Code::NotFound, text };
            of_load(Path::new("m"), &failure).to_string()
        };
        assert!(of("TFText>WhitespaceTokenize").contains("tensorflow-text"));
        assert!(
            of("Own").contains("op_library_filename") && !of("Own").contains("tensorflow-text")
        );
    }

    #[test]
    fn a_file_that_is_cut_off_is_named_by_the_operation_that_reads_it() {
        let of = |code, place: &str| {
            let text = format!("Read less bytes than requested{place}");
            of_load(Path::new("m"), &CallError { code, text }).to_string()
        };
        for code in [Code::OutOfRange, Code::DataLoss] {
            let variables =
                "\n\t [[{{function_node __inference__traced_restore_75}}{{node RestoreV2}}]]";
            for place in [variables, "\n\t [[{{node save/RestoreV2_1}}]]"] {
                let error = of(code, place);
                assert!(error.contains("in variables/, is cut off or damaged (Read"), "{error}");
            }
            let error = of(code, "\n\t [[{{node Restored/InitializeTableFromTextFileV2}}]]");
            assert!(!error.contains("variables"), "{error}");
            for part in ["'Restored/InitializeTableFromTextFileV2'", "assets/", "requested)"] {
                assert!(error.contains(part), "{error}");
            }
            assert!(of(code, "").contains("its variables or its assets is cut off"));
        }
    }

    #[test]
    fn what_the_data_is_at_fault_for_is_told_apart() {
        let failure = |code| CallError { code, text: "t".to_owned() };
        let is_input = |code| matches!(of_run(&failure(code)), BackendError::InvalidInput(_));
        assert!(is_input(Code::InvalidArgument) && is_input(Code::OutOfRange));
        assert!(!is_input(Code::Other(13)) && !is_input(Code::Cancelled));
        let exhausted = of_run(&failure(Code::ResourceExhausted));
        assert!(matches!(exhausted, BackendError::OutOfMemory(_)));
    }
}

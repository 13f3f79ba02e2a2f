//! TensorFlow's failures as the contract's errors.

use std::path::Path;

use backend::BackendError;

use crate::native::{Code, Failure};

/// Of a run: what is the data's fault is told apart from what is not.
pub(crate) fn of_run(failure: &Failure) -> BackendError {
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
pub(crate) fn of_load(folder: &Path, failure: &Failure) -> BackendError {
    let text = first_line(&failure.text);
    let folder = folder.display();
    let remedy = remedy(&text);
    match failure.code {
        Code::ResourceExhausted => BackendError::OutOfMemory(format!("{folder}: {text}")),
        // Files are read beyond their end, or are not what the sums in the index say.
        Code::OutOfRange | Code::DataLoss => BackendError::Load(format!(
            "{folder}: a file of its variables, in variables/, is cut off or damaged ({text}); copy the model again"
        )),
        _ => BackendError::Load(format!("{folder}: {text}{remedy}")),
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
    let line = match line.find("[[{{node") {
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
        assert_eq!(first_line("\n\n"), "TensorFlow gives no reason");
    }

    #[test]
    fn a_missing_operator_has_the_line_that_brings_it() {
        let of = |operator: &str| {
            let text =
                format!("Op type not registered '{operator}' in binary running on h. Make sure");
            let failure = Failure { code: Code::NotFound, text };
            of_load(Path::new("m"), &failure).to_string()
        };
        assert!(of("TFText>WhitespaceTokenize").contains("tensorflow-text"));
        assert!(
            of("Own").contains("op_library_filename") && !of("Own").contains("tensorflow-text")
        );
    }

    #[test]
    fn what_the_data_is_at_fault_for_is_told_apart() {
        let failure = |code| Failure { code, text: "t".to_owned() };
        let is_input = |code| matches!(of_run(&failure(code)), BackendError::InvalidInput(_));
        assert!(is_input(Code::InvalidArgument) && is_input(Code::OutOfRange));
        assert!(!is_input(Code::Other(13)) && !is_input(Code::Cancelled));
        let exhausted = of_run(&failure(Code::ResourceExhausted));
        assert!(matches!(exhausted, BackendError::OutOfMemory(_)));
    }
}

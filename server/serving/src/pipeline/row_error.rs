//! Why an input of a pipeline has no answer, as the error of its request.

use backend::BackendError;

use inference::{
    error::Error,
    task::{Medium, TEXT, TOKEN_IDS},
};
use steps::RowError;

/// The error of a request with that input. The parameter that is at fault is named where it is one.
pub fn error(problem: RowError) -> Error {
    said(&problem, problem.to_string())
}

/// The same of one of several texts or files: which one it is, where there are several, and what is wrong with it.
pub fn of_input(medium: Medium, at: usize, of: usize, problem: &RowError) -> Error {
    let text = match of {
        1 => problem.to_string(),
        _ => format!("{} {} of the request: {problem}", medium.name(), at + 1),
    };
    said(problem, text)
}

/// An error of that problem, in these words.
fn said(problem: &RowError, text: String) -> Error {
    let of = |name: &str, problem| Error::InvalidParameter { name: name.to_owned(), problem };
    match problem {
        RowError::InList { problem, .. } => said(problem, text),
        RowError::NotANumber { .. } | RowError::Output { .. } => {
            Error::Backend(BackendError::Execute(text))
        }
        RowError::TooManyBytes { .. }
        | RowError::TooManyCharacters { .. }
        | RowError::TooManyTokens { .. } => of(TEXT, text),
        RowError::UnknownId { .. } => of(TOKEN_IDS, text),
        RowError::UnknownPrompt { .. } => of("prompt_name", text),
        RowError::Parameter { name, .. } => of(name, text),
        RowError::Tokenizer(_) => Error::Tokenizer(text),
        // Whoever could read it has left, or is told of the deadline.
        RowError::Stopped => Error::Internal(text),
        RowError::Truncation(_) | RowError::Input(_) | RowError::Task { .. } => {
            Error::InvalidRequest(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_fault_is_named_and_said_in_the_words_of_the_step() {
        let long = error(RowError::TooManyTokens { given: 9, allowed: 8 });
        assert_eq!(long.parameter(), Some("text"));
        assert!(long.to_string().starts_with("the input has 9 tokens"), "{long}");
        let problem = "it is 0".to_owned();
        let wrong = error(RowError::Parameter { name: "dimensions".to_owned(), problem });
        assert_eq!(wrong.parameter(), Some("dimensions"));
        assert_eq!(wrong.to_string(), "parameter 'dimensions': it is 0");
        let second =
            of_input(Medium::Text, 1, 2, &RowError::TooManyTokens { given: 9, allowed: 8 });
        assert_eq!(second.parameter(), Some("text"));
        assert!(second.to_string().starts_with("text 2 of the request: the input"), "{second}");
        let failed = error(RowError::Tokenizer("no".to_owned()));
        assert_eq!(failed, Error::Tokenizer("the tokenizer failed: no".to_owned()));
    }
}

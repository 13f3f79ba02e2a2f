//! The base score: a prediction, or one for each output, as text. Pure.

use crate::{error::FormatError, limits};

/// `5E-1`, or from 3.1 on `[5E-1]` and `[a,b,c]`.
pub(super) fn parse(text: &str) -> Result<Vec<f32>, FormatError> {
    let refuse = |problem: &str| Err(FormatError::new(format!("base_score {text:?}: {problem}")));
    let list = text.trim().strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let list = list.unwrap_or(text);
    if limits::OUTPUTS <= list.matches(',').count() {
        return refuse("too many numbers");
    }
    let scores: Result<Vec<f32>, _> = list.split(',').map(|it| it.trim().parse()).collect();
    match scores {
        Ok(scores) if scores.iter().all(|it| it.is_finite()) => Ok(scores),
        _ => refuse("expected finite numbers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        assert_eq!(parse("5E-1"), Ok(vec![0.5]));
        assert_eq!(parse("[5E-1]"), Ok(vec![0.5]));
        assert_eq!(parse("[1E-1, -2,3]"), Ok(vec![0.1, -2.0, 3.0]));
        for text in ["", "[]", "[1", "x", "NaN", "[1,inf]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

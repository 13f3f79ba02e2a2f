//! Logits to classes, best first.

use std::sync::Arc;

use super::function::apply;
use crate::{
    error::RowError,
    outputs::RowOutput,
    reply::Label,
    request::{Function, TopK},
};

/// The classes of one text. `output` is the graph's output in errors.
///
/// # Errors
/// When there are not as many logits as labels, or a score is no number.
pub(crate) fn classify(
    labels: &[Arc<str>],
    mut logits: Vec<f32>,
    function: Function,
    top_k: TopK,
    output: &str,
) -> Result<Vec<Label>, RowError> {
    if logits.len() != labels.len() {
        let problem = format!("it has {} values for {} labels", logits.len(), labels.len());
        return Err(RowError::Output { output: output.to_owned(), problem });
    }
    apply(function, &mut logits);
    check_numbers(&logits, output)?;
    let scored = labels.iter().zip(logits).enumerate();
    let mut found: Vec<Label> = scored
        .map(|(class, (label, score))| Label { label: label.clone(), class, score })
        .collect();
    // Stable, as the reference's sort is.
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(match top_k {
        TopK::Default => 1,
        TopK::All => usize::MAX,
        TopK::Best(count) => count,
    });
    Ok(found)
}

/// The logits of a row as they are.
///
/// # Errors
/// When one is no number. An infinite one is a class that cannot be; a score that is not finite is found later.
pub(crate) fn whole_logits(output: &RowOutput<'_>) -> Result<Vec<f32>, RowError> {
    match output.values.iter().position(|it| it.is_nan()) {
        Some(position) => Err(RowError::NotANumber { output: output.name.to_owned(), position }),
        None => Ok(output.values.to_vec()),
    }
}

/// Fails for the first value that is no finite number.
pub(crate) fn check_numbers(values: &[f32], output: &str) -> Result<(), RowError> {
    match values.iter().position(|it| !it.is_finite()) {
        Some(position) => Err(RowError::NotANumber { output: output.to_owned(), position }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(logits: &[f32], function: Function, top_k: TopK, expect: &[(&str, f32)]) {
        let labels: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).to_vec();
        let found = classify(&labels, logits.to_vec(), function, top_k, "logits").unwrap();
        let found: Vec<(&str, f32)> = found.iter().map(|it| (&*it.label, it.score)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn the_best_come_first_and_equal_ones_in_their_order() {
        let logits = [1.0, 2.0, 2.0];
        let all = [("b", 2.0), ("c", 2.0), ("a", 1.0)];
        check(&logits, Function::None, TopK::All, &all);
        check(&logits, Function::None, TopK::Best(2), &all[..2]);
        check(&logits, Function::None, TopK::Default, &all[..1]);
        check(&logits, Function::None, TopK::Best(9), &all);
    }

    #[test]
    fn scores_are_those_of_the_function() {
        check(&[0.0, 0.0, 0.0], Function::Softmax, TopK::Default, &[("a", 1.0 / 3.0)]);
        check(&[0.0, 0.0, 0.0], Function::Sigmoid, TopK::Default, &[("a", 0.5)]);
    }

    #[test]
    fn what_is_no_number_or_not_enough_is_an_error() {
        let labels: Vec<Arc<str>> = ["a", "b"].map(Arc::from).to_vec();
        let run = |logits: &[f32]| {
            let result = classify(&labels, logits.to_vec(), Function::Softmax, TopK::All, "logits");
            result.unwrap_err().to_string()
        };
        assert_eq!(run(&[1.0]), "the model's output 'logits': it has 1 values for 2 labels");
        let text = "the model's output 'logits' is not a number at position 0";
        assert_eq!(run(&[f32::NAN, 1.0]), text);
    }
}

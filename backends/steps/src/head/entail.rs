//! Which of some labels a text has, from how far it entails a sentence about each.

use std::sync::Arc;

use super::{classify::check_numbers, function::softmax};
use crate::{error::RowError, reply::Label};

/// The labels of one text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidates {
    /// In the order of the rows.
    pub(crate) labels: Vec<Arc<str>>,
    /// May the text have several?
    pub(crate) is_multi: bool,
    /// The class of the model that says so.
    pub(crate) entailment: usize,
}

/// The class that says that the first text entails the second: the first whose name begins so, else the last.
pub(crate) fn entailment(labels: &[Arc<str>]) -> usize {
    let named = labels.iter().position(|it| it.to_lowercase().starts_with("entail"));
    named.unwrap_or(labels.len().saturating_sub(1))
}

/// The labels, best first. Each row has the logits of the text with one of them.
///
/// # Errors
/// When a row has too few logits, or a score is no number.
pub(crate) fn rank(
    candidates: &Candidates,
    rows: &[Vec<f32>],
    output: &str,
) -> Result<Vec<Label>, RowError> {
    let entailment = candidates.entailment;
    if rows.iter().any(|it| it.len() <= entailment) {
        let problem = format!("it has no value {entailment}, which is the entailment");
        return Err(RowError::Output { output: output.to_owned(), problem });
    }
    let mut scores: Vec<f32> = match candidates.is_multi || rows.len() == 1 {
        true => {
            let score = |row: &Vec<f32>| {
                let contradiction = if entailment == 0 { row.len() - 1 } else { 0 };
                let mut pair = [row[contradiction], row[entailment]];
                softmax(&mut pair);
                pair[1]
            };
            rows.iter().map(score).collect()
        }
        false => rows.iter().map(|it| it[entailment]).collect(),
    };
    if !candidates.is_multi && rows.len() > 1 {
        softmax(&mut scores);
    }
    check_numbers(&scores, output)?;
    let named = candidates.labels.iter().cloned().zip(scores).enumerate();
    let mut labels: Vec<Label> =
        named.map(|(class, (label, score))| Label { label, class, score }).collect();
    // The reference sorts upwards and turns the list round, equal ones with it. How its sort leaves those is not told:
    // with vector instructions it is not stable. Here it is, on every machine.
    labels.sort_by(|a, b| a.score.total_cmp(&b.score));
    labels.reverse();
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_multi: bool, entailment: usize, rows: &[[f32; 3]], expect: &[&str]) {
        let labels = ["a", "b", "c"].map(Arc::from)[..rows.len()].to_vec();
        let rows: Vec<Vec<f32>> = rows.iter().map(|it| it.to_vec()).collect();
        let found = rank(&Candidates { labels, is_multi, entailment }, &rows, "logits").unwrap();
        let found: Vec<&str> = found.iter().map(|it| &*it.label).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn labels_share_or_stand_alone() {
        let rows = [[5.0, 0.0, 2.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0]];
        check(false, 2, &rows, &["a", "c", "b"]);
        check(true, 2, &rows, &["b", "c", "a"]);
        check(true, 0, &rows, &["a", "c", "b"]);
    }

    #[test]
    fn a_single_label_is_weighed_against_its_contradiction() {
        let candidates = Candidates { labels: vec!["a".into()], is_multi: false, entailment: 2 };
        let found = rank(&candidates, &[vec![0.0, 9.0, 0.0]], "logits").unwrap();
        assert_eq!(found[0].score, 0.5);
    }

    #[test]
    fn labels_of_equal_scores_are_turned_round() {
        let rows = [[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [0.0, 0.0, 1.0]];
        check(false, 2, &rows, &["b", "c", "a"]);
        check(true, 2, &rows, &["b", "c", "a"]);
    }

    #[test]
    fn the_entailment_is_named_or_last() {
        let labels = |names: [&str; 3]| names.map(Arc::from).to_vec();
        assert_eq!(entailment(&labels(["contradiction", "Entailment", "neutral"])), 1);
        assert_eq!(entailment(&labels(["LABEL_0", "LABEL_1", "LABEL_2"])), 2);
    }
}

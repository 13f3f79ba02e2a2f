//! Which trees of a document are used: rounds of training that a configuration names, or where training stopped. Pure.

use crate::{
    error::FormatError,
    forest::document::Document,
    options::{Options, Rounds},
};

/// Takes the trees away that are not used.
///
/// # Errors
/// Rounds that the file does not have.
pub fn select_trees(document: &mut Document, options: &Options) -> Result<(), FormatError> {
    let last_round = document.rounds.len().saturating_sub(1);
    let range = match options.rounds {
        Some(Rounds::All) => return Ok(()),
        // As the containers of SageMaker do up to 1.7; Triton's FIL always takes all.
        None => match (document.best_trees, &options.fil) {
            (Some(trees), None) => 0..trees.min(document.trees.len()),
            (Some(_), Some(_)) | (None, _) => return Ok(()),
        },
        Some(rounds) => {
            let (first, end) = match (rounds, document.best_round) {
                (Rounds::Range(first, end), _) => (first, end),
                (Rounds::Best | Rounds::All, Some(best)) => (0, best.saturating_add(1)),
                (Rounds::Best | Rounds::All, None) => {
                    return Err(FormatError::new(
                        "iteration_range is 'best', and the file has no best_iteration: training did not stop early",
                    ));
                }
            };
            if last_round < end {
                return Err(FormatError::new(format!(
                    "iteration_range ends at {end}, the file has {last_round} rounds"
                )));
            }
            document.rounds[first]..document.rounds[end]
        }
    };
    if !document.rounds.is_sorted() || document.trees.len() < range.end {
        return Err(FormatError::new("its rounds of training do not divide its trees"));
    }
    document.trees.truncate(range.end);
    document.trees.drain(..range.start);
    document.rounds.clear();
    // As LightGBM does: a mean is that of the rounds that are used.
    let used = document.trees.len().checked_div(document.sums());
    document.average_over = document.average_over.and(used).map(|it| it as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        forest::testing::{document, stump},
        options::Fil,
    };

    fn options(rounds: Option<Rounds>) -> Options {
        let (model_type, fil, missing, objective) = (None, None, None, None);
        Options { model_type, fil, rounds, missing, objective, ignored: vec![] }
    }

    /// The weights of the trees that are left of ten, whose weights are their numbers, two of each round.
    #[track_caller]
    fn left(best: (Option<usize>, Option<usize>), options: &Options) -> Vec<usize> {
        let mut document = document(vec![stump(); 10]);
        for (number, tree) in document.trees.iter_mut().enumerate() {
            tree.weight = number as f64;
        }
        document.rounds = vec![0, 2, 4, 6, 8, 10];
        (document.best_trees, document.best_round) = best;
        select_trees(&mut document, options).unwrap();
        document.trees.iter().map(|it| it.weight as usize).collect()
    }

    #[test]
    fn rounds_are_those_of_the_configuration_else_those_before_the_stop() {
        let early = (Some(4), Some(2));
        assert_eq!(left(early, &options(None)), [0, 1, 2, 3]);
        assert_eq!(left(early, &options(Some(Rounds::All))).len(), 10);
        assert_eq!(left(early, &options(Some(Rounds::Best))), [0, 1, 2, 3, 4, 5]);
        assert_eq!(left(early, &options(Some(Rounds::Range(1, 2)))), [2, 3]);
        assert_eq!(left((None, Some(1)), &options(None)).len(), 10);
        let fil = Some(Fil { is_classifier: true, predict_proba: false, threshold: 0.5 });
        assert_eq!(left(early, &Options { fil, ..options(None) }).len(), 10);
    }

    #[test]
    fn rounds_that_the_file_does_not_have_are_refused() {
        let mut document = document(vec![stump()]);
        document.rounds = vec![0, 1];
        let mut refused = |rounds| select_trees(&mut document, &options(Some(rounds))).unwrap_err();
        let text = refused(Rounds::Range(0, 2)).to_string();
        assert_eq!(text, "iteration_range ends at 2, the file has 1 rounds");
        assert!(refused(Rounds::Best).to_string().contains("no best_iteration"));
    }
}

//! How much the answers to rows that differ say of what a model does with them. Pure.
//!
//! Answers that are alike say nothing: of those nobody sees that one is another's. What is no number says nothing
//! either, as one NaN looks like another. An output that is the same whatever a model is given says nothing for or
//! against it, and the others decide.

use std::{cmp::Reverse, sync::Arc};

use backend::{DataType, NamedTensor, Tensor, distance};

/// What came of one run.
pub(super) struct Answers(pub(super) Vec<NamedTensor>);

/// What the answers to several rows, each alone in its run, show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Evidence {
    /// So many of the rows have answers of their own, all of them numbers, in the output where the fewest have. Those
    /// that are `still` are left out, if there are others.
    distinct: usize,
    /// Are all ordinary rows among these?
    is_whole: bool,
    /// Outputs of floats that are the same for all rows, to the last bit.
    still: Vec<Arc<str>>,
    /// What is lacking; a clause.
    lacks: Option<String>,
    is_of_no_numbers: bool,
}

impl Evidence {
    /// Do comparisons of these rows prove something? Outputs that are always the same need not tell rows apart.
    pub(super) fn is_proof(&self, constants: &Constants) -> bool {
        2 <= self.distinct && self.still.iter().all(|it| constants.has(it))
    }

    /// Is that so although an output has been the same?
    pub(super) fn is_beside_still(&self, constants: &Constants) -> bool {
        !self.still.is_empty() && self.is_proof(constants)
    }

    /// Does every output tell the ordinary rows apart?
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole && 2 <= self.distinct && self.still.is_empty()
    }

    /// Is there an output that has no numbers for any row?
    pub(super) fn is_of_no_numbers(&self) -> bool {
        self.is_of_no_numbers
    }

    /// More is larger.
    pub(super) fn strength(&self) -> (bool, Reverse<usize>, usize, bool) {
        (2 <= self.distinct, Reverse(self.still.len()), self.distinct, self.is_whole)
    }

    pub(super) fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }
}

/// The outputs of floats that were the same in all that was tried.
#[derive(Debug, Default)]
pub(super) struct Constants {
    /// What each has been, `None` where it has varied.
    known: Vec<(Arc<str>, Option<Tensor>)>,
}

impl Constants {
    /// Takes in how rows of one kind were answered.
    pub(super) fn record(&mut self, alone: &[Answers]) {
        for answer in alone.iter().flat_map(|it| &it.0) {
            let Some((_, known)) = self.known.iter_mut().find(|it| it.0 == answer.name) else {
                self.known.push((answer.name.clone(), Some(answer.tensor.clone())));
                continue;
            };
            known.take_if(|it| it.to_bytes() != answer.tensor.to_bytes());
        }
    }

    fn has(&self, name: &str) -> bool {
        self.known.iter().any(|(it, value)| **it == *name && value.is_some())
    }
}

/// What these answers show. The first `ordinary` are to ordinary rows.
///
/// An output of floats that is nearly the same for all rows proves nothing, however much another varies. Whole numbers,
/// truth values and texts may be the same beside floats that differ, as the label beside its probabilities. Where no
/// floats vary, they have to differ.
pub(super) fn evidence(alone: &[Answers], ordinary: usize) -> Evidence {
    let Some(first) = alone.first() else { return nothing("there are none") };
    // Nothing can be wrong in an output that never has an element.
    let column = |at: usize| -> Vec<&Tensor> {
        alone.iter().filter_map(|it| it.0.get(at)).map(|it| &it.tensor).collect()
    };
    let columns: Vec<(&Arc<str>, Vec<&Tensor>)> = first
        .0
        .iter()
        .enumerate()
        .map(|(at, output)| (&output.name, column(at)))
        .filter(|(_, column)| column.iter().any(|it| 0 < it.elements()))
        .collect();
    let is_float = |column: &[&Tensor]| column.first().is_some_and(|it| is_of_floats(it.dtype()));
    // Zeros are what a threshold leaves of rows without a pattern.
    let is_still = |column: &[&Tensor]| {
        let first = column.first().filter(|it| is_of_floats(it.dtype()) && is_of_numbers(it));
        first.is_some_and(|first| {
            let bytes = first.to_bytes();
            bytes.iter().any(|it| *it != 0) && column.iter().all(|it| it.to_bytes() == bytes)
        })
    };
    // Of nothing but what is always the same it is said that it is.
    let (still, moving): (Vec<_>, Vec<_>) = match columns.iter().all(|it| is_still(&it.1)) {
        true => (Vec::new(), columns),
        false => columns.into_iter().partition(|(_, column)| is_still(column)),
    };
    let has_floats = moving.iter().any(|(_, column)| is_float(column));
    let counted = moving.iter().filter(|(_, column)| !has_floats || is_float(column));
    let each = counted.map(|(name, column)| {
        let (distinct, numbers) = distinct(column);
        let is_whole = distinct_alone(column, ordinary);
        let lacks = match (distinct, numbers) {
            (2.., _) => None,
            (_, 0) => Some(format!("output '{name}' is no number for any of them")),
            _ => Some(format!("output '{name}' is the same for all of them")),
        };
        let still = Vec::new();
        Evidence { distinct, is_whole, still, lacks, is_of_no_numbers: numbers == 0 }
    });
    let all: Vec<Evidence> = each.collect();
    let is_whole = all.iter().all(|it| it.is_whole);
    let is_of_no_numbers = all.iter().any(|it| it.is_of_no_numbers);
    let Some(least) = all.into_iter().min_by_key(|it| it.distinct) else {
        return nothing("they have no elements");
    };
    let same = still.first().map(|it| format!("output '{}' is the same for all of them", it.0));
    let lacks = least.lacks.or(same);
    let still = still.into_iter().map(|(name, _)| name.clone()).collect();
    Evidence { is_whole, is_of_no_numbers, still, lacks, ..least }
}

fn nothing(lacks: &str) -> Evidence {
    let lacks = Some(lacks.to_owned());
    Evidence { distinct: 0, is_whole: false, still: Vec::new(), lacks, is_of_no_numbers: true }
}

/// How many of these answers are numbers and unlike each other, and how many are numbers.
fn distinct(answers: &[&Tensor]) -> (usize, usize) {
    let mut different: Vec<&Tensor> = Vec::new();
    let mut numbers = 0;
    for answer in answers.iter().filter(|it| is_of_numbers(it)) {
        numbers += 1;
        if different.iter().all(|it| differ(it, answer)) {
            different.push(answer);
        }
    }
    (different.len(), numbers)
}

/// Are the first so many of these numbers, and each unlike the others?
fn distinct_alone(answers: &[&Tensor], first: usize) -> bool {
    answers.get(..first).is_some_and(|it| distinct(it).0 == first)
}

/// By more than the order of sums explains.
fn differ(one: &Tensor, other: &Tensor) -> bool {
    distance::noise(one.dtype()) < distance::distance(one, other)
}

fn is_of_floats(dtype: DataType) -> bool {
    matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

/// Is there no NaN, and at least one number in two elements? Infinities may stand for what is left out.
fn is_of_numbers(answer: &Tensor) -> bool {
    let Some(values) = distance::floats(answer) else { return 0 < answer.elements() };
    let finite = values.iter().filter(|it| it.is_finite()).count();
    !values.is_empty() && values.len() <= 2 * finite && !values.iter().any(|it| it.is_nan())
}

#[cfg(test)]
mod tests {
    use backend::Shape;

    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_vec(Shape::new(&[1, values.len()]), values.to_vec()).unwrap()
    }

    fn whole(values: &[i64]) -> Tensor {
        Tensor::from_vec(Shape::new(&[1, values.len()]), values.to_vec()).unwrap()
    }

    /// Of rows that are answered so, one tensor for each output.
    fn of(rows: Vec<Vec<Tensor>>) -> (Evidence, Constants) {
        let named = |(at, tensor)| NamedTensor { name: format!("y{at}").into(), tensor };
        let rows =
            rows.into_iter().map(|it| Answers(it.into_iter().enumerate().map(named).collect()));
        let rows: Vec<Answers> = rows.collect();
        let mut constants = Constants::default();
        constants.record(&rows);
        (evidence(&rows, 2), constants)
    }

    /// Where what stays the same has always been so.
    fn is_proof((found, constants): &(Evidence, Constants)) -> bool {
        found.is_proof(constants)
    }

    #[test]
    fn answers_that_differ_and_are_numbers_prove_something() {
        let found = of(vec![vec![floats(&[1.0, 2.0])], vec![floats(&[1.0, 2.5])]]);
        assert!(is_proof(&found) && found.0.is_whole());
        // What is left out of all rows.
        let left_out = f32::NEG_INFINITY;
        assert!(is_proof(&of(vec![
            vec![floats(&[1.0, left_out])],
            vec![floats(&[2.0, left_out])]
        ])));
    }

    #[test]
    fn answers_that_are_alike_or_no_numbers_prove_nothing() {
        let lacks = |rows| of(rows).0.lacks().unwrap().to_owned();
        let nan = || vec![floats(&[f32::NAN])];
        assert_eq!(lacks(vec![nan(), nan()]), "output 'y0' is no number for any of them");
        let same = || vec![floats(&[3.0])];
        assert_eq!(lacks(vec![same(), same()]), "output 'y0' is the same for all of them");
        // By the order of sums.
        let near = lacks(vec![same(), vec![floats(&[3.00001])]]);
        assert_eq!(near, "output 'y0' is the same for all of them");
        assert!(!is_proof(&of(vec![nan(), same()])));
        let empty = || vec![floats(&[])];
        assert!(!is_proof(&of(vec![])) && !is_proof(&of(vec![empty(), empty()])));
    }

    #[test]
    fn every_output_of_floats_has_to_vary() {
        let rows = |second: [f32; 2]| {
            vec![
                vec![floats(&[1.0]), floats(&second[..1])],
                vec![floats(&[2.0]), floats(&second[1..])],
            ]
        };
        assert!(is_proof(&of(rows([1.0, 2.0]))));
        let found = of(rows([f32::NAN, f32::NAN]));
        assert_eq!(found.0.lacks(), Some("output 'y1' is no number for any of them"));
        // By the order of sums, and zeros.
        assert!(!is_proof(&of(rows([5.0, 5.00001]))) && !is_proof(&of(rows([0.0, 0.0]))));
    }

    #[test]
    fn an_output_that_is_always_the_same_says_nothing_and_the_others_decide() {
        let answers = |rows: &[[f32; 2]]| -> Vec<Answers> {
            let output = |(at, it): (usize, &f32)| NamedTensor {
                name: format!("y{at}").into(),
                tensor: floats(&[*it]),
            };
            let row = |it: &[f32; 2]| Answers(it.iter().enumerate().map(output).collect());
            rows.iter().map(row).collect()
        };
        let one = answers(&[[1.0, 5.0], [2.0, 5.0]]);
        let found = evidence(&one, 2);
        let mut constants = Constants::default();
        constants.record(&one);
        assert!(found.is_proof(&constants) && !found.is_whole());
        assert_eq!(found.lacks(), Some("output 'y1' is the same for all of them"));
        // A kind of rows that it varies for is better, and shows that it is none.
        let other = answers(&[[1.0, 5.0], [2.0, 6.0]]);
        constants.record(&other);
        assert!(!found.is_proof(&constants) && evidence(&other, 2).is_proof(&constants));
        assert!(found.strength() < evidence(&other, 2).strength());
        // Of nothing else nothing follows.
        let both = answers(&[[5.0, 5.0], [5.0, 5.0]]);
        let mut constants = Constants::default();
        constants.record(&both);
        assert!(!evidence(&both, 2).is_proof(&constants));
        // A label beside it has to vary.
        let labels = |second: i64| {
            let row = |it| vec![floats(&[5.0]), whole(&[it])];
            vec![row(1), row(second)]
        };
        assert!(is_proof(&of(labels(2))) && !is_proof(&of(labels(1))));
    }

    #[test]
    fn a_label_may_stay_the_same_beside_floats_and_not_by_itself() {
        let label = |it: i64| whole(&[it]);
        let beside = |it| vec![label(1), floats(&[it])];
        assert!(is_proof(&of(vec![beside(1.0), beside(2.0)])));
        assert!(!is_proof(&of(vec![vec![label(1)], vec![label(1)]])));
        assert!(is_proof(&of(vec![vec![label(1)], vec![label(2)]])));
    }

    #[test]
    fn more_answers_of_their_own_are_more() {
        let rows = |values: &[f32]| {
            let found = of(values.iter().map(|it| vec![floats(&[*it])]).collect());
            (is_proof(&found), found.0)
        };
        let (few, many) = (rows(&[1.0, 1.0, 2.0, 2.0]), rows(&[1.0, 1.0, 2.0, 3.0]));
        assert!(few.1.strength() < many.1.strength() && few.0 && !few.1.is_whole());
        assert!(many.1.strength() < rows(&[1.0, 4.0, 2.0, 3.0]).1.strength());
    }
}

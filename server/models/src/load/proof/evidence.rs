//! How much the answers to rows that differ say of what a model does with them. Pure.
//!
//! Answers that are alike say nothing: of those nobody sees that one is another's. What is no number says nothing
//! either, as one NaN looks like another.

use backend::{DataType, NamedTensor, Tensor, distance};

/// What came of one run.
pub(super) struct Answers(pub(super) Vec<NamedTensor>);

/// What the answers to several rows, each alone in its run, show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Evidence {
    /// So many of the rows have answers of their own, all of them numbers, in the output where the fewest have.
    distinct: usize,
    /// Are all ordinary rows among these?
    is_whole: bool,
    /// What is lacking; a clause.
    lacks: Option<String>,
    is_of_no_numbers: bool,
}

impl Evidence {
    /// Do comparisons of these rows prove something?
    pub(super) fn is_proof(&self) -> bool {
        2 <= self.distinct
    }

    /// Does every output tell the ordinary rows apart?
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole && self.is_proof()
    }

    /// Is there an output that has no numbers for any row?
    pub(super) fn is_of_no_numbers(&self) -> bool {
        self.is_of_no_numbers
    }

    /// More is larger.
    pub(super) fn strength(&self) -> (usize, bool) {
        (self.distinct, self.is_whole)
    }

    pub(super) fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }
}

/// What these answers show. The first `ordinary` are to ordinary rows.
///
/// An output of floats that is the same for all rows proves nothing of itself, however much another varies. Whole
/// numbers, truth values and texts may be the same beside floats that differ, as the label beside its probabilities.
/// Where there is nothing else, they have to differ.
pub(super) fn evidence(alone: &[Answers], ordinary: usize) -> Evidence {
    let Some(first) = alone.first() else { return nothing("there are none") };
    // Nothing can be wrong in an output that never has an element.
    let column = |at: usize| -> Vec<&Tensor> {
        alone.iter().filter_map(|it| it.0.get(at)).map(|it| &it.tensor).collect()
    };
    let columns: Vec<(&str, Vec<&Tensor>)> = first
        .0
        .iter()
        .enumerate()
        .map(|(at, output)| (&*output.name, column(at)))
        .filter(|(_, column)| column.iter().any(|it| 0 < it.elements()))
        .collect();
    let is_float = |column: &[&Tensor]| column.first().is_some_and(|it| is_of_floats(it.dtype()));
    let has_floats = columns.iter().any(|(_, column)| is_float(column));
    let counted = columns.iter().filter(|(_, column)| !has_floats || is_float(column));
    let each = counted.map(|(name, column)| {
        let (distinct, numbers) = distinct(column);
        let is_whole = distinct_alone(column, ordinary);
        let lacks = match (distinct, numbers) {
            (2.., _) => None,
            (_, 0) => Some(format!("output '{name}' is no number for any of them")),
            _ => Some(format!("output '{name}' is the same for all of them")),
        };
        Evidence { distinct, is_whole, lacks, is_of_no_numbers: numbers == 0 }
    });
    let all: Vec<Evidence> = each.collect();
    let is_whole = all.iter().all(|it| it.is_whole);
    let is_of_no_numbers = all.iter().any(|it| it.is_of_no_numbers);
    match all.into_iter().min_by_key(|it| it.distinct) {
        Some(least) => Evidence { is_whole, is_of_no_numbers, ..least },
        None => nothing("they have no elements"),
    }
}

fn nothing(lacks: &str) -> Evidence {
    let lacks = Some(lacks.to_owned());
    Evidence { distinct: 0, is_whole: false, lacks, is_of_no_numbers: true }
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
    fn of(rows: Vec<Vec<Tensor>>) -> Evidence {
        let named = |(at, tensor)| NamedTensor { name: format!("y{at}").into(), tensor };
        let rows =
            rows.into_iter().map(|it| Answers(it.into_iter().enumerate().map(named).collect()));
        evidence(&rows.collect::<Vec<_>>(), 2)
    }

    #[test]
    fn answers_that_differ_and_are_numbers_prove_something() {
        let found = of(vec![vec![floats(&[1.0, 2.0])], vec![floats(&[1.0, 2.5])]]);
        assert!(found.is_proof() && found.is_whole());
        // What is left out of all rows.
        let left_out = f32::NEG_INFINITY;
        assert!(
            of(vec![vec![floats(&[1.0, left_out])], vec![floats(&[2.0, left_out])]]).is_proof()
        );
    }

    #[test]
    fn answers_that_are_alike_or_no_numbers_prove_nothing() {
        let lacks = |rows| of(rows).lacks().unwrap().to_owned();
        let nan = || vec![floats(&[f32::NAN])];
        assert_eq!(lacks(vec![nan(), nan()]), "output 'y0' is no number for any of them");
        let same = || vec![floats(&[3.0])];
        assert_eq!(lacks(vec![same(), same()]), "output 'y0' is the same for all of them");
        // By the order of sums.
        let near = lacks(vec![same(), vec![floats(&[3.00001])]]);
        assert_eq!(near, "output 'y0' is the same for all of them");
        assert!(!of(vec![nan(), same()]).is_proof());
        assert!(
            !of(vec![]).is_proof() && !of(vec![vec![floats(&[])], vec![floats(&[])]]).is_proof()
        );
    }

    #[test]
    fn every_output_of_floats_has_to_vary() {
        let rows = |second: [f32; 2]| {
            vec![
                vec![floats(&[1.0]), floats(&second[..1])],
                vec![floats(&[2.0]), floats(&second[1..])],
            ]
        };
        assert!(of(rows([1.0, 2.0])).is_proof());
        let found = of(rows([f32::NAN, f32::NAN]));
        assert_eq!(found.lacks(), Some("output 'y1' is no number for any of them"));
        assert!(!of(rows([5.0, 5.0])).is_proof());
    }

    #[test]
    fn a_label_may_stay_the_same_beside_floats_and_not_by_itself() {
        let label = |it: i64| whole(&[it]);
        assert!(
            of(vec![vec![label(1), floats(&[1.0])], vec![label(1), floats(&[2.0])]]).is_proof()
        );
        assert!(!of(vec![vec![label(1)], vec![label(1)]]).is_proof());
        assert!(of(vec![vec![label(1)], vec![label(2)]]).is_proof());
    }

    #[test]
    fn more_answers_of_their_own_are_more() {
        let rows = |values: &[f32]| of(values.iter().map(|it| vec![floats(&[*it])]).collect());
        let (few, many) = (rows(&[1.0, 1.0, 2.0, 2.0]), rows(&[1.0, 1.0, 2.0, 3.0]));
        assert!(few.strength() < many.strength() && few.is_proof() && !few.is_whole());
        assert!(many.strength() < rows(&[1.0, 4.0, 2.0, 3.0]).strength());
    }
}

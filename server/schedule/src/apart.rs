//! Were the same rows answered alike in two runs? What differs, by how much, and whether rounding explains it. Pure.
//!
//! A label is the place of the largest of some numbers. Where the two largest are nearly equal, rounding decides, and
//! the labels of two right answers are no nearer to each other than any others. Such a tie is told from a model whose
//! answers follow the number of rows by what tiny changes of the row itself do: they change the label as well.

use std::sync::Arc;

use backend::{DataType, NamedTensor, Tensor, distance};

/// Where other values in other rows change nothing, a row alone may differ by so much: a graph that rounds inside, such
/// as one that is quantised, makes a step of a difference in the last bit.
pub const ROUNDED: f64 = 0.05;

/// So often a row is nudged. One nudge in two or so decides a tie the other way.
pub const NUDGES: u32 = 10;

/// A nudge is this part of what the order of sums explains, in the type of the input.
const NUDGE: f64 = 0.125;

/// Of the elements of an output that differ all but one in so many have to be ties.
const MOST: usize = 8;

/// How far two answers to the same rows are apart in the output where they are most.
#[derive(Debug, Clone, PartialEq)]
pub struct Apart {
    /// The output.
    pub output: Arc<str>,
    /// The difference as a part of a number: of which, [`Beside`] says.
    pub distance: f64,
}

/// Beside what a difference is large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// The largest number of the output: rounding in another order of sums is as large as the terms, which may cancel.
    Largest,
    /// Each number itself: for runs in which nothing is added in another order.
    Itself,
}

/// So many rows of each of these tensors; `None` where one has not as many.
pub fn rows_of(tensors: &[NamedTensor], from: usize, rows: usize) -> Option<Vec<NamedTensor>> {
    let slice = |it: &NamedTensor| {
        let tensor = it.tensor.slice_rows(from, rows)?;
        Some(NamedTensor { name: it.name.clone(), tensor })
    };
    tensors.iter().map(slice).collect()
}

/// The output in which two answers to the same rows differ most, if one differs by more than the order of sums
/// explains. An output that the other answer does not have is infinitely far.
pub fn apart(one: &[NamedTensor], other: &[NamedTensor], beside: Beside) -> Option<Apart> {
    let each = one.iter().map(|a| {
        let b = other.iter().find(|it| it.name == a.name);
        let distance = b.map_or(f64::INFINITY, |b| match beside {
            Beside::Largest => distance::distance(&a.tensor, &b.tensor),
            Beside::Itself => distance::of_elements(&a.tensor, &b.tensor),
        });
        (a, distance)
    });
    let real = each.filter(|(a, distance)| distance::noise(a.tensor.dtype()) < *distance);
    let (output, distance) = real.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Apart { output: output.name.clone(), distance })
}

/// The row with its floats changed by as little as rounding may change what is made of them, in another way for each
/// `turn`. `None` where there are none to change. Whole numbers are left alone: they may be indices or counts.
pub fn nudged(inputs: &[NamedTensor], turn: u32) -> Option<Vec<NamedTensor>> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(turn);
    let mut sign = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { 1.0 } else { -1.0 }
    };
    // So that the first signs differ from turn to turn.
    (0..4).for_each(|_| {
        sign();
    });
    let mut has_changed = false;
    let changed: Vec<NamedTensor> = inputs
        .iter()
        .map(|it| {
            let dtype = it.tensor.dtype();
            // A graph may compute in fewer bits than it takes.
            let size = NUDGE * distance::noise(dtype).max(distance::noise(DataType::Fp32));
            let tensor = distance::floats(&it.tensor).and_then(|values| {
                let nudge = |it: f64| match it.fract() == 0.0 || !it.is_finite() {
                    true => it,
                    false => it * (1.0 + size * sign()),
                };
                let values: Vec<f64> = values.into_iter().map(nudge).collect();
                distance::of_floats(dtype, it.tensor.shape().clone(), &values)
            });
            let tensor = tensor.filter(|tensor| tensor.to_bytes() != it.tensor.to_bytes());
            has_changed |= tensor.is_some();
            NamedTensor {
                name: it.name.clone(),
                tensor: tensor.unwrap_or_else(|| it.tensor.clone()),
            }
        })
        .collect();
    has_changed.then_some(changed)
}

/// Is what differs in two answers to a row, `alone` and `other`, what nudges of the row change as well? Those are the
/// answers to it, nudged and alone. Each output is judged by itself: ties in one excuse nothing in another. One that
/// differs by no more than [`ROUNDED`] is none that ties have to explain.
pub fn is_tie(alone: &[NamedTensor], other: &[NamedTensor], nudges: &[Vec<NamedTensor>]) -> bool {
    for a in alone {
        let of = |answer: &[NamedTensor]| {
            answer.iter().find(|it| it.name == a.name).map(|it| it.tensor.clone())
        };
        let has_shape =
            |it: &Tensor| it.dtype() == a.tensor.dtype() && it.shape() == a.tensor.shape();
        let Some(b) = of(other).filter(has_shape) else { return false };
        if distance::distance(&a.tensor, &b) <= ROUNDED {
            continue;
        }
        let nudged: Vec<Elements> = nudges
            .iter()
            .filter_map(|it| of(it).filter(has_shape).map(|it| Elements::of(&it)))
            .collect();
        let (one, other) = (Elements::of(&a.tensor), Elements::of(&b));
        let differing = one.unlike(&other, distance::noise(a.tensor.dtype()));
        let is_tie = |at: &&usize| nudged.iter().any(|it| one.is_moved(&other, it, **at));
        if differing.iter().filter(is_tie).count() + differing.len() / MOST < differing.len() {
            return false;
        }
    }
    true
}

/// The elements of a tensor: measured, or only told apart.
enum Elements {
    Floats(Vec<f64>),
    Others(Vec<Vec<u8>>),
}

impl Elements {
    fn of(tensor: &Tensor) -> Elements {
        if let Some(values) = distance::floats(tensor) {
            return Elements::Floats(values);
        }
        Elements::Others(match tensor.dtype().size() {
            Some(size) => tensor.to_bytes().chunks_exact(size.max(1)).map(<[u8]>::to_vec).collect(),
            None => tensor.strings().map(<[u8]>::to_vec).collect(),
        })
    }

    /// The places of those that are not alike, floats by more than so large a part of the largest.
    fn unlike(&self, other: &Elements, noise: f64) -> Vec<usize> {
        match (self, other) {
            (Elements::Floats(a), Elements::Floats(b)) => {
                let finite = a.iter().chain(b).filter(|it| it.is_finite());
                let scale = finite.fold(0.0, |most: f64, it| most.max(it.abs()));
                let is_near = |a: f64, b: f64| {
                    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= noise * scale
                };
                (0..a.len().min(b.len())).filter(|at| !is_near(a[*at], b[*at])).collect()
            }
            (Elements::Others(a), Elements::Others(b)) => {
                (0..a.len().min(b.len())).filter(|at| a[*at] != b[*at]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Has a nudge changed the element at that place by about as much as the other answer differs?
    fn is_moved(&self, other: &Elements, nudged: &Elements, at: usize) -> bool {
        match (self, other, nudged) {
            (Elements::Floats(a), Elements::Floats(b), Elements::Floats(c)) => {
                match (a.get(at), b.get(at), c.get(at)) {
                    (Some(a), Some(b), Some(c)) => {
                        let (found, moved) = ((a - b).abs(), (a - c).abs());
                        found <= 2.0 * moved || (found.is_nan() && moved.is_nan())
                    }
                    _ => false,
                }
            }
            (Elements::Others(a), _, Elements::Others(c)) => a.get(at) != c.get(at),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use backend::Shape;

    use super::*;

    fn named(name: &str, tensor: Tensor) -> NamedTensor {
        NamedTensor { name: name.into(), tensor }
    }

    fn floats(values: &[f32]) -> NamedTensor {
        let shape = Shape::new(&[1, values.len()]);
        named("y", Tensor::from_vec(shape, values.to_vec()).unwrap())
    }

    fn labels(values: &[i64]) -> NamedTensor {
        let shape = Shape::new(&[1, values.len()]);
        named("label", Tensor::from_vec(shape, values.to_vec()).unwrap())
    }

    #[test]
    fn a_small_number_that_differs_is_seen_beside_itself_and_not_beside_a_large_one() {
        let (one, other) = ([floats(&[1e6, 0.25])], [floats(&[1e6, 0.5])]);
        assert_eq!(apart(&one, &other, Beside::Largest), None);
        let found = apart(&one, &other, Beside::Itself).unwrap();
        assert_eq!((&*found.output, found.distance), ("y", 0.5));
        assert_eq!(apart(&one, &one, Beside::Itself), None);
        // Which it is not called.
        assert_eq!(apart(&one, &[], Beside::Largest).unwrap().distance, f64::INFINITY);
    }

    #[test]
    fn a_nudge_changes_floats_by_little_each_time_otherwise_and_no_whole_numbers() {
        let row = [floats(&[0.3, 5.0, -0.7, 0.1, 0.9, 0.2]), labels(&[3])];
        let values = |of: &[NamedTensor]| distance::floats(&of[0].tensor).unwrap();
        let turns: Vec<Vec<NamedTensor>> = (0..8).map(|it| nudged(&row, it).unwrap()).collect();
        for turn in &turns {
            assert!(apart(&row, turn, Beside::Itself).is_none(), "{:?}", values(turn));
            assert_eq!(
                (values(turn)[1], &turn[1].tensor.to_bytes()),
                (5.0, &row[1].tensor.to_bytes())
            );
        }
        let unlike = turns.iter().filter(|it| values(it) != values(&turns[0])).count();
        assert!(4 < unlike, "{unlike}");
        assert!(nudged(&[labels(&[3]), floats(&[0.0, 2.0, f32::NAN])], 0).is_none());
    }

    #[test]
    fn a_label_is_a_tie_where_nudges_change_it_and_else_not() {
        let answer = |label| vec![labels(&[label, 4]), floats(&[0.5])];
        let (alone, other) = (answer(1), answer(2));
        assert!(is_tie(&alone, &other, &[answer(1), answer(2)]));
        assert!(!is_tie(&alone, &other, &[answer(1), answer(1)]));
        assert!(!is_tie(&alone, &other, &[]) && is_tie(&alone, &alone, &[]));
        // Of another shape.
        assert!(!is_tie(&alone, &[labels(&[2]), floats(&[0.5])], &[answer(2)]));
        let text =
            |it: &str| vec![named("t", Tensor::from_strings(Shape::new(&[1]), [it]).unwrap())];
        assert!(is_tie(&text("cat"), &text("dog"), &[text("dog")]));
        assert!(!is_tie(&text("cat"), &text("dog"), &[text("cat")]));
    }

    #[test]
    fn ties_in_one_output_excuse_nothing_in_another() {
        let answer = |label, score| vec![labels(&[label; 16]), floats(&[score, 1.0])];
        let (alone, nudges) = (answer(1, 0.5), [answer(2, 0.5)]);
        assert!(!is_tie(&alone, &answer(2, 0.7), &nudges));
        assert!(!is_tie(&alone, &answer(1, 0.7), &nudges));
        // By as much as rounding inside of a graph makes.
        assert!(is_tie(&alone, &answer(2, 0.52), &nudges));
    }

    #[test]
    fn numbers_are_ties_where_nudges_move_them_as_far() {
        let answer = |it: f32| vec![floats(&[it, 1.0])];
        assert!(is_tie(&answer(0.5), &answer(0.6), &[answer(0.6)]));
        assert!(!is_tie(&answer(0.5), &answer(0.6), &[answer(0.501)]));
        // All but an eighth of many.
        let many = |ties: usize| -> Vec<NamedTensor> {
            let values: Vec<i64> = (0..64).map(|it| i64::from(it < ties)).collect();
            vec![labels(&values)]
        };
        assert!(is_tie(&many(0), &many(64), &[many(60)]));
        assert!(!is_tie(&many(0), &many(64), &[many(50)]));
    }
}

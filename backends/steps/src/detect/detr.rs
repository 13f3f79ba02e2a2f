//! Models that look for boxes by queries: DETR and its relatives.

use std::cmp::Ordering;

use super::{
    boxes::{Detection, corners_of},
    thresholds::Thresholds,
};
use crate::{
    error::RowError,
    head::function::{argmax, sigmoid, softmax},
    outputs::RowOutput,
};

/// How scores of queries become scores of boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// Softmax over the classes, of which the last is "nothing": one box for each query, in their order. DETR.
    Softmax,
    /// Sigmoid: the best of all pairs of query and class, as many as there are queries. RT-DETR.
    Sigmoid,
    /// The same, but at most this many. Conditional and Deformable DETR have 100.
    BestOf(usize),
}

impl Queries {
    /// By the `model_type` of a folder; `None` where it is none of those that are known.
    pub fn of_model_type(model_type: &str) -> Option<Queries> {
        match model_type {
            "detr" | "yolos" => Some(Queries::Softmax),
            "rt_detr" | "rt_detr_v2" | "d_fine" => Some(Queries::Sigmoid),
            "conditional_detr" | "deformable_detr" => Some(Queries::BestOf(100)),
            _ => None,
        }
    }

    /// Its name as the parameter `head` has it.
    pub fn name(self) -> &'static str {
        match self {
            Queries::Softmax => "detr",
            Queries::Sigmoid | Queries::BestOf(_) => "rt_detr",
        }
    }
}

/// The boxes of one image: by query with [`Queries::Softmax`], else best first. `sent` is the width and the height of
/// the image as it was sent. Corners may lie outside of it, as the reference's may.
///
/// # Errors
/// When `logits` is not `[queries, classes]` or `boxes` not `[queries, 4]`, or a value is no number.
pub fn queries(
    logits: &RowOutput<'_>,
    boxes: &RowOutput<'_>,
    kind: Queries,
    thresholds: &Thresholds,
    sent: [u32; 2],
) -> Result<Vec<Detection>, RowError> {
    let wrong =
        |output: &RowOutput<'_>, problem| RowError::Output { output: output.name.into(), problem };
    let least = if kind == Queries::Softmax { 2 } else { 1 };
    let [count, classes] = *logits.dims else {
        let problem = format!("a row has the shape {:?}, not [queries, classes]", logits.dims);
        return Err(wrong(logits, problem));
    };
    if classes < least || logits.values.len() != count * classes {
        let problem = format!("a row has the shape {:?}, without a class", logits.dims);
        return Err(wrong(logits, problem));
    }
    if *boxes.dims != [count, 4] || boxes.values.len() != count * 4 {
        let problem = format!("a row has the shape {:?}, not [{count}, 4]", boxes.dims);
        return Err(wrong(boxes, problem));
    }
    let not_a_number = |output: &RowOutput<'_>, position| RowError::NotANumber {
        output: output.name.into(),
        position,
    };
    if let Some(position) = logits.values.iter().position(|it| it.is_nan()) {
        return Err(not_a_number(logits, position));
    }
    if let Some(position) = boxes.values.iter().position(|it| !it.is_finite()) {
        return Err(not_a_number(boxes, position));
    }
    let rows = logits.values.chunks_exact(classes);
    let mut found = match kind {
        Queries::Softmax => best_classes(rows, thresholds.confidence)
            .map_err(|query| not_a_number(logits, query * classes))?,
        Queries::Sigmoid => best_pairs(rows, thresholds.confidence, count),
        Queries::BestOf(most) => best_pairs(rows, thresholds.confidence, most),
    };
    if let Some(most) = thresholds.max_detections.filter(|it| *it < found.len()) {
        // The best ones, in the order in which they are.
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by(|&a, &b| best_first(&found[a], &found[b]));
        order.truncate(most);
        order.sort_unstable();
        found = order.into_iter().map(|it| found[it]).collect();
    }
    let (by_centre, _) = boxes.values.as_chunks::<4>();
    let scale = [sent[0] as f32, sent[1] as f32];
    let detection = |it: Scored| {
        let corners = corners_of(by_centre[it.query]);
        let corners = std::array::from_fn(|at| corners[at] * scale[at % 2]);
        Detection { class: it.class, score: it.score, corners }
    };
    Ok(found.into_iter().map(detection).collect())
}

/// A class of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scored {
    score: f32,
    query: usize,
    class: usize,
}

/// Equal ones in the order in which they lie in the output.
fn best_first(a: &Scored, b: &Scored) -> Ordering {
    b.score.total_cmp(&a.score).then((a.query, a.class).cmp(&(b.query, b.class)))
}

/// The best class of each query, but for the last class; or the query whose scores are no numbers.
fn best_classes<'a>(
    rows: impl Iterator<Item = &'a [f32]>,
    confidence: f32,
) -> Result<Vec<Scored>, usize> {
    let mut found = Vec::new();
    let mut scores = Vec::new();
    for (query, logits) in rows.enumerate() {
        scores.clear();
        scores.extend_from_slice(logits);
        softmax(&mut scores);
        let class = argmax(&scores[..scores.len() - 1]);
        let score = scores[class];
        // Infinite logits have no softmax.
        if !score.is_finite() {
            return Err(query);
        }
        if score > confidence {
            found.push(Scored { score, query, class });
        }
    }
    Ok(found)
}

/// The best pairs of query and class, at most `most`.
fn best_pairs<'a>(
    rows: impl Iterator<Item = &'a [f32]>,
    confidence: f32,
    most: usize,
) -> Vec<Scored> {
    // Scores of logits well below this one are too low, whatever the rounding: no exponential is needed.
    let floor = match confidence > 1e-6 {
        true => (confidence / (1.0 - confidence).max(1e-6)).ln() - 0.01,
        false => f32::NEG_INFINITY,
    };
    let mut found = Vec::new();
    for (query, logits) in rows.enumerate() {
        for (class, logit) in logits.iter().enumerate().filter(|(_, it)| **it > floor) {
            let score = sigmoid(*logit);
            if score > confidence {
                found.push(Scored { score, query, class });
            }
        }
    }
    if found.len() > most && most > 0 {
        found.select_nth_unstable_by(most - 1, best_first);
    }
    found.truncate(most);
    found.sort_unstable_by(best_first);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOXES: [f32; 12] = [0.5, 0.5, 0.5, 0.5, 0.25, 0.5, 0.5, 1.0, 0.1, 0.1, 0.4, 0.2];

    fn run_with(
        logits: &[f32],
        boxes: &[f32],
        kind: Queries,
        thresholds: Thresholds,
    ) -> Result<Vec<Detection>, String> {
        let output = |name, dims: [usize; 2], values: &[f32]| RowOutput {
            name,
            dims: dims.to_vec(),
            values: values.to_vec().into(),
        };
        let logits = output("logits", [3, 3], logits);
        let boxes = output("pred_boxes", [boxes.len() / 4, 4], boxes);
        queries(&logits, &boxes, kind, &thresholds, [200, 100]).map_err(|it| it.to_string())
    }

    #[track_caller]
    fn check(
        logits: &[f32; 9],
        kind: Queries,
        thresholds: Thresholds,
        expect: &[(usize, [i32; 4])],
    ) {
        let found = run_with(logits, &BOXES, kind, thresholds).unwrap();
        let found: Vec<_> = found.iter().map(|it| (it.class, it.whole_corners())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_softmax_gives_each_query_its_best_class_in_their_order() {
        let logits = [2.0, 5.0, 0.0, 9.0, 0.0, 0.0, 0.0, 1.0, 9.0];
        let both = [(1, [50, 25, 150, 75]), (0, [0, 0, 100, 100])];
        check(&logits, Queries::Softmax, Thresholds::QUERIES, &both);
        let one = Thresholds { max_detections: Some(1), ..Thresholds::QUERIES };
        check(&logits, Queries::Softmax, one, &both[1..]);
    }

    #[test]
    fn a_sigmoid_gives_the_best_pairs_of_query_and_class() {
        let logits = [2.0, 5.0, -1.0, 9.0, -9.0, 0.0, 0.0, 0.0, 4.0];
        let (first, second, third) = ([50, 25, 150, 75], [0, 0, 100, 100], [-20, 0, 60, 20]);
        let all = [(0, second), (1, first), (2, third), (0, first)];
        // As many as there are queries.
        check(&logits, Queries::Sigmoid, Thresholds::QUERIES, &all[..3]);
        check(&logits, Queries::BestOf(100), Thresholds::QUERIES, &all);
        check(&logits, Queries::BestOf(1), Thresholds::QUERIES, &all[..1]);
        let sure = Thresholds { confidence: 0.99, ..Thresholds::QUERIES };
        check(&logits, Queries::BestOf(100), sure, &all[..2]);
        let few = Thresholds { max_detections: Some(2), ..Thresholds::QUERIES };
        check(&logits, Queries::Sigmoid, few, &all[..2]);
    }

    #[test]
    fn a_score_must_be_above_the_threshold() {
        let logits = [0.0; 9];
        check(&logits, Queries::Sigmoid, Thresholds::QUERIES, &[]);
        let lower = Thresholds { confidence: 0.499, ..Thresholds::QUERIES };
        // Of equal ones the first.
        let third = [-20, 0, 60, 20];
        let found = run_with(&logits, &BOXES, Queries::Sigmoid, lower).unwrap();
        assert_eq!(found.iter().map(|it| it.class).collect::<Vec<_>>(), [0, 1, 2]);
        let zero = Thresholds { confidence: 0.0, ..Thresholds::QUERIES };
        let found = run_with(&[-20.0; 9], &BOXES, Queries::BestOf(9), zero).unwrap();
        assert_eq!((found.len(), found[8].whole_corners()), (9, third));
    }

    #[test]
    fn what_is_no_number_or_of_another_shape_is_named() {
        let usual = |logits: &[f32], boxes: &[f32], kind| {
            run_with(logits, boxes, kind, Thresholds::QUERIES).unwrap_err()
        };
        let mut logits = [0.0; 9];
        logits[4] = f32::NAN;
        let text = "the model's output 'logits' is not a number at position 4";
        assert_eq!(usual(&logits, &BOXES, Queries::Sigmoid), text);
        logits[4] = f32::INFINITY;
        let text = "the model's output 'logits' is not a number at position 3";
        assert_eq!(usual(&logits, &BOXES, Queries::Softmax), text);
        let mut boxes = BOXES;
        boxes[5] = f32::NAN;
        let text = "the model's output 'pred_boxes' is not a number at position 5";
        assert_eq!(usual(&[0.0; 9], &boxes, Queries::Softmax), text);
        let text = "the model's output 'pred_boxes': a row has the shape [2, 4], not [3, 4]";
        assert_eq!(usual(&[0.0; 9], &BOXES[..8], Queries::Softmax), text);
    }
}

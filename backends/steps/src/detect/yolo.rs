//! The output of one of Ultralytics' models to boxes.

use super::{
    boxes::{Detection, Placed, corners_of},
    layout::Layout,
    nms::{Candidate, most, suppress},
    thresholds::Thresholds,
};
use crate::{error::RowError, outputs::RowOutput};

/// Boxes whose classes are compared at a time: their best scores stay in the processor's nearest cache.
const BLOCK: usize = 1024;

/// The boxes of one image, best first; those of a graph that removes overlaps itself in its order.
///
/// # Errors
/// When the row has not the shape of the layout, a value is no number, or a class does not exist.
pub fn yolo(
    output: &RowOutput<'_>,
    layout: Layout,
    thresholds: &Thresholds,
    letterbox: &Placed,
) -> Result<Vec<Detection>, RowError> {
    let candidates = match layout {
        Layout::Yolo { classes } => side_by_side(output, classes, thresholds.confidence)?,
        Layout::YoloV5 { classes } => box_by_box(output, classes, thresholds.confidence)?,
        Layout::EndToEnd { classes } => end_to_end(output, classes, thresholds, |it| it)?,
        Layout::BestQueries { classes } => {
            end_to_end(output, Some(classes), thresholds, corners_of)?
        }
        Layout::QueryScores { classes } => query_scores(output, classes, thresholds)?,
    };
    let (kept, is_of_image) = match layout {
        Layout::EndToEnd { .. } => (candidates, false),
        Layout::Yolo { .. } | Layout::YoloV5 { .. } => (suppress(candidates, thresholds), false),
        Layout::BestQueries { .. } | Layout::QueryScores { .. } => (candidates, true),
    };
    let sent = letterbox.sent.map(|it| it as f32);
    let detection = |it: Candidate| Detection {
        class: it.class as usize,
        score: it.score,
        corners: match is_of_image {
            // Shares of the image, which the reference does not cut at its borders.
            true => std::array::from_fn(|at| it.corners[at] * sent[at % 2]),
            false => letterbox.back(it.corners),
        },
    };
    Ok(kept.into_iter().map(detection).collect())
}

fn wrong(output: &RowOutput<'_>, problem: String) -> RowError {
    RowError::Output { output: output.name.to_owned(), problem }
}

/// Boxes and numbers of each; fails unless the row has this many numbers for each box.
fn sides(output: &RowOutput<'_>, numbers: usize, at: usize) -> Result<usize, RowError> {
    match *output.dims {
        [first, second]
            if [first, second][at] == numbers && output.values.len() == first * second =>
        {
            Ok([second, first][at])
        }
        _ => {
            let expected = ["[numbers, boxes]", "[boxes, numbers]"][at];
            let problem = format!(
                "a row has the shape {:?}, not {expected} with {numbers} numbers for a box",
                output.dims
            );
            Err(wrong(output, problem))
        }
    }
}

fn check_nan(output: &RowOutput<'_>) -> Result<(), RowError> {
    // Without an early end, so that it is done for many values at once.
    let chunks = output.values.chunks(BLOCK);
    for (at, chunk) in chunks.enumerate() {
        if chunk.iter().fold(false, |found, it| found | it.is_nan()) {
            let within = chunk.iter().position(|it| it.is_nan()).unwrap_or_default();
            return Err(not_a_number(output, at * BLOCK + within));
        }
    }
    Ok(())
}

fn not_a_number(output: &RowOutput<'_>, position: usize) -> RowError {
    RowError::NotANumber { output: output.name.to_owned(), position }
}

/// A box that is a candidate has finite numbers only; infinite ones elsewhere are of no concern.
fn candidate(
    output: &RowOutput<'_>,
    (score, class): (f32, u32),
    corners: [f32; 4],
    position: usize,
) -> Result<Candidate, RowError> {
    match score.is_finite() && corners.iter().all(|it| it.is_finite()) {
        true => Ok(Candidate { score, class, corners }),
        false => Err(not_a_number(output, position)),
    }
}

/// `[4 + classes, boxes]`: the best class of each box.
fn side_by_side(
    output: &RowOutput<'_>,
    classes: usize,
    confidence: f32,
) -> Result<Vec<Candidate>, RowError> {
    let count = sides(output, 4 + classes, 0)?;
    check_nan(output)?;
    let row = |number: usize| &output.values[number * count..(number + 1) * count];
    let mut found = Vec::new();
    let (mut best, mut best_class) = ([0.0f32; BLOCK], [0u32; BLOCK]);
    for from in (0..count).step_by(BLOCK) {
        let width = BLOCK.min(count - from);
        let (best, best_class) = (&mut best[..width], &mut best_class[..width]);
        best.copy_from_slice(&row(4)[from..from + width]);
        best_class.fill(0);
        for class in 1..classes {
            let scores = &row(4 + class)[from..from + width];
            for ((best, best_class), score) in best.iter_mut().zip(&mut *best_class).zip(scores) {
                let is_better = *score > *best;
                *best = if is_better { *score } else { *best };
                *best_class = if is_better { class as u32 } else { *best_class };
            }
        }
        for (at, score) in best.iter().enumerate().filter(|(_, it)| **it > confidence) {
            let place = from + at;
            let corners = corners_of(std::array::from_fn(|side| row(side)[place]));
            found.push(candidate(output, (*score, best_class[at]), corners, place)?);
        }
    }
    Ok(found)
}

/// `[boxes, 5 + classes]`: objectness times the score of the best class. The objectness alone must be high enough, too.
fn box_by_box(
    output: &RowOutput<'_>,
    classes: usize,
    confidence: f32,
) -> Result<Vec<Candidate>, RowError> {
    let numbers = 5 + classes;
    sides(output, numbers, 1)?;
    check_nan(output)?;
    let mut found = Vec::new();
    for (at, one) in output.values.chunks_exact(numbers).enumerate() {
        let [x, y, width, height, objectness, ref scores @ ..] = *one else { continue };
        if objectness <= confidence {
            continue;
        }
        let mut best = (f32::NEG_INFINITY, 0);
        for (class, score) in (0..).zip(scores) {
            let score = objectness * score;
            if score > best.0 {
                best = (score, class);
            }
        }
        if best.0 > confidence {
            let corners = corners_of([x, y, width, height]);
            found.push(candidate(output, best, corners, at * numbers)?);
        }
    }
    Ok(found)
}

/// `[queries, 4 + classes]`: the best class of each, best first.
fn query_scores(
    output: &RowOutput<'_>,
    classes: usize,
    thresholds: &Thresholds,
) -> Result<Vec<Candidate>, RowError> {
    let numbers = 4 + classes;
    sides(output, numbers, 1)?;
    check_nan(output)?;
    let mut found = Vec::new();
    for (at, one) in output.values.chunks_exact(numbers).enumerate() {
        let [x, y, width, height, ref scores @ ..] = *one else { continue };
        let mut best = (f32::NEG_INFINITY, 0);
        for (class, score) in (0..).zip(scores) {
            if *score > best.0 {
                best = (*score, class);
            }
        }
        if best.0 > thresholds.confidence {
            let corners = corners_of([x, y, width, height]);
            found.push(candidate(output, best, corners, at * numbers)?);
        }
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(most(thresholds));
    Ok(found)
}

/// `[boxes, 6]`: those whose score is high enough. `corners` makes corners of the first four numbers.
fn end_to_end(
    output: &RowOutput<'_>,
    classes: Option<usize>,
    thresholds: &Thresholds,
    corners: impl Fn([f32; 4]) -> [f32; 4],
) -> Result<Vec<Candidate>, RowError> {
    sides(output, 6, 1)?;
    check_nan(output)?;
    let mut found = Vec::new();
    let (rows, _) = output.values.as_chunks::<6>();
    let confident = rows.iter().enumerate().filter(|(_, it)| it[4] > thresholds.confidence);
    for (at, &[a, b, c, d, score, class]) in confident.take(most(thresholds)) {
        // The largest number up to which single precision has all of them.
        let limit = classes.unwrap_or(1 << 24) as f32;
        if !(0.0..limit).contains(&class) {
            let there = classes.map_or(String::new(), |it| format!(" of {it} classes"));
            return Err(wrong(output, format!("box {at} has class {class}{there}")));
        }
        let corners = corners([a, b, c, d]);
        found.push(candidate(output, (score, class as u32), corners, at * 6)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTERBOX: Placed = Placed { gain: [0.5, 0.5], padding: [0.0, 10.0], sent: [100, 60] };

    #[track_caller]
    fn run(dims: [usize; 2], values: &[f32], layout: Layout) -> Result<Vec<Detection>, String> {
        let output =
            RowOutput { name: "output0", dims: dims.to_vec(), values: values.to_vec().into() };
        yolo(&output, layout, &Thresholds::YOLO, &LETTERBOX).map_err(|it| it.to_string())
    }

    fn of(class: usize, score: f32, corners: [f32; 4]) -> Detection {
        Detection { class, score, corners }
    }

    #[test]
    fn each_layout_gives_the_same_boxes() {
        // Two boxes that overlap, one below the threshold; the second class of the first two.
        #[rustfmt::skip]
        let by_side = [
            10.0, 11.0, 30.0,
            20.0, 20.0, 20.0,
            8.0, 8.0, 4.0,
            8.0, 8.0, 4.0,
            0.1, 0.2, 0.2,
            0.5, 0.75, 0.25,
        ];
        let expected = vec![of(1, 0.75, [14.0, 12.0, 30.0, 28.0])];
        let layout = Layout::Yolo { classes: 2 };
        assert_eq!(run([6, 3], &by_side, layout), Ok(expected.clone()));
        #[rustfmt::skip]
        let by_box = [
            10.0, 20.0, 8.0, 8.0, 0.5, 0.2, 1.0,
            11.0, 20.0, 8.0, 8.0, 1.0, 0.2, 0.75,
            30.0, 20.0, 4.0, 4.0, 0.25, 1.0, 1.0,
        ];
        let layout = Layout::YoloV5 { classes: 2 };
        assert_eq!(run([3, 7], &by_box, layout), Ok(expected.clone()));
        let ready = [7.0, 16.0, 15.0, 24.0, 0.75, 1.0, 0.0, 0.0, 9.0, 9.0, 0.2, 0.0];
        let layout = Layout::EndToEnd { classes: Some(2) };
        assert_eq!(run([2, 6], &ready, layout), Ok(expected));
    }

    #[test]
    fn boxes_of_rt_detr_are_shares_of_the_image_as_it_was_sent() {
        // The image is 100 x 60, however it lies in the input.
        let expected =
            vec![of(1, 0.9, [30.0, 15.0, 70.0, 45.0]), of(0, 0.8, [-5.0, 15.0, 15.0, 45.0])];
        #[rustfmt::skip]
        let scores = [
            0.05, 0.5, 0.2, 0.5, 0.8, 0.1, 0.1,
            0.5, 0.5, 0.4, 0.5, 0.05, 0.9, 0.1,
            0.5, 0.5, 0.4, 0.5, 0.2, 0.1, 0.1,
        ];
        let near = |found: Vec<Detection>| {
            let is_near = |(a, b): (&Detection, &Detection)| {
                a.class == b.class
                    && a.score == b.score
                    && a.corners.iter().zip(b.corners).all(|(a, b)| (a - b).abs() < 1e-4)
            };
            found.len() == 2 && found.iter().zip(&expected).all(is_near)
        };
        let layout = Layout::QueryScores { classes: 3 };
        assert!(near(run([3, 7], &scores, layout).unwrap()));
        #[rustfmt::skip]
        let best = [
            0.5, 0.5, 0.4, 0.5, 0.9, 1.0,
            0.05, 0.5, 0.2, 0.5, 0.8, 0.0,
            0.5, 0.5, 0.4, 0.5, 0.2, 2.0,
        ];
        let layout = Layout::BestQueries { classes: 3 };
        assert!(near(run([3, 6], &best, layout).unwrap()));
        assert!(run([3, 6], &best, Layout::BestQueries { classes: 1 }).is_err());
        assert!(run([2, 9], &best, layout).is_err());
    }

    #[test]
    fn the_best_class_is_found_in_every_block() {
        let (classes, count) = (3, 2 * BLOCK + 5);
        let mut values = vec![0.0; (4 + classes) * count];
        let places = [(0, 2), (BLOCK - 1, 0), (BLOCK, 1), (count - 1, 2)];
        for (at, &(place, class)) in places.iter().enumerate() {
            values[place] = 5.0 + 10.0 * at as f32;
            values[count + place] = 20.0;
            values[2 * count + place] = 4.0;
            values[3 * count + place] = 4.0;
            values[(4 + class) * count + place] = 0.9 - 0.1 * at as f32;
        }
        let found = run([4 + classes, count], &values, Layout::Yolo { classes }).unwrap();
        let found: Vec<(usize, f32)> = found.iter().map(|it| (it.class, it.corners[0])).collect();
        assert_eq!(found, [(2, 6.0), (0, 26.0), (1, 46.0), (2, 66.0)]);
    }

    #[test]
    fn a_graph_that_removes_overlaps_keeps_its_order() {
        let ready = [0.0, 10.0, 5.0, 15.0, 0.5, 0.0, 0.0, 10.0, 5.0, 15.0, 0.75, 0.0];
        let found = run([2, 6], &ready, Layout::EndToEnd { classes: None }).unwrap();
        assert_eq!(found.iter().map(|it| it.score).collect::<Vec<_>>(), [0.5, 0.75]);
    }

    #[test]
    fn what_is_no_number_is_named() {
        let mut values = vec![0.0; 6 * 3000];
        values[5 * 3000 + 7] = f32::NAN;
        let text = "the model's output 'output0' is not a number at position 15007";
        let layout = Layout::Yolo { classes: 2 };
        assert_eq!(run([6, 3000], &values, layout), Err(text.to_owned()));
        let infinite = [f32::INFINITY, 20.0, 8.0, 8.0, 1.0, 1.0];
        assert!(run([1, 6], &infinite, Layout::YoloV5 { classes: 1 }).is_err());
        let infinite = [0.0, 0.0, 0.0, 0.0, f32::INFINITY, 1.0];
        assert!(run([1, 6], &infinite, Layout::EndToEnd { classes: None }).is_err());
    }

    #[test]
    fn a_class_that_does_not_exist_is_an_error() {
        for (class, text) in [(2.0, "box 0 has class 2 of 2 classes"), (-1.0, "box 0 has class -1")]
        {
            let values = [0.0, 0.0, 1.0, 1.0, 0.9, class];
            let error = run([1, 6], &values, Layout::EndToEnd { classes: Some(2) }).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn another_shape_than_that_of_the_layout_is_an_error() {
        let text = "the model's output 'output0': a row has the shape [3, 6], not [numbers, boxes] with 6 numbers for \
                    a box";
        assert_eq!(run([3, 6], &[0.0; 18], Layout::Yolo { classes: 2 }), Err(text.to_owned()));
        assert!(run([2, 6], &[0.0; 6], Layout::EndToEnd { classes: None }).is_err());
        assert_eq!(run([6, 0], &[], Layout::Yolo { classes: 2 }), Ok(vec![]));
    }
}

//! Non-maximum suppression: of boxes that overlap the best one stays.

use super::thresholds::{MOST_DETECTIONS, Thresholds};

/// Boxes that are looked at, the best ones.
const MOST_CANDIDATES: usize = 30_000;
/// Boxes that are kept where nothing is said.
const USUAL_DETECTIONS: usize = 300;
/// Boxes of different classes are moved apart by this many pixels for each class.
const CLASS_OFFSET: f32 = 7680.0;

/// A box in the graph's input whose score is high enough. All its numbers are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) score: f32,
    pub(super) class: u32,
    pub(super) corners: [f32; 4],
}

/// How many boxes are kept at most.
pub(super) fn most(thresholds: &Thresholds) -> usize {
    thresholds.max_detections.unwrap_or(USUAL_DETECTIONS).min(MOST_DETECTIONS)
}

/// Those that stay, best first, equal ones in the order in which they come.
///
/// Each is compared with those that were kept before it, so the cost is at most that of 30,000 × `max_detections`
/// comparisons.
pub(super) fn suppress(mut candidates: Vec<Candidate>, thresholds: &Thresholds) -> Vec<Candidate> {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    candidates.truncate(MOST_CANDIDATES);
    let most = most(thresholds);
    let limit = first_above(thresholds.iou);
    let offset = if thresholds.agnostic { 0.0 } else { CLASS_OFFSET };
    let (mut kept, mut areas) = (Vec::new(), Areas::default());
    for candidate in candidates {
        if kept.len() >= most {
            break;
        }
        let corners = candidate.corners.map(|it| it + candidate.class as f32 * offset);
        if areas.overlap(corners, limit) {
            continue;
        }
        areas.push(corners);
        kept.push(candidate);
    }
    kept
}

/// The smallest number of single precision above `limit`: `it > limit` in double precision is `it >= first_above`.
fn first_above(limit: f64) -> f32 {
    let near = limit as f32;
    if f64::from(near) > limit { near } else { near.next_up() }
}

fn area([left, top, right, bottom]: [f32; 4]) -> f32 {
    (right - left) * (bottom - top)
}

/// Boxes that were kept, side by side in memory.
#[derive(Debug, Default)]
struct Areas {
    corners: [Vec<f32>; 4],
    areas: Vec<f32>,
}

impl Areas {
    fn push(&mut self, corners: [f32; 4]) {
        for (all, one) in self.corners.iter_mut().zip(corners) {
            all.push(one);
        }
        self.areas.push(area(corners));
    }

    /// Does one of them share so much with this box?
    fn overlap(&self, corners: [f32; 4], limit: f32) -> bool {
        let own = area(corners);
        let [left, top, right, bottom] = corners;
        let [lefts, tops, rights, bottoms] = &self.corners;
        let count = self.areas.len();
        let (lefts, tops) = (&lefts[..count], &tops[..count]);
        let (rights, bottoms) = (&rights[..count], &bottoms[..count]);
        let shares = |at: usize| {
            let width = (rights[at].min(right) - lefts[at].max(left)).max(0.0);
            let height = (bottoms[at].min(bottom) - tops[at].max(top)).max(0.0);
            let shared = width * height;
            shared / (self.areas[at] + own - shared) >= limit
        };
        // In blocks without a branch inside, which the compiler makes several comparisons at once of.
        const BLOCK: usize = 16;
        let whole = count - count % BLOCK;
        for from in (0..whole).step_by(BLOCK) {
            if (from..from + BLOCK).fold(false, |found, at| found | shares(at)) {
                return true;
            }
        }
        (whole..count).any(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(score: f32, class: u32, corners: [f32; 4]) -> Candidate {
        Candidate { score, class, corners }
    }

    #[track_caller]
    fn check(candidates: &[Candidate], thresholds: Thresholds, expect: &[usize]) {
        let kept = suppress(candidates.to_vec(), &thresholds);
        let expected: Vec<Candidate> = expect.iter().map(|&it| candidates[it]).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn of_boxes_that_overlap_the_best_stays() {
        let boxes = [
            of(0.5, 0, [0.0, 0.0, 10.0, 10.0]),
            of(0.9, 0, [1.0, 0.0, 11.0, 10.0]),
            of(0.4, 0, [50.0, 0.0, 60.0, 10.0]),
            of(0.8, 1, [1.0, 0.0, 11.0, 10.0]),
        ];
        check(&boxes, Thresholds::YOLO, &[1, 3, 2]);
        check(&boxes, Thresholds { agnostic: true, ..Thresholds::YOLO }, &[1, 2]);
        check(&boxes, Thresholds { iou: 0.9, ..Thresholds::YOLO }, &[1, 3, 0, 2]);
        check(&boxes, Thresholds { max_detections: Some(2), ..Thresholds::YOLO }, &[1, 3]);
        check(&boxes, Thresholds { max_detections: Some(0), ..Thresholds::YOLO }, &[]);
    }

    #[test]
    fn a_box_that_is_suppressed_suppresses_none() {
        let row = |from: f32, score| of(score, 0, [from, 0.0, from + 10.0, 10.0]);
        let boxes = [row(0.0, 0.9), row(4.0, 0.8), row(8.0, 0.7)];
        check(&boxes, Thresholds { iou: 0.4, ..Thresholds::YOLO }, &[0, 2]);
    }

    #[test]
    fn an_overlap_that_is_just_the_limit_is_allowed() {
        let boxes = [of(0.9, 0, [0.0, 0.0, 10.0, 10.0]), of(0.8, 0, [0.0, 0.0, 10.0, 5.0])];
        check(&boxes, Thresholds { iou: 0.5, ..Thresholds::YOLO }, &[0, 1]);
        check(&boxes, Thresholds { iou: 0.499, ..Thresholds::YOLO }, &[0]);
        // 0.6 is greater in single precision than in double.
        assert_eq!(first_above(0.6), 0.6);
        assert!(first_above(0.5) > 0.5 && first_above(0.7) > 0.7);
    }

    #[test]
    fn empty_boxes_do_not_overlap() {
        let boxes = [of(0.9, 0, [5.0; 4]), of(0.8, 0, [5.0; 4])];
        check(&boxes, Thresholds::YOLO, &[0, 1]);
    }

    #[test]
    fn blocks_and_what_is_left_of_them_are_compared() {
        let far = |at: usize| of(0.9, 0, [at as f32 * 20.0, 0.0, at as f32 * 20.0 + 10.0, 10.0]);
        for count in [15, 16, 17, 33] {
            let mut boxes: Vec<Candidate> = (0..count).map(far).collect();
            let expected: Vec<usize> = (0..count).collect();
            boxes.extend((0..count).map(|at| Candidate { score: 0.5, ..far(at) }));
            check(&boxes, Thresholds::YOLO, &expected);
        }
    }
}

//! What it costs to make boxes of a detector's output: `cargo bench -p backend-steps --bench detect`.
//!
//! Each line is the median and the 95th percentile of 300 calls. 84 × 8,400 numbers are those of a model of
//! Ultralytics for 640 × 640 pixels and 80 classes; 300 boxes of it are candidates, most of which overlap others.

use std::{hint::black_box, time::Instant};

use backend_steps::{
    RowOutput,
    detect::{Detection, Layout, Placed, Queries, Thresholds, queries, yolo},
};

const CLASSES: usize = 80;

/// Numbers that look random, the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// Boxes with their scores for all classes: `candidates` of them have one above the threshold.
fn boxes(count: usize, candidates: usize) -> Vec<[f32; 4 + CLASSES]> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut one = |is_candidate: bool| {
        let mut numbers = [0.0; 4 + CLASSES];
        // Around 36 places, and of about one size.
        numbers[0] = 100.0 * (6.0 * noise.next()).floor() + 10.0 * noise.next();
        numbers[1] = 100.0 * (6.0 * noise.next()).floor() + 10.0 * noise.next();
        numbers[2] = 80.0 + 20.0 * noise.next();
        numbers[3] = 80.0 + 20.0 * noise.next();
        numbers[4..].iter_mut().for_each(|it| *it = 0.2 * noise.next());
        if is_candidate {
            numbers[4 + (4.0 * noise.next()) as usize] = 0.3 + 0.7 * noise.next();
        }
        numbers
    };
    (0..count).map(|at| one(at * candidates / count != (at + 1) * candidates / count)).collect()
}

fn output(name: &str, dims: [usize; 2], values: Vec<f32>) -> RowOutput<'_> {
    RowOutput { name, dims: dims.to_vec(), values: values.into() }
}

fn measure(what: &str, mut run: impl FnMut() -> Vec<Detection>) {
    let found = run().len();
    let mut times: Vec<_> = (0..300)
        .map(|_| {
            let begin = Instant::now();
            black_box(run());
            begin.elapsed()
        })
        .collect();
    times.sort();
    println!("{what:<44} {found:>4} boxes {:>9.1?} {:>9.1?}", times[150], times[285]);
}

fn main() {
    let letterbox = Placed::of([1920, 1080], [640, 640]);
    let thresholds = Thresholds::YOLO;
    for candidates in [0, 300, 3_000, 8_400] {
        let boxes = boxes(8_400, candidates);
        let by_number = (0..4 + CLASSES).flat_map(|at| boxes.iter().map(move |it| it[at]));
        let row = output("output0", [4 + CLASSES, 8_400], by_number.collect());
        let layout = Layout::Yolo { classes: CLASSES };
        let run = || yolo(&row, layout, &thresholds, &letterbox).unwrap_or_default();
        measure(&format!("yolo [84, 8400], {candidates} candidates"), run);
    }
    let boxes = boxes(25_200, 300);
    let with_objectness =
        boxes.iter().flat_map(|it| it[..4].iter().chain([&1.0]).chain(&it[4..]).copied());
    let row = output("output0", [25_200, 5 + CLASSES], with_objectness.collect());
    let layout = Layout::YoloV5 { classes: CLASSES };
    let run = || yolo(&row, layout, &thresholds, &letterbox).unwrap_or_default();
    measure("yolo_v5 [25200, 85], 300 candidates", run);

    let mut noise = Noise(42);
    let numbers = (0..300 * 91).map(|_| 8.0 * noise.next() - 7.0).collect();
    let (logits, corners) = (output("logits", [300, 91], numbers), vec![0.25; 300 * 4]);
    let corners = output("pred_boxes", [300, 4], corners);
    for kind in [Queries::Softmax, Queries::Sigmoid] {
        let run = || {
            let thresholds = &Thresholds::QUERIES;
            queries(&logits, &corners, kind, thresholds, [1920, 1080]).unwrap_or_default()
        };
        measure(&format!("{} [300, 91]", kind.name()), run);
    }
}

//! Boxes of detectors: those of the object-detection pipeline and of Ultralytics' rules, equal as integers.

use std::fs;

use backend_steps::detect::{Detection, Layout, Placed, Queries, Thresholds, queries, yolo};
use serde_json::Value;

use crate::fixture::{numbers, output, root};

const NAMES: [&str; 5] = ["cat", "dog", "remote control", "naïve café", "tie"];

/// The lines of a fixture, each with its row.
fn cases(name: &str) -> Vec<(Value, Value)> {
    let text = fs::read_to_string(root().join(name).join("expected.jsonl")).unwrap();
    let mut row = Value::Null;
    let lines = text.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    lines
        .map(|line| {
            if let Some(rows) = line.get("rows") {
                row = rows[0].clone();
            }
            (line, row.clone())
        })
        .collect()
}

fn pair(value: &Value) -> [f64; 2] {
    [0, 1].map(|at| value[at].as_f64().unwrap())
}

fn size(row: &Value) -> [u32; 2] {
    pair(&row["size"]).map(|it| it as u32)
}

/// The parameters of a line over what is usual.
fn thresholds(line: &Value, usual: Thresholds) -> Thresholds {
    let given = &line["parameters"];
    let confidence = given.get("threshold").or_else(|| given.get("confidence"));
    Thresholds {
        confidence: confidence.map_or(usual.confidence, |it| it.as_f64().unwrap() as f32),
        iou: given.get("iou").map_or(usual.iou, |it| it.as_f64().unwrap()),
        max_detections: given.get("max_detections").map(|it| it.as_u64().unwrap() as usize),
        agnostic: given.get("agnostic").is_some_and(|it| it.as_bool().unwrap()),
    }
}

#[track_caller]
fn assert_equal(found: &[Detection], line: &Value) {
    let case = line["case"].as_str().unwrap();
    let expected = line["reply"].as_array().unwrap();
    assert_eq!(found.len(), expected.len(), "{case}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(NAMES[found.class], expected["label"], "{case}, box {at}");
        let sides = ["xmin", "ymin", "xmax", "ymax"].map(|it| expected["box"][it].clone());
        assert_eq!(
            found.whole_corners().map(i64::from),
            *numbers(&sides.to_vec().into()),
            "{case}, box {at}"
        );
        let distance = (f64::from(found.score) - expected["score"].as_f64().unwrap()).abs();
        assert!(distance < 1e-5, "{case}, box {at}");
    }
}

#[test]
fn boxes_of_queries_are_those_of_the_pipeline() {
    for name in ["detr", "yolos", "conditional-detr", "rt-detr"] {
        let kind = Queries::of_model_type(&name.replace('-', "_")).unwrap();
        let mut boxes = 0;
        for (line, row) in cases(name) {
            let logits = output("logits", &row["logits"]);
            let corners = output("pred_boxes", &row["pred_boxes"]);
            let thresholds = thresholds(&line, Thresholds::QUERIES);
            let found = queries(&logits, &corners, kind, &thresholds, size(&row)).unwrap();
            assert_equal(&found, &line);
            boxes += found.len();
        }
        assert!(boxes > 80, "{name}: {boxes}");
    }
}

#[test]
fn boxes_of_each_layout_are_those_of_the_rules() {
    for (name, end2end) in [("yolo", Some(false)), ("yolo-v5", None), ("yolo-end2end", Some(true))]
    {
        let mut boxes = 0;
        for (line, row) in cases(name) {
            let output = output("output0", &row["output0"]);
            let dims: Vec<Option<usize>> = output.dims.iter().map(|it| Some(*it)).collect();
            let layout = Layout::of(&dims, Some(NAMES.len()), end2end).unwrap();
            assert_eq!(layout.name().replace("_", "-"), name.replace("yolo-end", "end"));
            let letterbox = Placed::of(size(&row), [128, 128]);
            assert_eq!(letterbox.gain, pair(&row["gain"]).map(|it| it as f32));
            assert_eq!(letterbox.padding, pair(&row["padding"]).map(|it| it as f32));
            let thresholds = thresholds(&line, Thresholds::YOLO);
            let found = yolo(&output, layout, &thresholds, &letterbox).unwrap();
            assert_equal(&found, &line);
            boxes += found.len();
        }
        assert!(boxes > 1_000, "{name}: {boxes}");
    }
}

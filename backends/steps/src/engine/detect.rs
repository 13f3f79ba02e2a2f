//! The step `detect`: outputs of a detector to boxes in the images as they were sent.

use std::sync::Arc;

use backend::{BackendError, NamedTensor};
use inference::task::{LABEL, RESULT, SCORE};

use super::{
    call::{Call, Numbers, invalid},
    classes,
    image::{SCALE, SIZE},
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, INTEGERS, TEXT, port, spec},
    settings::StepSettings,
};
use crate::{
    detect::{Detection, Layout, Placed, Queries, Thresholds, queries, yolo},
    outputs::RowOutput,
    reply::{Object, Objects, Reply},
    result::{ResultForm, result_json},
};

pub(super) const PARAMETERS: &[&str] =
    &["head", "labels", "confidence", "iou", "max_detections", "agnostic"];

const HEADS: [&str; 5] = ["yolo", "yolo_v5", "end2end", "detr", "rt_detr"];
const OUTPUT: &str = "output0";
const LOGITS: &str = "logits";
const BOXES: &str = "pred_boxes";
const BOX: &str = "box";
const CLASS: &str = "class";

#[derive(Clone, Copy)]
enum DetectionHead {
    Yolo(Layout),
    Queries(Queries),
}

struct Detect {
    head: DetectionHead,
    labels: Vec<Arc<str>>,
    thresholds: Thresholds,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let config = classes::named(settings)?;
    let classes = config.labels.len();
    let known = Queries::of_model_type(&config.model_type);
    // Models of one kind differ in how many boxes they give at most.
    let kind = |usual: Queries| known.filter(|it| it.name() == usual.name()).unwrap_or(usual);
    let head = settings.named("head", &HEADS, |name| match name {
        "yolo" => Some(DetectionHead::Yolo(Layout::Yolo { classes })),
        "yolo_v5" => Some(DetectionHead::Yolo(Layout::YoloV5 { classes })),
        "end2end" => Some(DetectionHead::Yolo(Layout::EndToEnd { classes: Some(classes) })),
        "detr" => Some(DetectionHead::Queries(kind(Queries::Softmax))),
        "rt_detr" => Some(DetectionHead::Queries(kind(Queries::Sigmoid))),
        _ => None,
    })?;
    let Some(head) = head.or(known.map(DetectionHead::Queries)) else {
        return Err(BackendError::Load(format!(
            "parameter 'head' is missing: it says how boxes lie in the outputs, and is one of {}",
            HEADS.join(", ")
        )));
    };
    let size = port(SIZE, INTEGERS, &[None, Some(2)]);
    let inputs = match head {
        DetectionHead::Yolo(layout) => {
            let row = match layout {
                Layout::Yolo { classes } => [Some(4 + classes), None],
                Layout::YoloV5 { classes } => [None, Some(5 + classes)],
                Layout::EndToEnd { .. } | Layout::BestQueries { .. } => [None, Some(6)],
                Layout::QueryScores { classes } => [None, Some(4 + classes)],
            };
            let scale = port(SCALE, FLOATS, &[None, Some(4)]);
            vec![port(OUTPUT, FLOATS, &[None, row[0], row[1]]), size, scale]
        }
        DetectionHead::Queries(queries) => {
            // The last of DETR's classes is that nothing is there.
            let width = if queries == Queries::Softmax { classes + 1 } else { classes };
            let boxes = port(BOXES, FLOATS, &[None, None, Some(4)]);
            vec![port(LOGITS, FLOATS, &[None, None, Some(width)]), boxes, size]
        }
    };
    let outputs = [
        port(BOX, FLOAT, &[None, None, Some(4)]),
        port(SCORE, FLOAT, &[None, None]),
        port(CLASS, INTEGERS, &[None, None]),
        port(LABEL, TEXT, &[None, None]),
        port(RESULT, TEXT, &[None, Some(1)]),
    ];
    let spec = spec(settings.source, &inputs, &outputs);
    let thresholds = thresholds(settings, head)?;
    Ok(Opened { spec, run: Box::new(Detect { head, labels: config.labels, thresholds }) })
}

fn thresholds(
    settings: &StepSettings<'_>,
    head: DetectionHead,
) -> Result<Thresholds, BackendError> {
    let usual = match head {
        DetectionHead::Yolo(_) => Thresholds::YOLO,
        DetectionHead::Queries(_) => {
            if let Some(key) = ["iou", "agnostic"].iter().find(|it| settings.text(it).is_some()) {
                let problem =
                    "boxes of queries do not displace each other; it is for yolo and yolo_v5";
                return Err(settings.wrong(key, problem));
            }
            Thresholds::QUERIES
        }
    };
    let share = |key: &str| match settings.text(key).map(|it| it.trim().parse::<f64>()) {
        None => Ok(None),
        Some(Ok(share)) => Ok(Some(share)),
        Some(Err(_)) => Err(settings.wrong(key, "expected a number from 0 to 1")),
    };
    let thresholds = Thresholds {
        confidence: share("confidence")?.map_or(usual.confidence, |it| it as f32),
        iou: share("iou")?.unwrap_or(usual.iou),
        max_detections: settings.count("max_detections")?,
        agnostic: settings.flag("agnostic")?.unwrap_or(false),
    };
    match thresholds.problem() {
        Some((key, problem)) => Err(settings.wrong(key, problem)),
        None => Ok(thresholds),
    }
}

impl Run for Detect {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let sizes = call.integers(SIZE)?;
        let found = match self.head {
            DetectionHead::Yolo(layout) => {
                let (output, scales) = (call.floats(OUTPUT)?, call.floats(SCALE)?);
                let rows = rows(OUTPUT, &output, &[(SIZE, &sizes.dims), (SCALE, &scales.dims)])?;
                let one = |row: usize| {
                    call.check()?;
                    let letterbox = letterbox(scales.row(row), sent(&sizes, row)?, row)?;
                    let output = row_output(OUTPUT, &output, row);
                    Ok(yolo(&output, layout, &self.thresholds, &letterbox)?)
                };
                (0..rows).map(one).collect::<Result<Vec<_>, BackendError>>()?
            }
            DetectionHead::Queries(kind) => {
                let (logits, boxes) = (call.floats(LOGITS)?, call.floats(BOXES)?);
                let rows = rows(LOGITS, &logits, &[(BOXES, &boxes.dims), (SIZE, &sizes.dims)])?;
                let one = |row: usize| {
                    call.check()?;
                    let sent = sent(&sizes, row)?;
                    let logits = row_output(LOGITS, &logits, row);
                    let boxes = row_output(BOXES, &boxes, row);
                    Ok(queries(&logits, &boxes, kind, &self.thresholds, sent)?)
                };
                (0..rows).map(one).collect::<Result<Vec<_>, BackendError>>()?
            }
        };
        let replies = found.iter().map(|it| self.named(it)).collect::<Result<Vec<_>, _>>()?;
        outputs(call, &replies)
    }
}

impl Detect {
    /// The same with names of classes.
    fn named(&self, found: &[Detection]) -> Result<Reply, BackendError> {
        let object = |&Detection { class, score, corners }: &Detection| {
            let label = self.labels.get(class).cloned().ok_or_else(|| {
                let problem = format!("class {class} of {} labels", self.labels.len());
                BackendError::Execute(format!("the model gave {problem}"))
            })?;
            Ok(Object { label, class, score, corners })
        };
        let found = found.iter().map(object).collect::<Result<_, BackendError>>()?;
        // Clients of a step have its input `size`.
        Ok(Reply::Objects(Objects { found, size: [0, 0] }))
    }
}

/// The outputs that are wanted. Rows with fewer boxes end with class -1, score 0 and an empty label.
fn outputs(call: &Call<'_>, replies: &[Reply]) -> Result<Vec<NamedTensor>, BackendError> {
    let (rows, longest) =
        (replies.len(), replies.iter().map(|it| it.objects().len()).max().unwrap_or(0));
    let all = || {
        let row = |it: &Reply| it.objects().len();
        replies.iter().flat_map(move |it| {
            let padding = std::iter::repeat_n(None, longest - row(it));
            it.objects().iter().map(Some).chain(padding)
        })
    };
    let output = |name: &Arc<str>| match &**name {
        BOX => {
            let corners = all().flat_map(|it| it.map_or([0.0; 4], |it| it.corners)).collect();
            call.float_output(BOX, &[rows, longest, 4], corners)
        }
        SCORE => {
            let scores = all().map(|it| it.map_or(0.0, |it| it.score)).collect();
            call.float_output(SCORE, &[rows, longest], scores)
        }
        CLASS => {
            let classes = all().map(|it| it.map_or(-1, |it| it.class as i64)).collect();
            call.integer_output(CLASS, &[rows, longest], classes)
        }
        LABEL => {
            let labels = all().map(|it| it.map_or("", |it| &it.label));
            call.text_output(LABEL, &[rows, longest], labels)
        }
        _ => {
            let form = ResultForm { text: "", is_best_only: false };
            let results = replies.iter().map(|it| result_json(it, &form));
            call.text_output(RESULT, &[rows, 1], results)
        }
    };
    call.batch.outputs.iter().map(output).collect()
}

/// How many rows there are, in all inputs alike.
fn rows(
    name: &str,
    input: &Numbers<'_, f32>,
    others: &[(&str, &Vec<usize>)],
) -> Result<usize, BackendError> {
    let &[rows, _, _] = &*input.dims else {
        return Err(invalid(name, &format!("its shape is {:?}", input.dims)));
    };
    for (other, dims) in others {
        let is_right = match *other {
            BOXES => dims.len() == 3,
            SIZE => dims.get(1..) == Some(&[2]),
            _ => dims.get(1..) == Some(&[4]),
        };
        if !is_right || dims.first() != Some(&rows) {
            let problem = format!("its shape is {dims:?}, and '{name}' has {rows} rows");
            return Err(invalid(other, &problem));
        }
    }
    Ok(rows)
}

fn row_output<'a>(name: &'a str, input: &'a Numbers<'_, f32>, row: usize) -> RowOutput<'a> {
    RowOutput { name, dims: input.dims[1..].to_vec(), values: input.row(row).into() }
}

/// Width and height of the image as it was sent.
fn sent(sizes: &Numbers<'_, i64>, row: usize) -> Result<[u32; 2], BackendError> {
    let side = |it: i64| u32::try_from(it).ok().filter(|it| *it > 0);
    let sides = match *sizes.row(row) {
        [height, width] => side(width).zip(side(height)),
        _ => None,
    };
    let problem = || format!("row {row}: {:?} is no height and width", sizes.row(row));
    sides.map(|(width, height)| [width, height]).ok_or_else(|| invalid(SIZE, &problem()))
}

/// How the image lies in the graph's input.
fn letterbox(scale: &[f32], sent: [u32; 2], row: usize) -> Result<Placed, BackendError> {
    match *scale {
        [x, y, left, top] if x > 0.0 && y > 0.0 && scale.iter().all(|it| it.is_finite()) => {
            Ok(Placed { gain: [x, y], padding: [left, top], sent })
        }
        _ => {
            let problem = format!(
                "row {row}: {scale:?} are not the two factors, above 0, and the columns and rows in front of an image"
            );
            Err(invalid(SCALE, &problem))
        }
    }
}

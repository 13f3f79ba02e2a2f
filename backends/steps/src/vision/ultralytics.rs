//! A single graph of Ultralytics' exports, whose metadata says what a folder would.

use backend::{DataType, ModelSpec, TensorSpec};
use image::letterbox::{Letterbox, classify};

use super::{
    graph::layout_of,
    plan::{Boxes, Detector, ImageHead, ImagePlan},
    preparation::Preparation,
};
use crate::{
    detect::{Layout, Thresholds},
    error::FolderError,
    folder::{Overrides, Ultralytics},
    request::Function,
    task::Classes,
};
use inference::task::Task;

/// Height and width of the input where neither the graph nor its metadata says them.
const USUAL_SIDES: [u32; 2] = [640, 640];

/// What the graph in `file` is for; the reason why it is served as it is, where it is for something else.
///
/// # Errors
/// When its metadata and its outputs contradict each other.
pub(crate) fn plan(
    file: &str,
    said: &Ultralytics,
    overrides: &Overrides,
    spec: &ModelSpec,
) -> Result<Result<ImagePlan, String>, FolderError> {
    if said.channels != 3 {
        return Ok(Err(format!("its images have {} channels", said.channels)));
    }
    let sides = sides(spec);
    let [height, width] = match sides {
        Some([Some(height), Some(width)]) => [height, width],
        _ => said.imgsz.unwrap_or(USUAL_SIDES),
    };
    Ok(match &*said.task {
        "detect" => {
            let is_fixed = matches!(sides, Some([Some(_), Some(_)]));
            let letterbox = match is_fixed {
                true => Letterbox::fixed(height, width),
                false => Letterbox::dynamic(height, width, said.stride),
            };
            let classes = said.names.len();
            let layout = layout(file, spec, classes, said.end2end)?;
            let confidence = overrides.threshold.unwrap_or(Thresholds::YOLO.confidence);
            let head = ImageHead::Detector(Detector {
                labels: said.names.clone(),
                boxes: Boxes::Yolo(layout),
                thresholds: Thresholds { confidence, ..Thresholds::YOLO },
            });
            let preparation = Preparation::Letterbox(letterbox);
            Ok(ImagePlan { task: Task::ObjectDetection, preparation, head })
        }
        "classify" if takes_bytes(spec) => Err("its classifier takes bytes".to_owned()),
        "classify" => Ok(ImagePlan {
            task: Task::ImageClassification,
            preparation: Preparation::Processor(classify(height, width)),
            // The softmax is in the graph.
            head: ImageHead::Classifier(Classes {
                labels: said.names.clone(),
                function: Function::None,
            }),
        }),
        other => Err(format!(
            "'{other}' of Ultralytics has no pipeline; those of 'detect' and 'classify' have one"
        )),
    })
}

fn takes_bytes(spec: &ModelSpec) -> bool {
    spec.inputs.iter().any(|it| it.dims.len() == 4 && it.dtype == DataType::Uint8)
}

/// Height and width of the only input with four dimensions, as far as the graph says them.
fn sides(spec: &ModelSpec) -> Option<[Option<u32>; 2]> {
    let input = spec.inputs.iter().find(|it| it.dims.len() == 4)?;
    let first = if layout_of(input).is_channels_last { 1 } else { 2 };
    let side = |at: usize| input.dims[at].and_then(|it| u32::try_from(it).ok());
    Some([side(first), side(first + 1)])
}

fn layout(
    file: &str,
    spec: &ModelSpec,
    classes: usize,
    end2end: Option<bool>,
) -> Result<Layout, FolderError> {
    let named = spec.outputs.iter().find(|it| &*it.name == "output0");
    let output: Option<&TensorSpec> = named.or_else(|| spec.outputs.first());
    let missing = || FolderError::key(file, "output0", "the graph has no output");
    let output = output.ok_or_else(missing)?;
    let row = output.dims.get(1..).unwrap_or_default();
    Layout::of(row, Some(classes), end2end)
        .map_err(|error| FolderError::key(file, &*output.name, error.to_string()))
}

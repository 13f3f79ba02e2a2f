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
            let head = ImageHead::Detector(Detector {
                labels: said.names.clone(),
                boxes: Boxes::Yolo(layout),
                thresholds: overrides.thresholds(Thresholds::YOLO),
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

#[cfg(test)]
mod tests {
    use super::*;
    use image::OutputShape;

    const FREE: [Option<usize>; 4] = [None, Some(3), None, None];

    /// What the metadata of a graph says of that task.
    fn said(task: &str) -> Ultralytics {
        Ultralytics {
            task: task.to_owned(),
            names: vec!["cat".into(), "dog".into()],
            stride: 32,
            imgsz: None,
            batch: None,
            channels: 3,
            end2end: None,
            version: String::new(),
        }
    }

    fn tensor(name: &str, dtype: DataType, dims: &[Option<usize>]) -> TensorSpec {
        let (any_rank, optional) = (false, false);
        TensorSpec { name: name.into(), dtype, dims: dims.to_vec(), any_rank, optional }
    }

    /// A graph with an input of these dimensions.
    fn graph(dtype: DataType, dims: &[Option<usize>]) -> ModelSpec {
        ModelSpec {
            inputs: vec![tensor("images", dtype, dims)],
            outputs: vec![tensor("output0", DataType::Fp32, &[None, Some(6), Some(8400)])],
            ..ModelSpec::default()
        }
    }

    fn planned(said: &Ultralytics, spec: &ModelSpec) -> Result<ImagePlan, String> {
        plan("model.onnx", said, &Overrides::default(), spec).unwrap()
    }

    /// The shape of the values that a task gives the graph.
    #[track_caller]
    fn check(said: &Ultralytics, dims: [Option<usize>; 4], expected: OutputShape) {
        let plan = planned(said, &graph(DataType::Fp32, &dims)).unwrap();
        assert_eq!(plan.preparation.output(), expected);
    }

    #[test]
    fn a_classifier_takes_the_middle_of_an_image_and_has_its_softmax_inside() {
        let dims = [Some(1), Some(3), Some(224), Some(224)];
        let plan = planned(&said("classify"), &graph(DataType::Fp32, &dims)).unwrap();
        assert_eq!(plan.task, Task::ImageClassification);
        assert_eq!(plan.preparation, Preparation::Processor(classify(224, 224)));
        let labels = vec!["cat".into(), "dog".into()];
        let classes = Classes { labels, function: Function::None };
        assert_eq!(plan.head, ImageHead::Classifier(classes));
    }

    #[test]
    fn the_graph_says_its_sides_or_else_the_metadata_do() {
        let fixed = |height, width| OutputShape::Fixed([3, height, width]);
        let sized = |task| Ultralytics { imgsz: Some([96, 64]), ..said(task) };
        let sides = [Some(1), Some(3), Some(320), Some(256)];
        check(&sized("classify"), sides, fixed(320, 256));
        check(&sized("detect"), sides, fixed(320, 256));
        check(&sized("classify"), [Some(1), Some(320), Some(256), Some(3)], fixed(320, 256));
        check(&sized("classify"), FREE, fixed(96, 64));
        check(&said("classify"), FREE, fixed(640, 640));
        // The grey around an image ends at a multiple of the stride.
        check(&sized("detect"), FREE, OutputShape::Varies);
        let plan = planned(&sized("detect"), &graph(DataType::Fp32, &FREE)).unwrap();
        assert_eq!(plan.preparation, Preparation::Letterbox(Letterbox::dynamic(96, 64, 32)));
    }

    #[test]
    fn what_has_no_pipeline_is_served_as_tensors_and_the_reason_is_said() {
        for task in ["segment", "pose", "obb"] {
            let reason = planned(&said(task), &graph(DataType::Fp32, &FREE)).unwrap_err();
            let expected = format!(
                "'{task}' of Ultralytics has no pipeline; those of 'detect' and 'classify' have one"
            );
            assert_eq!(reason, expected);
        }
        let bytes = planned(&said("classify"), &graph(DataType::Uint8, &FREE)).unwrap_err();
        assert_eq!(bytes, "its classifier takes bytes");
        let grey = Ultralytics { channels: 1, ..said("detect") };
        let reason = planned(&grey, &graph(DataType::Fp32, &FREE)).unwrap_err();
        assert_eq!(reason, "its images have 1 channels");
    }
}

//! A single graph of Ultralytics' exports, whose metadata says what a folder would.

use backend::{DataType, ModelSpec, TensorSpec};
use image::{
    SizeRule,
    letterbox::{Letterbox, classify, stretched},
};

use super::{
    graph::layout_of,
    plan::{Boxes, Detector, ImageHead, ImagePlan},
    preparation::Preparation,
};
use crate::{
    detect::{Layout, QueryForm, Thresholds},
    error::{FolderError, NoPipeline},
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
) -> Result<Result<ImagePlan, NoPipeline>, FolderError> {
    if said.channels != 3 {
        let channels = said.channels;
        return Ok(Err(NoPipeline::new(format!("its images have {channels} channels"))));
    }
    let sides = sides(spec);
    let [height, width] = match sides {
        Some([Some(height), Some(width)]) => [height, width],
        _ => said.imgsz.unwrap_or(USUAL_SIDES),
    };
    Ok(match &*said.task {
        "detect" => {
            let (row, output) = output(file, spec)?;
            let family = match Family::of(said, row) {
                Ok(family) => family,
                Err(reason) => return Ok(Err(reason)),
            };
            let is_fixed = matches!(sides, Some([Some(_), Some(_)]));
            let preparation = match family {
                // Bytes would have to be divided by the graph, which this exporter never makes.
                Family::RtDetr(_) if takes_bytes(spec) => {
                    return Ok(Err(NoPipeline::new("its detector takes bytes")));
                }
                Family::RtDetr(_) => {
                    Preparation::OpenCv(SizeRule::Exact { height, width }, stretched())
                }
                Family::Yolo if is_fixed => Preparation::Letterbox(Letterbox::fixed(height, width)),
                Family::Yolo => {
                    Preparation::Letterbox(Letterbox::dynamic(height, width, said.stride))
                }
            };
            let classes = said.names.len();
            let layout = match family {
                Family::RtDetr(form) => Layout::of_queries(row, classes, form),
                Family::Yolo => Layout::of(row, Some(classes), said.end2end),
            };
            let layout = layout.map_err(|it| FolderError::key(file, output, it.to_string()))?;
            let head = ImageHead::Detector(Detector {
                labels: said.names.clone(),
                boxes: Boxes::Yolo(layout),
                thresholds: overrides.thresholds(Thresholds::YOLO),
            });
            Ok(ImagePlan { task: Task::ObjectDetection, preparation, head })
        }
        "classify" if takes_bytes(spec) => Err(NoPipeline::new("its classifier takes bytes")),
        "classify" => Ok(ImagePlan {
            task: Task::ImageClassification,
            preparation: Preparation::Processor(classify(height, width)),
            // The softmax is in the graph.
            head: ImageHead::Classifier(Classes {
                labels: said.names.clone(),
                function: Function::None,
            }),
        }),
        other => Err(NoPipeline::new(format!(
            "'{other}' of Ultralytics has no pipeline; those of 'detect' and 'classify' have one"
        ))),
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

/// The dimensions of a row of the output with boxes, and its name.
fn output<'s>(
    file: &str,
    spec: &'s ModelSpec,
) -> Result<(&'s [Option<usize>], &'s str), FolderError> {
    let named = spec.outputs.iter().find(|it| &*it.name == "output0");
    let output: Option<&TensorSpec> = named.or_else(|| spec.outputs.first());
    let missing = || FolderError::key(file, "output0", "the graph has no output");
    let output = output.ok_or_else(missing)?;
    Ok((output.dims.get(1..).unwrap_or_default(), &*output.name))
}

/// How a detector of Ultralytics' is fed, and where its boxes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// The image lies in the middle of grey. Boxes are in pixels of the input.
    Yolo,
    /// The image is stretched over the whole input. Boxes are shares of it.
    RtDetr(Option<QueryForm>),
}

/// Heads whose boxes are in pixels of a letterbox.
const YOLO_HEADS: [&str; 4] = ["Detect", "v10Detect", "WorldDetect", "YOLOEDetect"];
/// The first version whose RT-DETR gives the best class of each query, rather than the scores of all.
const FIRST_OF_BEST: [u32; 3] = [8, 4, 47];
/// Queries of RT-DETR, where its configuration says nothing else.
const USUAL_QUERIES: usize = 300;

impl Family {
    /// The family of a detector by its metadata, and by its row where these say too little.
    ///
    /// # Errors
    /// Why it is served as tensors: it may be something else.
    fn of(said: &Ultralytics, row: &[Option<usize>]) -> Result<Family, NoPipeline> {
        match said.head.as_deref() {
            Some("RTDETRDecoder") => return Ok(Family::RtDetr(Some(QueryForm::Best))),
            Some(head) if YOLO_HEADS.contains(&head) => return Ok(Family::Yolo),
            Some(head) => {
                let reason = format!("how its head '{head}' gives boxes is not known");
                return Err(NoPipeline::new(reason));
            }
            None => {}
        }
        // `Ultralytics YOLOv8n model trained on data.yaml`: the data may be called anything.
        let description = said.description.split(" model").next().unwrap_or_default();
        let description = description.to_ascii_lowercase();
        let names = |part: &str| description.contains(part);
        let form = version(&said.version).map(|it| match it < FIRST_OF_BEST {
            true => QueryForm::Scores,
            false => QueryForm::Best,
        });
        let classes = said.names.len();
        match *row {
            _ if names("rtdetr") || names("rt-detr") => Ok(Family::RtDetr(form)),
            _ if ["yolo_nas", "yolo-nas", "yolonas"].into_iter().any(names) => {
                Err(NoPipeline::new("how YOLO-NAS gives boxes is not known"))
            }
            _ if said.end2end == Some(true) || names("yolo") || description.is_empty() => {
                Ok(Family::Yolo)
            }
            // A name of the user's own. Nothing else of Ultralytics' has this shape.
            [Some(USUAL_QUERIES), Some(width)] if width == 4 + classes && width != 6 => {
                Ok(Family::RtDetr(Some(QueryForm::Scores)))
            }
            [first, Some(6)] if first != Some(4 + classes) => {
                let shape = first.map_or("?".to_owned(), |it| it.to_string());
                Err(NoPipeline::new(format!(
                    "its rows of [{shape}, 6] may be of YOLO or of RT-DETR, which its metadata do not say"
                )))
            }
            _ => Ok(Family::Yolo),
        }
    }
}

/// `8.4.47` as numbers.
fn version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('.').map(|it| it.parse().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    Some(version)
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
            head: None,
            description: String::new(),
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
        let plan = plan("model.onnx", said, &Overrides::default(), spec).unwrap();
        plan.map_err(|it| it.to_string())
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

    /// The layout of a detector whose output has a row of these dimensions.
    fn layout_of(said: &Ultralytics, row: [usize; 2]) -> Result<Layout, String> {
        let mut spec = graph(DataType::Fp32, &[Some(1), Some(3), Some(64), Some(64)]);
        spec.outputs =
            vec![tensor("output0", DataType::Fp32, &[Some(1), Some(row[0]), Some(row[1])])];
        let plan = plan("model.onnx", said, &Overrides::default(), &spec);
        let plan = plan.map_err(|it| it.to_string())?.map_err(|it| it.to_string())?;
        let is_stretched = matches!(plan.preparation, Preparation::OpenCv(..));
        let ImageHead::Detector(Detector { boxes: Boxes::Yolo(layout), .. }) = plan.head else {
            panic!("no detector");
        };
        let is_of_image = matches!(layout, Layout::QueryScores { .. } | Layout::BestQueries { .. });
        assert_eq!(is_stretched, is_of_image);
        Ok(layout)
    }

    fn described(description: &str, version: &str) -> Ultralytics {
        let (description, version) = (description.to_owned(), version.to_owned());
        Ultralytics { description, version, end2end: Some(false), ..said("detect") }
    }

    #[test]
    fn rt_detr_is_known_by_its_head_or_by_its_description() {
        let best = Layout::BestQueries { classes: 2 };
        let scores = Layout::QueryScores { classes: 2 };
        let headed = |head: &str| Ultralytics { head: Some(head.to_owned()), ..said("detect") };
        assert_eq!(layout_of(&headed("RTDETRDecoder"), [300, 6]), Ok(best));
        assert_eq!(layout_of(&headed("RTDETRDecoder"), [100, 6]), Ok(best));
        let rtdetr =
            |version| described("Ultralytics rtdetr-l model trained on coco.yaml", version);
        assert_eq!(layout_of(&rtdetr("8.4.60"), [300, 6]), Ok(best));
        assert_eq!(layout_of(&rtdetr("8.3.0"), [300, 6]), Ok(scores));
        assert!(layout_of(&rtdetr(""), [300, 6]).unwrap_err().contains("may be either"));
        let three = |it| Ultralytics { names: vec!["a".into(), "b".into(), "c".into()], ..it };
        let scores = Layout::QueryScores { classes: 3 };
        assert_eq!(layout_of(&three(rtdetr("8.4.60")), [300, 7]), Ok(scores));
        assert_eq!(
            layout_of(&three(described("Ultralytics mine model", "8.3.0")), [300, 7]),
            Ok(scores)
        );
        assert!(
            layout_of(&three(rtdetr("8.4.60")), [300, 8]).unwrap_err().contains("is not RT-DETR's")
        );
    }

    #[test]
    fn boxes_of_a_head_that_is_not_known_are_tensors() {
        let headed = |head: &str| Ultralytics { head: Some(head.to_owned()), ..said("detect") };
        for head in YOLO_HEADS {
            assert_eq!(layout_of(&headed(head), [6, 8400]), Ok(Layout::Yolo { classes: 2 }));
            let ready = Ultralytics { end2end: Some(true), ..headed(head) };
            let layout = Layout::EndToEnd { classes: Some(2) };
            assert_eq!(layout_of(&ready, [300, 6]), Ok(layout));
        }
        let reason = layout_of(&headed("YoloNAS_S"), [8400, 4]).unwrap_err();
        assert_eq!(reason, "how its head 'YoloNAS_S' gives boxes is not known");
        let reason = layout_of(&described("Ultralytics YOLO_nas_s model", "8.3.0"), [8400, 4]);
        assert_eq!(reason.unwrap_err(), "how YOLO-NAS gives boxes is not known");
        let mine = "Ultralytics mine model trained on yolo.yaml";
        let unnamed = Ultralytics { end2end: None, ..described(mine, "8.3.0") };
        let reason = layout_of(&unnamed, [300, 6]).unwrap_err();
        assert!(reason.contains("may be of YOLO or of RT-DETR"), "{reason}");
        let yolo =
            Ultralytics { end2end: None, ..described("Ultralytics YOLOv10n model", "8.3.0") };
        assert_eq!(layout_of(&yolo, [300, 6]), Ok(Layout::EndToEnd { classes: Some(2) }));
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

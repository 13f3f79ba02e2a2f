//! What a folder of an image model says of how its task is done.

use std::sync::Arc;

use image::Processor;
use serde_json::Value;

use super::preparation::Preparation;
use crate::{
    detect::{Layout, Queries, Thresholds},
    error::FolderError,
    folder::{Folder, OPERATORS_FILE},
    task::{Classes, classes},
};
use inference::task::Task;

/// What a graph is for, and what stands around it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImagePlan {
    pub(crate) task: Task,
    pub(crate) preparation: Preparation,
    pub(crate) head: ImageHead,
}

/// The keys of an image processor that say how bytes become numbers.
pub(crate) const TO_NUMBERS: [&str; 3] = ["do_rescale", "do_normalize", "include_top"];

/// What is made of a graph's outputs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ImageHead {
    /// Classes of an image.
    Classifier(Classes),
    /// Boxes around objects.
    Detector(Detector),
    /// Vectors of an image.
    Features,
    /// How like the image each label of a request is.
    Candidates,
    /// The vectors of images and of texts.
    Towers,
}

/// What finds the objects in an image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Detector {
    /// Names of its classes in their order.
    pub(crate) labels: Vec<Arc<str>>,
    /// How boxes lie in the outputs.
    pub(crate) boxes: Boxes,
    /// What a box must have, where a request says nothing.
    pub(crate) thresholds: Thresholds,
}

impl Detector {
    /// What of [`Detector::thresholds`] is not the usual, for the end of a phrase.
    pub(super) fn described_thresholds(&self) -> String {
        let usual = match self.boxes {
            Boxes::Yolo(_) => Thresholds::YOLO,
            Boxes::Queries(_) => Thresholds::QUERIES,
        };
        let Thresholds { confidence, iou, max_detections, .. } = self.thresholds;
        let mut text = String::new();
        if confidence != usual.confidence {
            text.push_str(&format!(", threshold {confidence}"));
        }
        if iou != usual.iou {
            text.push_str(&format!(", iou {iou}"));
        }
        if let Some(most) = max_detections {
            text.push_str(&format!(", at most {most} boxes"));
        }
        text
    }
}

/// How boxes lie in the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boxes {
    /// One output, of Ultralytics' models.
    Yolo(Layout),
    /// Logits and boxes of so many queries.
    Queries(Queries),
}

/// The image processor that the folder names. A graph that takes bytes makes numbers of them itself.
///
/// # Errors
/// When there is none, or one that is not known.
pub(crate) fn processor(folder: &Folder, takes_bytes: bool) -> Result<Processor, FolderError> {
    let Some((file, json)) = &folder.preprocessor else {
        let problem = "it is missing, and says how an image becomes pixel_values";
        let remedy = "write it once: AutoImageProcessor.from_pretrained(d).save_pretrained(d); of timm's models \
             config.json says it, in pretrained_cfg";
        return Err(FolderError::file("preprocessor_config.json", problem).remedy(remedy));
    };
    let mut json = json.clone();
    if takes_bytes {
        // A file of a whole processor has those of the images in an object of their own.
        let keys = match json.get("image_processor").is_some_and(Value::is_object) {
            true => json.get_mut("image_processor").and_then(Value::as_object_mut),
            false => json.as_object_mut(),
        };
        let numbers = TO_NUMBERS.map(|it| (it.to_owned(), Value::Bool(false)));
        keys.into_iter().for_each(|it| it.extend(numbers.clone()));
    }
    Processor::from_config(&json)
        .map_err(|it| FolderError::key(file, it.key, it.problem).remedy(it.remedy))
}

/// What is made of the outputs of a folder's graph.
///
/// # Errors
/// When the folder's model finds boxes in a way that is not known, or its operators say something that does nothing.
pub(crate) fn head(folder: &Folder, task: Task) -> Result<ImageHead, FolderError> {
    match task {
        Task::ImageClassification => Ok(ImageHead::Classifier(classes(folder))),
        Task::ImageFeatureExtraction => Ok(ImageHead::Features),
        Task::ZeroShotImageClassification => Ok(ImageHead::Candidates),
        Task::ImageTextEmbedding => Ok(ImageHead::Towers),
        Task::ObjectDetection => {
            let model_type = &folder.config.model_type;
            let queries = Queries::of_model_type(model_type).ok_or_else(|| {
                let problem = format!("'{model_type}' finds boxes in a way that is not known");
                let remedy = "serve its graph as tensors, with --pipelines=off";
                FolderError::key("config.json", "model_type", problem).remedy(remedy)
            })?;
            if folder.overrides.iou.is_some() {
                let problem = "boxes of queries do not displace each other; it is for the graphs of \
                     Ultralytics";
                return Err(FolderError::key(OPERATORS_FILE, "iou", problem));
            }
            Ok(ImageHead::Detector(Detector {
                labels: classes(folder).labels,
                boxes: Boxes::Queries(queries),
                thresholds: folder.overrides.thresholds(Thresholds::QUERIES),
            }))
        }
        other => {
            let problem = format!("{other} takes {}, and no image", other.medium().one());
            Err(FolderError::file("task", problem))
        }
    }
}

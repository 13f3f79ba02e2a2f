//! What a folder of an image model says of how its task is done.

use std::sync::Arc;

use image::{ImageError, OutputShape, Pixels, Processor, Rgb, letterbox::Letterbox};

use crate::{
    detect::{Layout, Queries, Thresholds},
    error::FolderError,
    folder::Folder,
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

/// Most bytes of the weights and sums of a row or column of a letterbox.
const BYTES_OF_LINE: u64 = 128;

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

/// How boxes lie in the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boxes {
    /// One output, of Ultralytics' models.
    Yolo(Layout),
    /// Logits and boxes of so many queries.
    Queries(Queries),
}

/// What becomes of the pixels before the graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Preparation {
    /// As an image processor of Hugging Face's libraries does it.
    Processor(Processor),
    /// In the middle of a grey area.
    Letterbox(Letterbox),
}

impl Preparation {
    /// The values of an image.
    ///
    /// # Errors
    /// When it cannot be brought to the size of the graph.
    pub(crate) fn apply(&self, image: &Rgb) -> Result<Pixels, ImageError> {
        match self {
            Preparation::Processor(processor) => processor.apply(image),
            Preparation::Letterbox(letterbox) => letterbox.apply(image),
        }
    }

    /// The shape of the values.
    pub(crate) fn output(&self) -> OutputShape {
        match self {
            Preparation::Processor(processor) => processor.output(),
            Preparation::Letterbox(letterbox) => letterbox.output(),
        }
    }

    /// Most bytes that making the values of an image of that height and width holds, the values included.
    ///
    /// # Errors
    /// When it cannot be brought to the size of the graph, or would become too large on the way.
    pub(crate) fn bytes_to_apply(&self, height: u32, width: u32) -> Result<u64, ImageError> {
        match self {
            Preparation::Processor(processor) => processor.bytes_to_apply(height, width),
            Preparation::Letterbox(letterbox) => {
                let (height, width) = letterbox.most();
                let (height, width) = (u64::from(height), u64::from(width));
                // Resized, and as values; and what each row and column is made of.
                Ok((3 + 3 * 4) * height * width + BYTES_OF_LINE * (height + width))
            }
        }
    }

    /// What it is, for the log.
    pub(crate) fn describe(&self) -> String {
        let name = match self {
            Preparation::Processor(processor) => &processor.name,
            Preparation::Letterbox(_) => "letterbox",
        };
        match self.output() {
            OutputShape::Fixed([_, height, width]) => format!("{name} {height} x {width}"),
            OutputShape::Varies => name.to_owned(),
        }
    }

    /// Are rows of unequal size padded to the largest, and their masks the graph's concern?
    pub(crate) fn has_mask(&self) -> bool {
        matches!(self, Preparation::Processor(it) if it.pad != image::Pad::None)
    }
}

/// The image processor that the folder names.
///
/// # Errors
/// When there is none, or one that is not known.
pub(crate) fn processor(folder: &Folder) -> Result<Processor, FolderError> {
    let Some((file, json)) = &folder.preprocessor else {
        let problem = "it is missing, and says how an image becomes pixel_values";
        let remedy = "write it once: AutoImageProcessor.from_pretrained(d).save_pretrained(d)";
        return Err(FolderError::file("preprocessor_config.json", problem).remedy(remedy));
    };
    Processor::from_config(json)
        .map_err(|it| FolderError::key(file, it.key, it.problem).remedy(it.remedy))
}

/// What is made of the outputs of a folder's graph.
///
/// # Errors
/// When the folder's model finds boxes in a way that is not known.
pub(crate) fn head(folder: &Folder, task: Task) -> Result<ImageHead, FolderError> {
    match task {
        Task::ImageClassification => Ok(ImageHead::Classifier(classes(folder))),
        Task::ImageFeatureExtraction => Ok(ImageHead::Features),
        Task::ZeroShotImageClassification => Ok(ImageHead::Candidates),
        Task::ObjectDetection => {
            let model_type = &folder.config.model_type;
            let queries = Queries::of_model_type(model_type).ok_or_else(|| {
                let problem = format!("'{model_type}' finds boxes in a way that is not known");
                let remedy = "serve its graph as tensors, with --pipelines=off";
                FolderError::key("config.json", "model_type", problem).remedy(remedy)
            })?;
            let confidence = folder.overrides.threshold.unwrap_or(Thresholds::QUERIES.confidence);
            Ok(ImageHead::Detector(Detector {
                labels: classes(folder).labels,
                boxes: Boxes::Queries(queries),
                thresholds: Thresholds { confidence, ..Thresholds::QUERIES },
            }))
        }
        other => {
            let problem = format!("{other} takes {}, and no image", other.medium().one());
            Err(FolderError::file("task", problem))
        }
    }
}

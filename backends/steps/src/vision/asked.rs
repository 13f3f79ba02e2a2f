//! What the parameters of a request ask of what is made of a graph's outputs.

use super::{graph::ImageOutputs, plan::ImageHead};
use crate::{
    detect::Thresholds,
    error::RowError,
    request::{Function, Parameters, TopK},
};

/// Classes of an image where the request does not say how many, as in the reference.
pub(super) const MANY_CLASSES: usize = 5;

/// What a request asks of the head.
pub(super) enum Asked {
    /// Classes: what makes their scores, and how many.
    Labels(Function, TopK),
    /// Objects that have this.
    Objects(Thresholds),
    /// Vectors: that of the whole image, or those of its patches.
    Features { is_pooled: bool },
    /// Scores of the labels that it names.
    Candidates,
    /// The vectors of images and of texts.
    Towers,
}

/// What the parameters of a request ask of the head.
///
/// # Errors
/// When a value is none that it can have.
pub(super) fn asked(
    head: &ImageHead,
    outputs: &ImageOutputs,
    parameters: &Parameters,
) -> Result<Asked, RowError> {
    let wrong =
        |name: &str, problem: String| Err(RowError::Parameter { name: name.to_owned(), problem });
    match head {
        ImageHead::Candidates => Ok(Asked::Candidates),
        ImageHead::Towers => Ok(Asked::Towers),
        ImageHead::Classifier(classes) => {
            let function = parameters.function.unwrap_or(classes.function);
            let top_k = match parameters.top_k {
                TopK::Default => TopK::Best(MANY_CLASSES),
                given => given,
            };
            Ok(Asked::Labels(function, top_k))
        }
        ImageHead::Detector(detector) => {
            let (asked, usual) = (parameters.detection, detector.thresholds);
            let thresholds = Thresholds {
                confidence: asked.threshold.unwrap_or(usual.confidence),
                iou: asked.iou.map_or(usual.iou, f64::from),
                max_detections: asked.most.or(usual.max_detections),
                agnostic: asked.agnostic.unwrap_or(usual.agnostic),
            };
            match thresholds.problem() {
                None => Ok(Asked::Objects(thresholds)),
                Some(("confidence", problem)) => wrong("threshold", problem),
                Some((name, problem)) => wrong(name, problem),
            }
        }
        ImageHead::Features => match (parameters.pool, outputs.vector) {
            (true, None) => {
                wrong("pool", "the graph gives no vector of the whole image".to_owned())
            }
            (is_pooled, _) => Ok(Asked::Features { is_pooled }),
        },
    }
}

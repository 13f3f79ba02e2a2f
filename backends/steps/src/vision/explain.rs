//! An image model as the ensemble of steps that does the same by hand.

use backend::DataType;
use inference::task::{IMAGE, SIZE};

use super::{
    asked::MANY_CLASSES,
    graph::{ImageInputs, ImageOutputs, MASK},
    plan::{Boxes, Detector, ImageHead},
};
use crate::{
    error::NoEnsemble,
    explain::{AroundGraph, ExplainedEnsemble, boxes, classes, file, labels_of, text},
    folder::Folder,
};

/// The ensemble.
///
/// # Errors
/// Why there is none: a sentence.
pub(super) fn explain(
    folder: &Folder,
    head: &ImageHead,
    inputs: &ImageInputs,
    outputs: &ImageOutputs,
) -> Result<ExplainedEnsemble, NoEnsemble> {
    let Some((preprocessor, _)) = &folder.preprocessor else {
        return Err(NoEnsemble::new("it has no image processor"));
    };
    let mut parameters = vec![("file", file(preprocessor))];
    if let Some(most) = folder.overrides.max_image_pixels {
        parameters.push(("max_pixels", text(most.to_string())));
    }
    if inputs.layout.is_channels_last {
        parameters.push(("layout", text("nhwc")));
    }
    if inputs.layout.dtype != DataType::Fp32 {
        parameters.push(("dtype", text(inputs.layout.dtype.to_string())));
    }
    let own = |name: &str| if name == MASK { MASK } else { "pixel_values" };
    let fed = inputs.inputs.iter().map(|it| (it.name.as_ref().to_owned(), own(&it.name)));
    let masks = inputs.inputs.iter().filter(|it| &*it.name == MASK && it.dtype != DataType::Int64);
    let types = masks.map(|it| (MASK.to_owned(), it.dtype)).collect();
    let labels = ("labels", file(labels_of(folder)));
    let (head, names, beside, ports) = match head {
        ImageHead::Classifier(of) => {
            let function = ("function", text(of.function.name()));
            let top_k = ("top_k", text(MANY_CLASSES.to_string()));
            (("classify", vec![labels, function, top_k]), vec!["logits"], Vec::new(), classes())
        }
        ImageHead::Detector(Detector { boxes: Boxes::Queries(_), thresholds, .. }) => {
            if folder.overrides.labels.is_some() {
                let reason = "its labels are given over those of its config.json, which says how its boxes are read";
                return Err(NoEnsemble::new(reason));
            }
            let confidence = ("confidence", text(thresholds.confidence.to_string()));
            let most = thresholds.max_detections;
            let most = most.map(|it| ("max_detections", text(it.to_string())));
            let parameters = [labels, confidence].into_iter().chain(most).collect();
            let names = vec!["logits", "pred_boxes"];
            (("detect", parameters), names, vec![SIZE], boxes())
        }
        ImageHead::Detector(_) => return Err(NoEnsemble::new("its graph has no folder")),
        ImageHead::Features | ImageHead::Towers => {
            return Err(NoEnsemble::new(
                "its answers are the vectors of its graph, which needs no step behind it",
            ));
        }
        ImageHead::Candidates => {
            let reason = "no step compares an image with the labels of a request";
            return Err(NoEnsemble::new(reason));
        }
    };
    let read = outputs.outputs.iter().map(|it| it.name.as_ref().to_owned()).zip(names);
    let mut lacks =
        vec!["images of a request that become unequal: they are padded to the largest, or refused"];
    if !beside.is_empty() {
        lacks.push("the output count");
    }
    let around = AroundGraph {
        input: IMAGE,
        decoder: ("image", parameters),
        types,
        fed: fed.collect(),
        beside,
        read: read.collect(),
        head,
        outputs: ports,
        files: vec![preprocessor.clone(), "config.json".to_owned()],
        lacks,
    };
    Ok(around.ensemble(folder))
}

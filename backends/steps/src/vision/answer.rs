//! From what a run of the graph gives to the reply to an image: the two calls behind a run.

use super::{
    pipeline::{ImagePipeline, foreign},
    plan::{Boxes, Detector, ImageHead},
    towers,
};
use crate::{
    context::{ContextKind, WorkKind},
    detect::{Detection, Placed, queries, yolo},
    error::RowError,
    head::{
        classify::{check_numbers, classify, whole_logits},
        reduced::Reduced,
    },
    outputs::RowOutput,
    reply::{Features, Object, Objects, Reply},
    request::TopK,
};

impl ImagePipeline {
    pub(crate) fn reduce(
        &self,
        work: &WorkKind,
        outputs: &[RowOutput<'_>],
    ) -> Result<Reduced, RowError> {
        let output = |at: usize| {
            let (output, problem) = (self.outputs.name(at), "the run did not give it");
            let missing =
                || RowError::Output { output: output.to_owned(), problem: problem.into() };
            outputs.get(at).ok_or_else(missing)
        };
        match (work, &self.head) {
            (&WorkKind::Towers { has_image, texts }, _) => {
                let at = self.outputs.towers.ok_or_else(foreign)?;
                towers::reduce(at, has_image, texts, output)
            }
            (WorkKind::Logits, _) => Ok(Reduced::Values(whole_logits(output(0)?)?)),
            (WorkKind::Objects(work), ImageHead::Detector(Detector { boxes, .. })) => {
                let found = match *boxes {
                    Boxes::Yolo(layout) => {
                        let placed = Placed::of(work.sent, work.input);
                        yolo(output(0)?, layout, &work.thresholds, &placed)?
                    }
                    Boxes::Queries(kind) => {
                        queries(output(0)?, output(1)?, kind, &work.thresholds, work.sent)?
                    }
                };
                Ok(Reduced::Objects(found))
            }
            (WorkKind::ImageFeatures, ImageHead::Features) => {
                let pooled = self.outputs.vector.map(output).transpose()?;
                let pooled = pooled.map_or_else(Vec::new, |it| it.values.to_vec());
                let (dims, values) = match self.outputs.patches {
                    Some(at) => {
                        let patches = output(at)?;
                        (patches.dims.clone(), patches.values.to_vec())
                    }
                    None => (vec![pooled.len()], pooled.clone()),
                };
                for values in [&pooled, &values] {
                    check_numbers(values, self.outputs.name(0))?;
                }
                Ok(Reduced::Features { dims, values, pooled })
            }
            _ => Err(foreign()),
        }
    }

    pub(crate) fn finish(
        &self,
        context: ContextKind,
        rows: Vec<Reduced>,
    ) -> Result<Reply, RowError> {
        let output = self.outputs.name(0);
        if context == ContextKind::Towers {
            return towers::finish(rows).ok_or_else(foreign);
        }
        if let (ContextKind::ImageCandidates(labels), Some(texts)) = (&context, &self.labels) {
            let values = |it| match it {
                Reduced::Values(values) => Ok(values),
                _ => Err(foreign()),
            };
            let logits = rows.into_iter().map(values).collect::<Result<Vec<_>, _>>()?.concat();
            let found = classify(labels, logits, texts.function, TopK::All, output)?;
            return Ok(Reply::ImageCandidates(found));
        }
        let mut rows = rows.into_iter();
        let row = rows.next().filter(|_| rows.len() == 0).ok_or_else(foreign)?;
        match (context, row, &self.head) {
            (
                ContextKind::Labels { function, top_k },
                Reduced::Values(logits),
                ImageHead::Classifier(classes),
            ) => {
                let found = classify(&classes.labels, logits, function, top_k, output)?;
                Ok(Reply::Labels(found))
            }
            (
                ContextKind::Objects { size },
                Reduced::Objects(found),
                ImageHead::Detector(detector),
            ) => {
                let object = |it: Detection| {
                    let (class, score, corners) = (it.class, it.score, it.corners);
                    let missing = || {
                        let problem = format!("class {class} of {} labels", detector.labels.len());
                        RowError::Output { output: output.to_owned(), problem }
                    };
                    let label = detector.labels.get(class).ok_or_else(missing)?.clone();
                    Ok(Object { label, class, score, corners })
                };
                let found = found.into_iter().map(object).collect::<Result<_, RowError>>()?;
                Ok(Reply::Objects(Objects { found, size }))
            }
            (
                ContextKind::ImageFeatures { is_pooled },
                Reduced::Features { dims, values, pooled },
                ImageHead::Features,
            ) => Ok(match is_pooled || dims.len() < 2 {
                true => Reply::Pooled(if pooled.is_empty() { values } else { pooled }),
                false => {
                    let width = dims.last().copied().unwrap_or(0);
                    let tokens = values.len().checked_div(width).unwrap_or(0);
                    Reply::Features(Features { tokens, width, values, pooled })
                }
            }),
            _ => Err(foreign()),
        }
    }
}

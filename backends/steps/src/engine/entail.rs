//! The step `entail`: which of some labels a text has, from the logits of its pairs with a sentence about each.

use std::sync::Arc;

use backend::{BackendError, NamedTensor};
use inference::task::{CANDIDATE_LABELS, LABEL, SCORE};

use super::{
    call::{Call, invalid},
    classes,
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, TEXT, port, spec},
    settings::StepSettings,
};
use crate::head::entail::{Candidates, entailment, rank};

pub(super) const PARAMETERS: &[&str] = &["labels", "multi_label"];

const LOGITS: &str = "logits";

struct Entail {
    /// The class of the model that says so.
    entailment: usize,
    is_multi: bool,
    /// Dimensions in front of that of the labels.
    leading: usize,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let config = classes::read(settings)?;
    let leading = usize::from(!settings.is_unbatched());
    let rows = vec![None; leading];
    let dims = |more: &[Option<usize>]| [rows.as_slice(), more].concat();
    let spec = spec(
        settings.source,
        &[
            port(LOGITS, FLOATS, &dims(&[None, Some(config.labels.len())])),
            port(CANDIDATE_LABELS, TEXT, &dims(&[None])),
        ],
        &[port(LABEL, TEXT, &dims(&[None])), port(SCORE, FLOAT, &dims(&[None]))],
    );
    let step = Entail {
        entailment: entailment(&config.labels),
        is_multi: settings.flag("multi_label")?.unwrap_or(false),
        leading,
    };
    Ok(Opened { spec, run: Box::new(step) })
}

impl Run for Entail {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let logits = call.floats(LOGITS)?;
        let names = call.texts(CANDIDATE_LABELS)?;
        let (Some(&classes), Some(&count)) =
            (logits.dims.get(self.leading + 1), logits.dims.get(self.leading))
        else {
            return Err(invalid(LOGITS, &format!("its shape is {:?}", logits.dims)));
        };
        let texts: usize = logits.dims.iter().take(self.leading).product();
        if names.len() != texts * count {
            let problem =
                format!("there are {} labels for {} rows of logits", names.len(), texts * count);
            return Err(invalid(CANDIDATE_LABELS, &problem));
        }
        let (mut labels, mut scores): (Vec<Arc<str>>, Vec<f32>) = (Vec::new(), Vec::new());
        for text in 0..texts {
            let of_text = text * count..(text + 1) * count;
            let rows = logits.values.chunks_exact(classes.max(1));
            let rows: Vec<Vec<f32>> =
                rows.skip(of_text.start).take(count).map(<[f32]>::to_vec).collect();
            let candidates = Candidates {
                labels: names[of_text].iter().map(|it| Arc::from(*it)).collect(),
                is_multi: self.is_multi,
                entailment: self.entailment,
            };
            for it in rank(&candidates, &rows, LOGITS)? {
                labels.push(it.label);
                scores.push(it.score);
            }
        }
        let dims = &logits.dims[..=self.leading];
        let output = |name: &Arc<str>| match &**name {
            LABEL => call.text_output(LABEL, dims, labels.iter().map(|it| it.as_bytes())),
            _ => call.float_output(SCORE, dims, scores.clone()),
        };
        call.batch.outputs.iter().map(output).collect()
    }
}

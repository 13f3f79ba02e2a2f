//! The step `mask`: logits over the vocabulary to what the masks of a text may stand for, as JSON.

use std::sync::Arc;

use backend::{BackendError, NamedTensor};
use inference::task::RESULT;

use super::{
    call::{Call, invalid},
    kept::{Kept, MASK},
    kind::{Opened, Run},
    ports::{FLOATS, INTEGERS, TEXT, optional, port, spec},
    settings::StepSettings,
    vocabulary::{self, Vocabulary},
    windows::same_tokens,
};
use crate::{
    error::RowError,
    head::mask::{MaskWork, Masked, best, check_fills, fills},
    outputs::RowOutput,
    reply::Reply,
    result::{ResultForm, result_json},
    text::{TextLimits, target_ids},
};

pub(super) const PARAMETERS: &[&str] = &["file", "top_k", "targets"];

const LOGITS: &str = "logits";
const IDS: &str = "input_ids";

struct Masks {
    vocabulary: Vocabulary,
    mask: (u32, String),
    top_k: usize,
    targets: Option<Arc<[u32]>>,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let vocabulary = vocabulary::open(settings, false)?;
    let Some(mask) = vocabulary.special.mask.clone() else {
        return Err(settings.wrong(vocabulary::FILE, "the tokenizer has no mask token"));
    };
    let limits = TextLimits { bytes: TextLimits::DEFAULT_BYTES, tokens: usize::MAX };
    let ids = |it: Vec<String>| target_ids(&vocabulary.tokenizer, limits, &it, &|| true);
    let targets = settings.list("targets").map(ids).transpose();
    let targets = targets.map_err(|error| settings.wrong("targets", error))?;
    let top_k = settings.count("top_k")?.unwrap_or(5);
    let spec = spec(
        settings.source,
        &[
            port(LOGITS, FLOATS, &[None, None, None]),
            port(IDS, INTEGERS, &[None, None]),
            optional(MASK, INTEGERS, &[None, None]),
        ],
        &[port(RESULT, TEXT, &[None, Some(1)])],
    );
    Ok(Opened { spec, run: Box::new(Masks { vocabulary, mask, top_k, targets }) })
}

impl Run for Masks {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let (logits, ids) = (call.floats(LOGITS)?, call.integers(IDS)?);
        let &[rows, length, width] = &*logits.dims else {
            return Err(invalid(LOGITS, &format!("its shape is {:?}", logits.dims)));
        };
        same_tokens(&[(IDS, &ids)], rows, length)?;
        let kept = Kept::of(call, LOGITS, [rows, length])?;
        let result = |row: usize| {
            call.check()?;
            let id =
                |it: &i64| u32::try_from(*it).map_err(|_| invalid(IDS, &format!("{it} is no id")));
            let ids = kept.select(row, ids.row(row), 1);
            let ids = ids.iter().map(id).collect::<Result<Vec<u32>, _>>()?;
            let (mask, written) = &self.mask;
            let positions: Vec<usize> = (0..ids.len()).filter(|at| ids[*at] == *mask).collect();
            if positions.is_empty() {
                let problem = format!("row {row} has no mask, which is written {written}");
                return Err(RowError::Input(problem).into());
            }
            let (top_k, targets) = (self.top_k, self.targets.clone());
            let choice = targets.as_ref().map_or(width, |it| it.len());
            check_fills((ids.len(), positions.len()), top_k, choice)
                .map_err(|it| RowError::Input(it.to_string()))?;
            let values = kept.select(row, logits.row(row), width);
            let output = RowOutput { name: LOGITS, dims: vec![kept.count(row), width], values };
            let found = best(&output, &MaskWork { positions: positions.clone(), top_k, targets })?;
            let masked = Masked { ids, positions, pad: self.vocabulary.special.pad };
            let wanted = || !call.batch.stop.is_stopped();
            let found = fills(&self.vocabulary.tokenizer, &masked, &found, &wanted);
            // A batch that is stopped says so as between two rows.
            let reply =
                found.or_else(|error| call.check().and(Err(error.into()))).map(Reply::Fills)?;
            Ok(result_json(&reply, &ResultForm { text: "", is_best_only: false }))
        };
        let results = (0..rows).map(result).collect::<Result<Vec<String>, BackendError>>()?;
        Ok(vec![call.text_output(RESULT, &[rows, 1], results)?])
    }
}

//! The step `detokenize`: token ids to text.

use backend::{BackendError, NamedTensor};

use super::{
    call::{Call, invalid},
    kind::{Opened, Run},
    ports::{INTEGERS, TEXT, port, spec},
    settings::StepSettings,
    vocabulary::{self, Vocabulary},
};

pub(super) const PARAMETERS: &[&str] = &["file", "skip_special_tokens"];

struct Detokenize {
    vocabulary: Vocabulary,
    skips_special: bool,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let vocabulary = vocabulary::open(settings, false)?;
    let skips_special = settings.flag("skip_special_tokens")?.unwrap_or(true);
    let spec = spec(
        settings.source,
        &[port("input_ids", INTEGERS, &[None, None])],
        &[port("text", TEXT, &[None, Some(1)])],
    );
    Ok(Opened { spec, run: Box::new(Detokenize { vocabulary, skips_special }) })
}

impl Run for Detokenize {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let ids = call.integers("input_ids")?;
        let rows = ids.dims.first().copied().unwrap_or(0);
        let text = |row: usize| {
            call.check()?;
            let id = |it: &i64| {
                u32::try_from(*it).map_err(|_| invalid("input_ids", &format!("{it} is no id")))
            };
            let ids = ids.row(row).iter().map(id).collect::<Result<Vec<u32>, _>>()?;
            Ok(self.vocabulary.tokenizer.decode(&ids, self.skips_special)?)
        };
        let texts = (0..rows).map(text).collect::<Result<Vec<String>, BackendError>>()?;
        Ok(vec![call.text_output("text", &[rows, 1], texts)?])
    }
}

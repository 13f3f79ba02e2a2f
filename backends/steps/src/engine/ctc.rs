//! The step `ctc`: classes of frames of speech to text.

use backend::{BackendError, NamedTensor};
use inference::task::TEXT as SAID;

use super::{
    call::{Call, invalid},
    files,
    kind::{Opened, Run},
    ports::{FLOATS, TEXT, port, spec},
    settings::StepSettings,
};
use crate::{folder::CtcVocabulary, head::ctc::spell, outputs::RowOutput};

pub(super) const PARAMETERS: &[&str] = &["file", "blank", "delimiter"];

const LOGITS: &str = "logits";

struct Spelling(CtcVocabulary);

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let place = files::required(settings, "file")?;
    let mut vocabulary = CtcVocabulary::read(&place.dir, &place.name)
        .map_err(|error| settings.wrong("file", error))?;
    for key in ["blank", "delimiter"] {
        let Some(token) = settings.text(key) else { continue };
        if !vocabulary.tokens.iter().any(|it| it.as_deref() == Some(token)) {
            let problem = format!("'{token}' is no token of {}", place.name);
            return Err(settings.wrong(key, problem));
        }
        match key {
            "blank" => vocabulary.blank = Some(token.into()),
            _ => vocabulary.delimiter = Some(token.into()),
        }
    }
    let spec = spec(
        settings.source,
        &[port(LOGITS, FLOATS, &[None, None, None])],
        &[port(SAID, TEXT, &[None, Some(1)])],
    );
    Ok(Opened { spec, run: Box::new(Spelling(vocabulary)) })
}

impl Run for Spelling {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let logits = call.floats(LOGITS)?;
        let &[rows, frames, classes] = &*logits.dims else {
            return Err(invalid(LOGITS, &format!("its shape is {:?}", logits.dims)));
        };
        let text = |row: usize| {
            call.check()?;
            let dims = vec![frames, classes];
            let output = RowOutput { name: LOGITS, dims, values: logits.row(row).into() };
            Ok(spell(&output, &self.0)?)
        };
        let texts = (0..rows).map(text).collect::<Result<Vec<String>, BackendError>>()?;
        let output = |name: &std::sync::Arc<str>| call.text_output(name, &[rows, 1], &texts);
        call.batch.outputs.iter().map(output).collect()
    }
}

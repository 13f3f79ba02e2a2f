//! XGBoost's dialect on `/invocations`: what its container takes, and the replies that it gives.

mod delimited;
mod objective;
mod options;
mod predict;

use backend::NamedTensor;

pub use objective::{CLASSES, Objective, PARAMETER};
pub use options::{OutputKey, XgboostCsv, XgboostOptions};

use super::{
    EncodedReply,
    expansion::{self, Separators},
    libsvm,
    matrix::{self, MissingValue},
    negotiate::{LinesName, Media},
    predictions::Lists,
    recordio,
    reply_size::{self, TextForm},
};
use inference::{error::Error, request::InferenceResponse, signature::Signature};
use predict::Raw;

/// The formats that a reply can have.
pub const OFFERED: [Media; 6] = [
    Media::Csv,
    Media::Json,
    Media::JsonLines(LinesName::JsonLines),
    Media::JsonLines(LinesName::Ndjson),
    Media::JsonLines(LinesName::Jsons),
    Media::RecordIo,
];

/// How a reply is written.
const FORM: TextForm = TextForm::QUOTED;

/// Bytes of the largest number of a class and of the comma behind it.
const LONGEST_LABEL: usize = 8;

/// Bytes of the longest number and of the comma behind it.
const LONGEST_NUMBER: usize = 17;

/// The name of a prediction in replies that give names.
const SCORE: &str = "score";

/// The inputs in a body; `None` where the format is not one of XGBoost's, or the model takes more than rows of
/// numbers.
///
/// # Errors
/// [`Error::UnsupportedMediaType`] where the body cannot be read; [`Error::InvalidInput`] where its rows are not
/// the model's.
pub fn decode(
    signature: &Signature,
    settings: &XgboostOptions,
    media: Media,
    body: &[u8],
) -> Option<Result<Vec<NamedTensor>, Error>> {
    matrix::numbers(signature)?;
    let inputs = match media {
        Media::Csv => delimited::decode(signature, body),
        Media::Libsvm => libsvm::decode(signature, settings.index_base, body),
        Media::RecordIo => recordio::decode(signature, MissingValue::Nan, body),
        Media::Json | Media::JsonLines(_) | Media::Npy | Media::Npz | Media::Binary => return None,
    };
    Some(inputs.map_err(|error| match error {
        Error::InvalidRequest(problem) => Error::UnsupportedMediaType(problem),
        other => other,
    }))
}

/// Bytes that [`decode`] takes at most beside the body; `None` where it does not read the format.
pub fn expanded(signature: &Signature, media: Media, body: &[u8], loose: usize) -> Option<usize> {
    matrix::numbers(signature)?;
    match media {
        Media::Csv => {
            // What records leave out at their ends is made up for.
            let rows = 1 + expansion::count(body, |it| it == b'\n');
            let completed = matrix::width_of(signature)
                .map_or(0, |width| matrix::expanded(signature, body.len(), rows, width));
            let given = expansion::of_rows(signature, Separators::Fields, body, loose);
            Some(given.max(completed))
        }
        Media::Libsvm => Some(libsvm::expanded(signature, body)),
        Media::RecordIo => Some(recordio::expanded(signature, body)),
        Media::Json | Media::JsonLines(_) | Media::Npy | Media::Npz | Media::Binary => None,
    }
}

/// The form of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// One of [`OFFERED`].
    pub media: Media,
    /// What the model was trained for, where it says so.
    pub objective: Option<Objective>,
    /// Classes that it tells apart, where it says so.
    pub classes: Option<usize>,
    /// What is said of each prediction, and how.
    pub settings: XgboostOptions,
}

impl Reply {
    /// Bytes of memory that [`encode`] takes at most beside the outputs, of which an estimate of up to `rough` may be
    /// rough.
    pub fn expanded(&self, response: &InferenceResponse, rough: usize) -> usize {
        let of_outputs = reply_size::of_response(response, FORM, rough);
        let rows = response.outputs.iter().filter_map(|it| it.tensor.shape().rows()).max();
        let rows = rows.unwrap_or(1).max(1);
        // The number as it is, and its text.
        let numbers = |count: usize, length: usize| {
            let each = size_of::<i64>() + FORM.copies * (length + FORM.element);
            count.saturating_mul(each)
        };
        let of_key = |key: &OutputKey| {
            let said = match key {
                OutputKey::Labels => {
                    let elements = response.outputs.iter().map(|it| it.tensor.elements());
                    let of_outputs = elements.max().unwrap_or(0).max(2 * rows);
                    let count = rows.saturating_mul(predict::listed(self.classes).unwrap_or(0));
                    numbers(count.max(of_outputs), LONGEST_LABEL)
                }
                OutputKey::Probabilities | OutputKey::RawScores => {
                    of_outputs.saturating_add(numbers(2 * rows, LONGEST_NUMBER))
                }
                _ => numbers(rows, LONGEST_NUMBER),
            };
            said.saturating_add(rows.saturating_mul(FORM.copies * (key.name().len() + 8)))
        };
        let of_keys = self.settings.output.iter().map(of_key).fold(0, usize::saturating_add);
        of_keys.max(of_outputs)
    }
}

/// The reply: the predictions, or what was asked for of each.
///
/// # Errors
/// When the outputs are no predictions.
pub fn encode(
    reply: &Reply,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    let Reply { media, objective, classes, settings } = reply;
    let raw = Raw::of(*objective, *classes, signature, response)?;
    let selected = !settings.output.is_empty();
    let predictions = match selected {
        true => raw.select(&settings.output)?,
        false => raw.scores(SCORE)?,
    };
    match (media, settings.csv) {
        (Media::Json, _) => predictions.json(),
        (Media::JsonLines(name), _) => predictions.json_lines(*name),
        (Media::RecordIo, _) => predictions.recordio(),
        (_, XgboostCsv::Joined) if !selected => predictions.csv(Lists::Bare, ",", ""),
        _ if selected => predictions.csv(Lists::Quoted, "\n", "\n"),
        _ => predictions.csv(Lists::Bare, "\n", "\n"),
    }
}

#[cfg(test)]
mod tests;

//! XGBoost's dialect on `/invocations`: what its container takes, and the replies that it gives.

mod delimited;
mod objective;
mod options;
mod predict;

use backend::NamedTensor;

pub use objective::{Objective, PARAMETER};
pub use options::{OutputKey, XgboostCsv, XgboostOptions};

use super::{
    EncodedReply,
    expansion::{self, Separators},
    libsvm,
    matrix::{self, MissingValue},
    negotiate::{LinesName, Media},
    predictions::Lists,
    recordio,
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
    /// What is said of each prediction, and how.
    pub settings: XgboostOptions,
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
    let Reply { media, objective, settings } = reply;
    let raw = Raw::of(*objective, signature, response)?;
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

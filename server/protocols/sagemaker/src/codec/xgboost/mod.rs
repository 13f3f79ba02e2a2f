//! XGBoost's dialect on `/invocations`: what its container takes, and the replies that it gives.

mod delimited;
mod objective;
mod options;
mod predict;

use backend::NamedTensor;

pub use objective::{CLASSES, Objective, PARAMETER, PICKLED, TARGETS};
pub use options::{OutputKey, XgboostCsv, XgboostOptions};
pub use predict::Told;

use super::predictions::{CsvForm, Lists};
use formats::{
    EncodedReply, libsvm,
    matrix::{self, LeftOut, MissingValue},
    negotiate::{LinesName, Media},
    recordio,
    reply_size::{self, TextForm},
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};
use predict::Raw;

/// Which of the container's programs answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Endpoint {
    /// The application of an endpoint with one model.
    #[default]
    Single,
    /// The handler of a multi-model endpoint, which has other forms.
    MultiModel,
}

impl Endpoint {
    /// The media type of a reply to a client that accepts any.
    pub fn reply_media(self) -> Media {
        match self {
            Endpoint::Single => Media::Csv,
            Endpoint::MultiModel => Media::Json,
        }
    }

    /// What of each prediction a reply says; the handler knows no choice.
    pub fn output(self, settings: &XgboostOptions) -> &[OutputKey] {
        match self {
            Endpoint::Single => &settings.output,
            Endpoint::MultiModel => &[],
        }
    }
}

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
/// numbers. Rows may have fewer columns than the model, save that of a `Booster` in a pickle CSV and records may have
/// one less: so the container has it.
///
/// # Errors
/// [`Error::UnsupportedMediaType`] where the body cannot be read; [`Error::InvalidInput`] where its rows are not
/// the model's.
pub fn decode(
    signature: &Signature,
    settings: &XgboostOptions,
    is_pickled: bool,
    media: Media,
    body: &[u8],
    grant: &Grant,
) -> Option<Result<Vec<NamedTensor>, Error>> {
    matrix::numbers(signature)?;
    let left_out = if is_pickled { LeftOut::One } else { LeftOut::Any };
    let inputs = match media {
        Media::Csv => delimited::decode(signature, left_out, body, grant),
        Media::Libsvm => {
            libsvm::decode(signature, settings.index_base, MissingValue::Nan, body, grant)
        }
        Media::RecordIo => recordio::decode(signature, MissingValue::Nan, left_out, body, grant),
        Media::Json | Media::JsonLines(_) | Media::Npy | Media::Npz | Media::Binary => return None,
    };
    Some(inputs.map_err(|error| match error {
        Error::InvalidRequest(problem) => Error::UnsupportedMediaType(problem),
        other => other,
    }))
}

/// The form of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// One of [`OFFERED`].
    pub media: Media,
    /// What the model says of itself.
    pub told: Told,
    /// Which of the container's programs answers.
    pub endpoint: Endpoint,
    /// In a batch job?
    pub is_batch: bool,
    /// What is said of each prediction, and how.
    pub settings: XgboostOptions,
}

impl Reply {
    /// Bytes of memory that [`encode`] takes at most beside the outputs, of which an estimate of up to `rough` may be
    /// rough.
    fn bound(&self, response: &InferenceResponse, rough: usize) -> usize {
        let of_outputs = reply_size::of_response(response, FORM, rough);
        let rows = response.outputs.iter().filter_map(|it| it.tensor.shape().rows()).max();
        let rows = rows.unwrap_or(1).max(1);
        let elements = response.outputs.iter().map(|it| it.tensor.elements());
        // Of several targets each has what others have of a row.
        let said = elements.max().unwrap_or(0).max(rows);
        // The number as it is, and its text.
        let numbers = |count: usize, length: usize| {
            let each = size_of::<i64>() + FORM.copies * (length + FORM.element);
            count.saturating_mul(each)
        };
        let of_key = |key: &OutputKey| {
            let of_key = match key {
                OutputKey::Labels => {
                    let of_outputs = said.max(2 * rows);
                    let count =
                        rows.saturating_mul(predict::listed(self.told.classes).unwrap_or(0));
                    numbers(count.max(of_outputs), LONGEST_LABEL)
                }
                OutputKey::Probabilities | OutputKey::RawScores => {
                    of_outputs.saturating_add(numbers(2 * said, LONGEST_NUMBER))
                }
                _ => numbers(said, LONGEST_NUMBER),
            };
            of_key.saturating_add(rows.saturating_mul(FORM.copies * (key.name().len() + 8)))
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
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| reply.bound(response, loose))?;
    let Reply { media, told, endpoint, is_batch, settings } = reply;
    let raw = Raw::of(told, signature, response)?;
    let output = endpoint.output(settings);
    if !output.is_empty() {
        let predictions = raw.select(output)?;
        // In a batch job replies are put together, each with its end.
        let after = if *is_batch { "\n" } else { "" };
        return match media {
            Media::Json => predictions.json(),
            Media::JsonLines(name) => predictions.json_lines(*name),
            Media::RecordIo => predictions.recordio(),
            _ => predictions.csv(CsvForm { lists: Lists::Quoted, between: "\n", after }),
        };
    }
    let predictions = raw.scores(SCORE)?;
    let lines = |lists| predictions.csv(CsvForm { lists, between: "\n", after: "\n" });
    let joined = || predictions.csv(CsvForm { lists: Lists::Bare, between: ",", after: "" });
    match (media, endpoint) {
        // Whatever it is called, it is a line for each record.
        (_, Endpoint::Single) | (Media::Csv, Endpoint::MultiModel) if *is_batch => {
            let reply = match settings.csv {
                XgboostCsv::Joined => joined()?,
                XgboostCsv::Lines => lines(Lists::Bare)?,
            };
            Ok(EncodedReply { content_type: media.name().into(), ..reply })
        }
        (Media::Json, Endpoint::Single) => predictions.json(),
        (Media::Json, Endpoint::MultiModel) => predictions.json_list(),
        (Media::JsonLines(name), _) => predictions.json_lines(*name),
        (Media::RecordIo, _) => predictions.recordio(),
        (_, Endpoint::MultiModel) => joined(),
        (_, Endpoint::Single) => match settings.csv {
            XgboostCsv::Joined => joined(),
            XgboostCsv::Lines => lines(Lists::Columns),
        },
    }
}

#[cfg(test)]
mod tests;

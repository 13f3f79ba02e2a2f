//! Bodies whose replies have an object for each row: those of XGBoost's container and of AWS's built-in algorithms.

use backend::DataType;

use super::dialect::Dialect;
use super::{Decoded, Invocation, Options, ReplyFormat, choose, on_a_line};
use crate::{
    EncodedReply, builtin,
    json::Reader,
    libsvm,
    matrix::MissingValue,
    negotiate::{Declared, LinesName, Media},
    predictions::Predictions,
    recordio, reply,
    xgboost::{self, Objective, Reply},
};
use inference::{
    error::Error,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// Are this request and its reply those of XGBoost's container? The operator's word counts first, then that of the
/// model, then whose container this one takes the place of.
pub(super) fn speaks_xgboost(options: &Options, invocation: &Invocation) -> bool {
    match options.dialect {
        Some(dialect) => dialect == Dialect::Xgboost,
        None => {
            let is_named = invocation.objective.is_some() || !options.xgboost.output.is_empty();
            is_named || options.vendor == Some(Dialect::Xgboost) || is_libsvm(invocation)
        }
    }
}

/// Nobody else takes libsvm.
fn is_libsvm(invocation: &Invocation) -> bool {
    invocation.declared == Declared::As(Media::Libsvm)
}

/// The request in a body as XGBoost's container takes it, and the form of its reply; `None` where the body is of
/// another kind.
///
/// # Errors
/// Those of [`xgboost::decode`]; [`Error::NotAcceptable`].
pub(super) fn xgboost(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    media: Media,
    body: &[u8],
) -> Result<Option<(InferenceRequest, ReplyFormat)>, Error> {
    if !is_xgboost(options, invocation, media) {
        return Ok(None);
    }
    let settings = &options.xgboost;
    let Some(inputs) = xgboost::decode(signature, settings, media, body) else { return Ok(None) };
    let inputs = inputs?;
    // In a batch job the container ignores the header, unless its output is configured.
    let media = match options.batch && settings.output.is_empty() {
        true => Media::Csv,
        false => choose(invocation, options, Media::Csv, &xgboost::OFFERED)?,
    };
    let objective = invocation.objective.as_deref().map(Objective::from_name).transpose()?;
    let classes = invocation.classes;
    let reply = Reply { media, objective, classes, settings: settings.clone() };
    let format = on_a_line(options, ReplyFormat::Xgboost(reply));
    Ok(Some((InferenceRequest { inputs, ..InferenceRequest::default() }, format)))
}

/// Is a body of this format read as XGBoost's container reads it?
pub(super) fn is_xgboost(options: &Options, invocation: &Invocation, media: Media) -> bool {
    // libsvm may also have come without its type.
    let own = media == Media::Libsvm && options.dialect.is_none();
    own || speaks_xgboost(options, invocation)
}

/// Records of AWS's algorithms.
pub(super) fn recordio(signature: &Signature, body: &[u8]) -> Result<Decoded, Error> {
    let inputs = recordio::decode(signature, MissingValue::Zero, body)?;
    Ok(Decoded { envelope: OBJECTS, ..Decoded::rows(inputs, Media::RecordIo) })
}

/// libsvm in a dialect that was chosen, and is another.
pub(super) fn libsvm(
    signature: &Signature,
    options: &Options,
    body: &[u8],
) -> Result<Decoded, Error> {
    let inputs = libsvm::decode(signature, options.xgboost.index_base, body)?;
    Ok(Decoded::rows(inputs, Media::Csv))
}

/// `{"instances": [..]}` of AWS's algorithms.
pub(super) fn instances(signature: &Signature, reader: &mut Reader<'_>) -> Result<Decoded, Error> {
    let mut inputs = Vec::new();
    reader.object(|reader, key| match &*key {
        "instances" => {
            inputs = builtin::read_list(signature, reader)?;
            Ok(())
        }
        _ => reader.skip_value(),
    })?;
    reader.finish()?;
    Ok(Decoded::stated(inputs, OBJECTS))
}

/// Rows of AWS's algorithms, one after another.
pub(super) fn lines(
    signature: &Signature,
    reader: &mut Reader<'_>,
    in_record: impl Fn(usize, Error) -> Error,
) -> Result<Decoded, Error> {
    let inputs = builtin::read_lines(signature, reader, in_record)?;
    Ok(Decoded { envelope: OBJECTS, ..Decoded::rows(inputs, Media::Json) })
}

/// The form of a JSON reply to one of these.
const OBJECTS: ReplyFormat = ReplyFormat::Objects(Media::Json);

/// The form of the reply to AWS's algorithms' rows.
pub(super) fn reply_format(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    decoded: &Decoded,
) -> Result<ReplyFormat, Error> {
    const ALL: [Media; 6] = [
        Media::Json,
        Media::JsonLines(LinesName::JsonLines),
        Media::JsonLines(LinesName::Ndjson),
        Media::JsonLines(LinesName::Jsons),
        Media::Csv,
        Media::RecordIo,
    ];
    let [without_records @ .., _] = &ALL;
    let strings = signature.outputs.iter().any(|it| it.dtype == DataType::Bytes);
    let offered = if strings { without_records } else { &ALL[..] };
    let family = if offered.contains(&decoded.family) { decoded.family } else { Media::Json };
    Ok(match choose(invocation, options, family, offered)? {
        Media::Json if options.batch && decoded.lines => {
            ReplyFormat::Objects(Media::JsonLines(LinesName::JsonLines))
        }
        media => on_a_line(options, ReplyFormat::Objects(media)),
    })
}

/// A reply with an object for each row.
pub(super) fn encode(
    media: Media,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    let predictions = || Predictions::of_outputs(signature, response);
    match media {
        Media::JsonLines(name) => predictions()?.json_lines(name),
        Media::RecordIo => predictions()?.recordio(),
        Media::Csv => reply::csv(signature, response),
        Media::Json | Media::Npy | Media::Npz | Media::Libsvm | Media::Binary => {
            predictions()?.json()
        }
    }
}

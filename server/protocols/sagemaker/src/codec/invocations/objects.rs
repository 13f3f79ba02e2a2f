//! Bodies whose replies have an object for each row: those of XGBoost's container and of AWS's built-in algorithms.

use backend::DataType;

use super::{Decoded, Invocation, Options, ReplyFormat, choose, dialect::Dialect, on_a_line};
use crate::codec::{
    builtin,
    predictions::Predictions,
    xgboost::{self, Endpoint, Objective, Reply, Told},
};
use formats::{
    EncodedReply,
    json::JsonReader,
    libsvm,
    matrix::{LeftOut, MissingValue},
    negotiate::{self, Declared, LinesName, Media},
    recordio, reply,
    reply_size::{self, TextForm},
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// Are this request and its reply those of XGBoost's container? The operator's word counts first, then that of the
/// model, then whose container this one takes the place of.
pub(super) fn speaks_xgboost(options: &Options, invocation: &Invocation) -> bool {
    match options.dialect {
        Some(dialect) => dialect == Dialect::Xgboost,
        None => {
            let is_named =
                invocation.model.objective.is_some() || !options.xgboost.output.is_empty();
            is_named || options.vendor == Some(Dialect::Xgboost) || is_libsvm(invocation)
        }
    }
}

/// Of models of which nothing is known, nobody else takes libsvm.
fn is_libsvm(invocation: &Invocation) -> bool {
    let is_of_another = invocation.model.library.is_some();
    !is_of_another && invocation.declared == Declared::As(Media::Libsvm)
}

/// The request in a body as XGBoost's container takes it, and the format of its reply; `None` where the body is of
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
    grant: &Grant,
) -> Result<Option<(InferenceRequest, ReplyFormat)>, Error> {
    if !is_xgboost(options, invocation, media) {
        return Ok(None);
    }
    let (settings, says) = (&options.xgboost, &invocation.model);
    if media == Media::Csv {
        check_label_size(invocation)?;
    }
    let inputs = xgboost::decode(signature, settings, says.is_pickled, media, body, grant);
    let Some(inputs) = inputs else { return Ok(None) };
    let inputs = inputs?;
    let endpoint = match invocation.is_multi_model {
        true => Endpoint::MultiModel,
        false => Endpoint::Single,
    };
    let media = choose(invocation, options, endpoint.reply_media(), &xgboost::OFFERED)?;
    let objective = says.objective.as_deref().map(Objective::from_name).transpose()?;
    let told = Told { objective, classes: says.classes, targets: says.targets };
    let (is_batch, settings) = (options.batch, settings.clone());
    let reply = Reply { media, told, endpoint, is_batch, settings };
    let request = InferenceRequest { inputs, ..InferenceRequest::default() };
    Ok(Some((request, ReplyFormat::Xgboost(reply))))
}

/// That CSV is not said to have another number of labels than XGBoost's container takes: one, which is not there when
/// it predicts.
///
/// # Errors
/// [`Error::UnsupportedMediaType`].
fn check_label_size(invocation: &Invocation) -> Result<(), Error> {
    let content_type = invocation.content_type.as_deref().unwrap_or_default();
    match negotiate::parameter(content_type, "label_size") {
        Some(size) if size != "1" => Err(Error::UnsupportedMediaType(format!(
            "content type '{content_type}': label_size is {size}, expected 1 or no such parameter"
        ))),
        _ => Ok(()),
    }
}

/// Is a body of this format read as XGBoost's container reads it?
fn is_xgboost(options: &Options, invocation: &Invocation, media: Media) -> bool {
    // libsvm may also have come without its type.
    let is_of_another = invocation.model.library.is_some();
    let own = media == Media::Libsvm && options.dialect.is_none() && !is_of_another;
    own || speaks_xgboost(options, invocation)
}

/// Records of AWS's algorithms.
pub(super) fn recordio(
    signature: &Signature,
    body: &[u8],
    grant: &Grant,
) -> Result<Decoded, Error> {
    let inputs = recordio::decode(signature, MissingValue::Zero, LeftOut::Any, body, grant)?;
    Ok(Decoded { json_reply: OBJECTS, ..Decoded::rows(inputs, Media::RecordIo) })
}

/// libsvm in a dialect that was chosen, and is another; and of models of other libraries than XGBoost, to which what it
/// leaves out is zero.
pub(super) fn libsvm(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    body: &[u8],
    grant: &Grant,
) -> Result<Decoded, Error> {
    let missing = match invocation.model.library {
        Some(_) => MissingValue::Zero,
        None => MissingValue::Nan,
    };
    let inputs = libsvm::decode(signature, options.xgboost.index_base, missing, body, grant)?;
    Ok(Decoded::rows(inputs, Media::Csv))
}

/// `{"instances": [..]}` of AWS's algorithms.
pub(super) fn instances(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
) -> Result<Decoded, Error> {
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
    reader: &mut JsonReader<'_>,
    in_record: impl Fn(usize, Error) -> Error,
) -> Result<Decoded, Error> {
    let inputs = builtin::read_lines(signature, reader, in_record)?;
    Ok(Decoded { json_reply: OBJECTS, ..Decoded::rows(inputs, Media::Json) })
}

/// The format of a JSON reply to one of these.
const OBJECTS: ReplyFormat = ReplyFormat::Objects(Media::Json);

/// The format of the reply to AWS's algorithms' rows.
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
    let reply_media =
        if offered.contains(&decoded.reply_media) { decoded.reply_media } else { Media::Json };
    Ok(match choose(invocation, options, reply_media, offered)? {
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
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    let predictions = || {
        grant.take(|loose| reply_size::of_response(response, TextForm::QUOTED, loose))?;
        Predictions::of_outputs(signature, response)
    };
    match media {
        Media::JsonLines(name) => predictions()?.json_lines(name),
        Media::RecordIo => predictions()?.recordio(),
        Media::Csv => reply::csv(signature, response, grant),
        Media::Json | Media::Npy | Media::Npz | Media::Libsvm | Media::Binary => {
            predictions()?.json()
        }
    }
}

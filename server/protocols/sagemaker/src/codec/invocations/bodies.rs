//! Bodies of `/invocations` that are not JSON: rows of text, files of NumPy's, images, and bare elements.

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use super::{
    Decoded, Invocation, Options, ReplyFormat,
    dialect_rules::Tables,
    huggingface::{self, PipelineReply},
};
use formats::{
    csv, expansion, inputs, medium,
    negotiate::{self, Media},
    npy, npz, shapes, tfs,
};
use inference::{
    error::Error,
    grant::Grant,
    signature::{Port, Signature},
    task::Medium,
};

/// Rows of fields. A first record of names is one in the dialects that have no other. Else it is one where it has the
/// names of inputs, or `inputs`, which is Hugging Face's name of a text; in its dialect also where words take the place
/// of numbers. A pipeline answers all of them as it does a list in JSON.
pub(super) fn csv(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    body: &[u8],
    grant: &Grant,
) -> Result<Decoded, Error> {
    let is_headed = has_header(signature, invocation, options, body);
    let mut inputs = match is_headed {
        true => csv::decode_table(signature, body, grant)?,
        false => csv::decode(signature, body, grant)?,
    };
    if options.rules().scalars {
        inputs.iter_mut().for_each(|it| shapes::without_columns(signature, it));
    }
    let of_texts =
        || is_headed && huggingface::is_pipeline(signature) && csv::is_headed(body, "inputs");
    let json_reply = match signature.pipeline.is_some() || of_texts() {
        true => ReplyFormat::HuggingFace(huggingface::of_list(signature, &inputs)),
        false => ReplyFormat::Rows,
    };
    Ok(Decoded { json_reply, is_headed, ..Decoded::rows(inputs, Media::Csv) })
}

/// Does the first record name the columns?
fn has_header(
    signature: &Signature,
    invocation: &Invocation,
    options: &Options,
    body: &[u8],
) -> bool {
    let content_type = invocation.content_type.as_deref().unwrap_or_default();
    if let Some(said) = negotiate::csv_header(content_type) {
        return said;
    }
    let tables = options.rules().tables;
    tables == Tables::All
        || huggingface::is_pipeline(signature) && csv::is_headed(body, "inputs")
        || csv::names_columns(signature, body)
        || tables == Tables::Words && csv::begins_with_words(signature, body)
}

/// Arrays by name, or a sparse matrix.
pub(super) fn npz(
    signature: &Signature,
    options: &Options,
    body: &Bytes,
    grant: &Grant,
) -> Result<Decoded, Error> {
    let inputs = npz::decode(signature, body, options.largest_body, grant)?;
    Ok(Decoded::whole(inputs, Media::Npy))
}

pub(super) fn npy(signature: &Signature, body: &Bytes, grant: &Grant) -> Result<Decoded, Error> {
    let port = inputs::only_input(signature).ok_or_else(|| {
        let names = inputs::names_of(signature);
        Error::InvalidRequest(format!("npy carries one input, the model has {names}"))
    })?;
    let tensor = shapes::as_rows_or_one(signature, port, npy::decode(port, body, grant)?);
    let inputs = vec![NamedTensor { name: port.name.clone(), tensor }];
    Ok(Decoded::whole(inputs, Media::Npy))
}

/// The bytes of an image, a sound or a text as the one element of a row.
pub(super) fn file(
    signature: &Signature,
    kind: &str,
    pipeline: PipelineReply,
    body: &Bytes,
    grant: &Grant,
) -> Result<Decoded, Error> {
    let port = inputs::only_input(signature).filter(|it| {
        it.dtype == DataType::Bytes && it.dims.iter().all(|dim| dim.is_none_or(|it| it == 1))
    });
    let Some(port) = port else {
        return Err(Error::UnsupportedMediaType(not_a_file(signature, kind)));
    };
    expansion::hold_ports(signature, grant)?;
    let inputs = vec![medium::input(signature, port, body, grant)?];
    if signature.pipeline.is_some() {
        let json_reply = ReplyFormat::HuggingFace(huggingface::of_body(signature, &inputs));
        return Ok(Decoded { json_reply, ..Decoded::whole(inputs, Media::Json) });
    }
    let decoded = Decoded::whole(inputs, Media::Json);
    // A classifier says what is in it as Hugging Face's pipelines do.
    match tfs::Results::of(signature, tfs::Method::Classify) {
        Ok(_) => Ok(Decoded { json_reply: ReplyFormat::HuggingFace(pipeline), ..decoded }),
        Err(_) => Ok(decoded),
    }
}

/// Why a model of tensors takes no image, sound or text, and what to do.
fn not_a_file(signature: &Signature, kind: &str) -> String {
    let (model, inputs) = (&signature.model, inputs_of(signature));
    let medium = medium::of_type(kind).unwrap_or(Medium::Text);
    let (what, beside) = match medium {
        Medium::Image => ("an image", "preprocessor_config.json"),
        Medium::Audio => ("a sound", "preprocessor_config.json"),
        Medium::Text => ("a text", "tokenizer.json"),
    };
    format!(
        "content type '{kind}': model '{model}' takes tensors ({inputs}), and nothing says how {what} becomes them. \
         Serve it in a folder with the config.json and {beside} of its training, which make it a pipeline, or send \
         tensors. Only a model whose one input is BYTES of one element unpacks {what} itself. Supported otherwise: {}",
        negotiate::supported()
    )
}

/// One row of the only input, without any framing.
pub(super) fn raw(signature: &Signature, body: &Bytes) -> Result<Decoded, Error> {
    let port = inputs::only_input(signature);
    let dims = port.and_then(|it| it.dims.iter().copied().collect::<Option<Vec<usize>>>());
    let (Some(port), Some(dims)) = (port, dims) else {
        return Err(unrecognised("the only input has a fixed size"));
    };
    let rows = signature.batches().then_some(1);
    let shape: Shape = rows.into_iter().chain(dims).collect();
    if port.dtype == DataType::Bytes {
        return Err(unrecognised("the only input has elements of a fixed size"));
    }
    let tensor = Tensor::new(port.dtype, shape, body.clone())
        .map_err(|problem| unrecognised(&format!("it is one row of '{}': {problem}", port.name)))?;
    if port.dtype == DataType::Bool && body.iter().any(|&it| it > 1) {
        return Err(Error::input(&*port.name, "expected bytes of 0 or 1, given others"));
    }
    let inputs = vec![NamedTensor { name: port.name.clone(), tensor }];
    Ok(Decoded::whole(inputs, Media::Json))
}

fn unrecognised(unless: &str) -> Error {
    let supported = negotiate::supported();
    Error::UnsupportedMediaType(format!(
        "the content type says nothing, and the body is neither JSON, npy, npz, an image, RecordIO, \
         libsvm nor CSV text, nor can it be a raw tensor unless {unless}; supported content types: {supported}"
    ))
}

/// All inputs with type and shape, for an error.
fn inputs_of(signature: &Signature) -> String {
    let input = |it: &Port| format!("'{}' {} {}", it.name, it.dtype, signature.shape_text(it));
    signature.inputs.iter().map(input).collect::<Vec<_>>().join(", ")
}

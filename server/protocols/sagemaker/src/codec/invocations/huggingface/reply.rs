//! What Hugging Face's pipelines say: classes, nested numbers, or an object for each text; as JSON, lines or CSV.

use backend::{DataType, NamedTensor, Tensor};

use super::{
    pipeline::{PipelineReply, Top},
    result, result_csv,
};
use formats::{
    EncodedReply,
    json::write,
    negotiate::Media,
    reply,
    reply_size::{self, TextForm},
    tfs::{Classes, Method, Results, Scored},
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};

/// What the pipeline says of each row: the best class, where the model has names for its classes; numbers, nested,
/// where its only output is of them; else an object of all outputs.
///
/// # Errors
/// When an output has a NaN or an infinity, for which this JSON has no words, or a string that is no text.
pub(in crate::codec::invocations) fn encode(
    pipeline: PipelineReply,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    if let Some(reply) = result::json(pipeline, response).filter(|_| signature.pipeline.is_some()) {
        return Ok(reply);
    }
    for output in &response.outputs {
        check_numbers(output)?;
    }
    if let Ok(Results::Classes(scored)) = Results::of(signature, Method::Classify) {
        return classes(pipeline, &scored, signature, response);
    }
    let taken = Grant::uncounted();
    match response.outputs.as_slice() {
        [only] if only.tensor.dtype() != DataType::Bytes => reply::bare(response, &taken),
        _ => reply::objects(signature, response, pipeline.one, &taken),
    }
}

/// The same with one line for each row.
///
/// # Errors
/// Those of [`encode`].
pub(in crate::codec::invocations) fn encode_lines(
    pipeline: PipelineReply,
    media: Media,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    if let Some(reply) = result::lines(media, response).filter(|_| signature.pipeline.is_some()) {
        return Ok(reply);
    }
    for output in &response.outputs {
        check_numbers(output)?;
    }
    let Ok(Results::Classes(scored)) = Results::of(signature, Method::Classify) else {
        return reply::json_lines(media, signature, response, &Grant::uncounted());
    };
    let mut out = Vec::new();
    for row in Classes::of(&scored, signature, response)?.rows() {
        write_classes(&mut out, pipeline.top, row.collect());
        out.push(b'\n');
    }
    Ok(EncodedReply { content_type: media.name().into(), ..EncodedReply::json(out) })
}

/// The same as CSV, under a record with the names of its columns: what a pipeline says, by its keys; of other models
/// the best class of each row, or all outputs.
///
/// # Errors
/// When the response cannot be split into rows.
pub(in crate::codec::invocations) fn encode_csv(
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    if let Some(pipeline) = &signature.pipeline
        && let Some(rows) = result::rows(response)
    {
        return result_csv::encode(pipeline.task, rows);
    }
    let Ok(Results::Classes(scored)) = Results::of(signature, Method::Classify) else {
        return reply::csv_with_names(signature, response, &Grant::uncounted());
    };
    let mut out = b"label,score\n".to_vec();
    for row in Classes::of(&scored, signature, response)?.rows() {
        let (label, score) =
            row.max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or_default();
        reply::field(&mut out, label.as_bytes());
        out.push(b',');
        write::number(&mut out, score);
        out.push(b'\n');
    }
    Ok(EncodedReply { content_type: Media::Csv.name().into(), ..EncodedReply::json(out) })
}

/// Asks for the bytes of any reply of these.
fn take(grant: &Grant, response: &InferenceResponse) -> Result<(), Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::LABELLED, loose))
}

fn classes(
    pipeline: PipelineReply,
    scored: &Scored,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    let mut out = Vec::new();
    // A text by itself with several classes has their list; all others have a list of what there is for each.
    let bare = pipeline.one && pipeline.top != Top::Open;
    if !bare {
        out.push(b'[');
    }
    for row in Classes::of(scored, signature, response)?.rows() {
        write::item(&mut out);
        write_classes(&mut out, pipeline.top, row.collect());
    }
    if !bare {
        out.push(b']');
    }
    Ok(EncodedReply::json(out))
}

/// The best of these classes.
fn write_classes(out: &mut Vec<u8>, top: Top, mut classes: Vec<(&str, f32)>) {
    classes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let write = |out: &mut Vec<u8>, (label, score): &(&str, f32)| {
        out.push(b'{');
        write::key(out, "label");
        write::string(out, label);
        write::key(out, "score");
        write::number(out, *score);
        out.push(b'}');
    };
    match (top, classes.first()) {
        (Top::Open, Some(best)) => write(out, best),
        (Top::Open, None) => out.extend_from_slice(b"null"),
        (Top::Most(most), _) => {
            out.push(b'[');
            for class in classes.iter().take(most) {
                write::item(out);
                write(out, class);
            }
            out.push(b']');
        }
    }
}

/// That all elements are numbers, and all strings text.
fn check_numbers(NamedTensor { name, tensor }: &NamedTensor) -> Result<(), Error> {
    let odd = match tensor.dtype() {
        DataType::Fp32 => position(tensor, |it: f32| !it.is_finite()),
        DataType::Fp64 => position(tensor, |it: f64| !it.is_finite()),
        DataType::Fp16 => position(tensor, |it: half::f16| !it.is_finite()),
        DataType::Bf16 => position(tensor, |it: half::bf16| !it.is_finite()),
        DataType::Bytes => tensor.strings().position(|it| std::str::from_utf8(it).is_err()),
        _ => None,
    };
    odd.map_or(Ok(()), |element| {
        let what = if tensor.dtype() == DataType::Bytes { "no text" } else { "no finite number" };
        Err(Error::InvalidRequest(format!(
            "output '{name}': element {element} is {what}, for which Hugging Face's JSON has no form; accept \
             text/csv, or application/x-npy for one output of numbers"
        )))
    })
}

/// Where the first such element is.
fn position<T: backend::Element>(tensor: &Tensor, odd: impl Fn(T) -> bool) -> Option<usize> {
    let elements = tensor.segments().iter().flat_map(|it| it.chunks_exact(size_of::<T>()));
    elements.map(bytemuck::pod_read_unaligned).position(odd)
}

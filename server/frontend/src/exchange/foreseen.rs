//! A reply that can never fit, as it is known before its rows are run: by the outputs that the model declares.

use backend::{NamedTensor, Shape, Tensor};

use super::codec::Codec;
use inference::{
    error::Error,
    grant::Grant,
    limits::Permit,
    request::{InferenceRequest, InferenceResponse},
    signature::{Port, Signature},
};

/// No form of a reply takes more bytes for an element, keys and copies included. Fewer elements are not looked at.
const MOST_OF_ELEMENT: usize = 512;

/// Checks that the shortest reply that the request may get has room in the whole budget: that of zeros. `permit` is for
/// the request.
///
/// # Errors
/// [`Error::InvalidRequest`] where it has none.
pub(super) fn check<C: Codec>(
    format: &C::Format,
    signature: &Signature,
    request: &InferenceRequest,
    permit: &Permit,
) -> Result<(), Error> {
    // Replies to texts are as long as what comes out.
    if request.task.is_some() || signature.pipeline.is_some() {
        return Ok(());
    }
    let limit = permit.budget().limit();
    let is_wanted = |it: &&Port| request.outputs.is_empty() || request.outputs.contains(&it.name);
    let rows = request.rows().unwrap_or(1);
    let (mut elements, mut bytes) = (0usize, 0usize);
    for port in signature.outputs.iter().filter(is_wanted) {
        let of_rows = if signature.batches() { rows } else { 1 };
        let Some((of_output, size)) = elements_of(port, of_rows) else { continue };
        elements = elements.saturating_add(of_output);
        bytes = bytes.saturating_add(of_output.saturating_mul(size));
    }
    // Outputs that do not fit themselves are refused where room for the run is taken.
    if elements.saturating_mul(MOST_OF_ELEMENT) <= limit || limit < bytes {
        return Ok(());
    }
    let zeros = |rows: usize| {
        let outputs = signature.outputs.iter().filter(is_wanted).filter_map(|port| {
            let shape = shape(port, signature.batches().then_some(rows))?;
            let tensor = Tensor::zeros(port.dtype, shape).ok()?;
            Some(NamedTensor { name: port.name.clone(), tensor })
        });
        InferenceResponse {
            model: signature.model.clone(),
            version: signature.version,
            id: None,
            rows: request.rows().map(|_| rows),
            outputs: outputs.collect(),
            timings: None,
            parameters: Vec::new(),
        }
    };
    let asked = |rows: usize, loose: usize| {
        let grant = Grant::nothing(loose);
        // It asks first, gets nothing, and does not begin.
        let _ = C::encode(format, signature, &zeros(rows), &grant);
        grant.granted()
    };
    if asked(rows, usize::MAX).saturating_add(bytes) <= limit {
        return Ok(());
    }
    // No number has a shorter text. Each further row takes as much as the second, so that few are looked at.
    let of = |rows: usize| asked(rows, 0);
    let text = match signature.batches() && 2 < rows {
        true => {
            let (one, two) = (of(1), of(2));
            one.saturating_add(two.saturating_sub(one).saturating_mul(rows - 1))
        }
        false => of(rows),
    };
    let least = text.saturating_add(bytes);
    if least <= limit {
        return Ok(());
    }
    Err(Error::InvalidRequest(format!(
        "model '{}': the reply to {rows} rows takes {least} bytes or more while it is written, more than all requests \
         may take together (--max-inflight-bytes); {}",
        signature.model,
        C::SMALLER_REPLY
    )))
}

/// The elements of an output of so many rows, and the bytes of each. `None` where they are not known.
fn elements_of(port: &Port, rows: usize) -> Option<(usize, usize)> {
    let size = port.dtype.size().filter(|_| !port.any_rank)?;
    let dims = port.dims.iter();
    let elements =
        dims.copied().try_fold(rows, |product, it| it.map(|it| product.saturating_mul(it)))?;
    Some((elements, size))
}

/// The shape of an output of so many rows, or of a model without rows. `None` where it is not known.
fn shape(port: &Port, rows: Option<usize>) -> Option<Shape> {
    port.dtype.size().filter(|_| !port.any_rank)?;
    let dims = port.dims.iter().copied().collect::<Option<Vec<usize>>>()?;
    Some(rows.into_iter().chain(dims).collect())
}

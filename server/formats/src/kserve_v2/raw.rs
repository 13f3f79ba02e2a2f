//! The raw request: a body that is one tensor and nothing else.

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use super::format::ReplyFormat;
use crate::expansion;
use inference::{
    error::Error,
    grant::Grant,
    messages,
    request::InferenceRequest,
    signature::{Port, Signature},
};

/// The body as the single input of a model, one row of it.
pub(super) fn decode(
    signature: &Signature,
    body: Bytes,
    grant: &Grant,
) -> Result<(InferenceRequest, ReplyFormat), Error> {
    let [port] = signature.inputs.as_slice() else {
        let inputs = signature.inputs.iter();
        let inputs: Vec<String> = inputs
            .map(|it| format!("'{}' {} {}", it.name, it.dtype, signature.shape_text(it)))
            .collect();
        return Err(Error::InvalidRequest(format!(
            "{}: {}",
            messages::raw_inputs(inputs.len(), &signature.model),
            inputs.join(", ")
        )));
    };
    let (dims, data) = match port.dtype.size() {
        Some(size) => (deduce(port, size, body.len())?, body),
        None => {
            // The string is copied, with its length in front of it.
            grant.hold(body.len())?;
            expansion::hold_ports(signature, grant)?;
            string(port, &body)?
        }
    };
    let batch = signature.batches().then_some(1);
    let shape: Shape = batch.into_iter().chain(dims).collect();
    let tensor = Tensor::new(port.dtype, shape, data).map_err(|error| wrong(port, error))?;
    let inputs = vec![NamedTensor { name: port.name.clone(), tensor }];
    let format = ReplyFormat { binary_by_default: true, ..ReplyFormat::default() };
    Ok((InferenceRequest { inputs, ..InferenceRequest::default() }, format))
}

fn wrong(port: &Port, problem: impl std::fmt::Display) -> Error {
    Error::input(&*port.name, format_args!("in a raw request, {problem}"))
}

/// The dimensions of `given` bytes: at most one of the port's may be open.
fn deduce(port: &Port, size: usize, given: usize) -> Result<Vec<usize>, Error> {
    let open = port.dims.iter().filter(|it| it.is_none()).count();
    let fixed = port.dims.iter().flatten().try_fold(size, |product, &it| product.checked_mul(it));
    let shown = Shown(port);
    let problem = match (open, fixed) {
        (0, Some(expected)) if expected != given => {
            format!("expected {expected} bytes for {shown}, given {given}")
        }
        (1, Some(step)) if step == 0 || !given.is_multiple_of(step) => {
            format!("expected a multiple of {step} bytes for {shown}, given {given}")
        }
        (0 | 1, Some(_)) => {
            let deduced = fixed.filter(|&it| it > 0).map_or(0, |step| given / step);
            return Ok(port.dims.iter().map(|it| it.unwrap_or(deduced)).collect());
        }
        (0 | 1, None) => {
            format!("expected a shape whose size can be addressed, and it is {shown}")
        }
        _ => format!("{}: {shown}", messages::raw_open_dimensions(&port.name)),
    };
    Err(wrong(port, problem))
}

/// The body as one string, for an input of one string.
fn string(port: &Port, body: &Bytes) -> Result<(Vec<usize>, Bytes), Error> {
    if port.dims.iter().flatten().any(|&it| it != 1) {
        let (strings, shown) = (messages::raw_strings(&port.name), Shown(port));
        return Err(wrong(port, format_args!("{strings}, and it is {shown}")));
    }
    if u32::try_from(body.len()).is_err() {
        let given = body.len();
        return Err(wrong(
            port,
            format_args!("expected a string below 4 GiB, given {given} bytes"),
        ));
    }
    Ok((vec![1; port.dims.len()], backend::encode_strings([body])))
}

/// Type and dimensions of a port, without the batch dimension.
struct Shown<'a>(&'a Port);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dims = self.0.dims.iter();
        let dims: Vec<String> =
            dims.map(|it| it.map_or("-1".to_owned(), |size| size.to_string())).collect();
        let dtype: DataType = self.0.dtype;
        write!(f, "{dtype} [{}]", dims.join(","))
    }
}

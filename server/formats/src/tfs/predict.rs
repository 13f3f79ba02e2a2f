//! `:predict`, in rows and in columns.

use backend::NamedTensor;

use crate::{
    EncodedReply, expansion,
    json::{JsonReader, Token},
    number::Excerpt,
    reply,
    rows::{self, List},
    shapes::with_scalars,
    signature_name::SIGNATURE_NAME,
    typed_outputs,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// What is to be done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Tensors in, tensors out.
    Predict,
    /// Examples in, labels with scores out.
    Classify,
    /// Examples in, a number for each out.
    Regress,
}

impl Method {
    /// What TensorFlow Serving calls it, and signatures of SavedModels that are for it. Source:
    /// <https://github.com/tensorflow/tensorflow/blob/master/tensorflow/cc/saved_model/signature_constants.h>.
    pub fn name(self) -> &'static str {
        match self {
            Method::Predict => "tensorflow/serving/predict",
            Method::Classify => "tensorflow/serving/classify",
            Method::Regress => "tensorflow/serving/regress",
        }
    }
}

/// Which form a request had, and its reply will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `instances` in, `predictions` out: one element per row.
    Row,
    /// `inputs` in, `outputs` out: one element per tensor.
    Column,
}

/// The request in the body of `:predict`.
///
/// # Errors
/// When it is not JSON, has both forms or neither, names another signature than this one, or a value
/// does not fit its input. Each names the place.
pub fn decode_predict(
    signature: &Signature,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, Form), Error> {
    expansion::hold_ports(signature, grant)?;
    let (inputs, form) = JsonReader::document(body, grant, |reader| {
        reader.takes_missing(signature.takes_missing);
        read_predict(signature, reader)
    })?;
    let outputs = typed_outputs::of_request(signature, &inputs);
    let request = InferenceRequest {
        inputs,
        outputs,
        leaves_shapes_to_graph: true,
        ..InferenceRequest::default()
    };
    Ok((request, form))
}

/// Reads the object with `instances` or `inputs` that stands at the reader.
pub fn read_predict(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
) -> Result<(Vec<NamedTensor>, Form), Error> {
    let mut found: Option<(Vec<NamedTensor>, Form)> = None;
    reader.object(|reader, key| {
        let form = match &*key {
            "instances" => Form::Row,
            "inputs" => Form::Column,
            SIGNATURE_NAME => return check_signature(signature, reader),
            _ => return reader.skip_value(),
        };
        if found.is_some() {
            let problem = "expected either 'instances' or 'inputs', found both";
            return Err(Error::InvalidRequest(problem.to_owned()));
        }
        let inputs = match form {
            Form::Row if reader.peek()? != Token::Array => {
                let given = reader.peek()?;
                return Err(reader.error(format_args!("expected an array of rows, found {given}")));
            }
            Form::Row => rows::read_list(signature, reader, List::Rows)?,
            Form::Column => rows::read_columns(signature, reader)?,
        };
        found = Some((inputs, form));
        Ok(())
    })?;
    found.ok_or_else(|| {
        Error::InvalidRequest("expected the key 'instances' or 'inputs', found neither".to_owned())
    })
}

/// The name of a signature must be that of this one, as which the body is read: the only one, or the one that the body
/// names first.
pub fn check_signature(signature: &Signature, reader: &mut JsonReader<'_>) -> Result<(), Error> {
    let start = reader.mark();
    let (own, given) = (signature.name(), reader.string()?);
    // Clients that name none may send an empty one.
    if given.is_empty() || given == own {
        return Ok(());
    }
    let given = Excerpt(&given);
    let why = match signature.named {
        Some(_) => "which it names before",
        None => "the only signature",
    };
    let problem = format!("expected '{own}', {why}, found '{given}'");
    Err(reader.error_about(&start, problem))
}

/// The reply in the form of its request.
///
/// # Errors
/// Only for a defect of the server.
pub fn encode(
    form: Form,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    let response = with_scalars(signature, response);
    match form {
        Form::Row => reply::predictions(signature, &response, grant),
        Form::Column => reply::columns(&response, grant),
    }
}

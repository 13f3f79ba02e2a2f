//! What bodies of several routes have in common: texts, and how they are cut.

use std::sync::Arc;

use crate::codec::{
    terms::Terms,
    texts::{self, Texts},
};
use formats::{
    json::{JsonReader, Token},
    parameter,
};
use inference::{error::Error, grant::Grant, request::Parameter, signature::Signature};

/// Parameters of a request, in their order.
pub(super) type Parameters = Vec<(Arc<str>, Parameter)>;

/// Parameters that every route has which takes texts.
const OF_ALL: [&str; 2] = ["truncate", "truncation_direction"];

/// `{"inputs", ..}` with texts or token ids, these parameters and those of all routes.
///
/// # Errors
/// Those of [`read`].
pub(super) fn read_texts(
    signature: &Signature,
    terms: &Terms,
    known: &[&str],
    body: &[u8],
    grant: &Grant,
) -> Result<(Texts, Parameters), Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let mut texts = None;
    let parameters = read(terms, known, body, grant, |reader| {
        texts = Some(texts::read(reader, most)?);
        Ok(())
    })?;
    Ok((texts.ok_or_else(missing)?, parameters))
}

/// `{"inputs", ..}` with these parameters and those of all routes, of which `inputs` reads the texts. Other keys are
/// passed over, as there.
///
/// # Errors
/// When it has no inputs, or a value is of the wrong type.
pub(super) fn read<'g>(
    terms: &Terms,
    known: &[&str],
    body: &'g [u8],
    grant: &'g Grant,
    mut inputs: impl FnMut(&mut JsonReader<'g>) -> Result<(), Error>,
) -> Result<Parameters, Error> {
    let (mut has_inputs, mut parameters) = (false, Vec::new());
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "inputs" => {
                has_inputs = true;
                inputs(reader)
            }
            name => read_known(reader, name, known, &mut parameters),
        })
    })?;
    if !has_inputs {
        return Err(missing());
    }
    parameters.extend(truncation(terms, &parameters));
    Ok(parameters)
}

/// The error of a body without inputs.
pub(super) fn missing() -> Error {
    Error::InvalidRequest("expected the key 'inputs', found none".to_owned())
}

/// Reads the value of a parameter, if it is one of these or of those of all routes. `null` is as if it had not come.
pub(super) fn read_known(
    reader: &mut JsonReader<'_>,
    name: &str,
    known: &[&str],
    parameters: &mut Parameters,
) -> Result<(), Error> {
    let is_known = OF_ALL.contains(&name) || known.contains(&name);
    match reader.peek()? {
        _ if !is_known => reader.skip_value(),
        Token::Null => reader.null(),
        _ => {
            parameters.push(read_parameter(reader, name)?);
            Ok(())
        }
    }
}

/// A parameter as models know it.
fn read_parameter(reader: &mut JsonReader<'_>, name: &str) -> Result<(Arc<str>, Parameter), Error> {
    let value = match name {
        "truncate" | "normalize" | "raw_scores" => Parameter::Bool(reader.bool()?),
        // `Left` and `Right` here.
        "truncation_direction" => parameter::in_lower_case(reader)?,
        _ => parameter::scalar(reader, name)?,
    };
    Ok((name.into(), value))
}

/// Whether texts are cut, where the request does not say.
pub(super) fn truncation(
    terms: &Terms,
    parameters: &[(Arc<str>, Parameter)],
) -> Option<(Arc<str>, Parameter)> {
    let is_said = parameters.iter().any(|(name, _)| &**name == "truncate");
    (!is_said).then(|| ("truncate".into(), Parameter::Bool(terms.truncates)))
}

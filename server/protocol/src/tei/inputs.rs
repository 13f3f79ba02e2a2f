//! What bodies of several routes have in common: texts, and how they are cut.

use std::sync::Arc;

use crate::{
    json::{Reader, Token},
    parameter,
    terms::Terms,
    texts::{self, Texts},
};
use inference::{error::Error, request::Parameter, signature::Signature};

/// The texts of a body, and its parameters.
pub(super) struct Asked {
    pub(super) texts: Texts,
    pub(super) parameters: Vec<(Arc<str>, Parameter)>,
}

/// Parameters that every route has which takes texts.
const OF_ALL: [&str; 2] = ["truncate", "truncation_direction"];

/// `{"inputs", ..}` with these parameters and those of all routes. Other keys are passed over, as there.
///
/// # Errors
/// When it has no inputs, or a value is of the wrong type.
pub(super) fn read(
    signature: &Signature,
    terms: &Terms,
    known: &[&str],
    body: &[u8],
) -> Result<Asked, Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let (mut texts, mut parameters) = (None, Vec::new());
    Reader::document(body, |reader| {
        reader.object(|reader, key| match &*key {
            "inputs" => {
                texts = Some(texts::read(reader, most)?);
                Ok(())
            }
            name if OF_ALL.contains(&name) || known.contains(&name) => {
                match reader.peek()? {
                    Token::Null => reader.null()?,
                    _ => parameters.push(read_parameter(reader, name)?),
                }
                Ok(())
            }
            _ => reader.skip_value(),
        })
    })?;
    let missing = || Error::InvalidRequest("expected the key 'inputs', found none".to_owned());
    let texts = texts.ok_or_else(missing)?;
    parameters.extend(truncation(terms, &parameters));
    Ok(Asked { texts, parameters })
}

/// A parameter as models know it.
pub(super) fn read_parameter(
    reader: &mut Reader<'_>,
    name: &str,
) -> Result<(Arc<str>, Parameter), Error> {
    let value = match name {
        "truncate" | "normalize" | "raw_scores" => Parameter::Bool(reader.bool()?),
        // `Left` and `Right` here.
        "truncation_direction" => Parameter::Text(reader.string()?.to_lowercase().into()),
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

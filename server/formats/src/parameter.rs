//! The value of a parameter that the server passes on to the model.

use std::sync::Arc;

use crate::json::{JsonReader, Token};
use inference::{
    error::Error,
    messages,
    request::Parameter,
    task::{RETURN_ALL_SCORES, TOP_K},
};

/// Most custom parameters of a request: each takes ten times its text.
pub const MOST: usize = 1 << 14;

/// Most bytes of the name of one: names are copied, and stand in errors.
const LONGEST_NAME: usize = 1 << 10;

/// That one more parameter of that name may be kept beside so many.
///
/// # Errors
/// When there are too many, or its name is too long.
pub fn check(reader: &JsonReader<'_>, count: usize, name: &str) -> Result<(), Error> {
    if count >= MOST {
        return Err(reader.error(format_args!("expected at most {MOST} parameters")));
    }
    if name.len() > LONGEST_NAME {
        let given = name.len();
        let problem = "expected a parameter's name of at most";
        return Err(reader.error(format_args!("{problem} {LONGEST_NAME} bytes, found {given}")));
    }
    Ok(())
}

/// Do these parameters say how many classes are wanted?
pub fn says_top(parameters: &[(Arc<str>, Parameter)]) -> bool {
    parameters.iter().any(|(name, value)| match &**name {
        TOP_K => true,
        RETURN_ALL_SCORES => *value == Parameter::Bool(true),
        _ => false,
    })
}

/// The parameter that asks for all classes.
pub fn all_classes() -> (Arc<str>, Parameter) {
    (TOP_K.into(), Parameter::Text("null".into()))
}

/// The error of a body without that key.
pub fn missing(name: &str) -> Error {
    invalid(name, format!("expected the key '{name}', found none"))
}

/// The error of a parameter with a value that is wrong.
pub fn invalid(name: &str, problem: String) -> Error {
    Error::InvalidParameter { name: name.to_owned(), problem }
}

/// A string, an integer, a floating-point number, or a boolean.
///
/// # Errors
/// When it is none of them.
pub fn scalar(reader: &mut JsonReader<'_>, name: &str) -> Result<Parameter, Error> {
    match reader.peek()? {
        Token::String => {
            let text = reader.string()?;
            Ok(Parameter::Text(reader.shared(&text)?))
        }
        Token::Bool => Ok(Parameter::Bool(reader.bool()?)),
        Token::Number => {
            let place = reader.mark();
            // Whatever is no whole number of 64 bits is a floating-point one.
            match reader.revisit(place, JsonReader::number::<i64>) {
                Ok(number) => {
                    reader.skip_value()?;
                    Ok(Parameter::Int(number))
                }
                Err(_) => Ok(Parameter::Double(reader.number()?)),
            }
        }
        found @ (Token::Object | Token::Array | Token::Null) => {
            let expected =
                "expected a string, a number or a boolean (a list as the text of its JSON)";
            let wrong = messages::parameter_type(name);
            Err(reader.error(format_args!("{wrong}: {expected}, found {found}")))
        }
    }
}

/// The same, and lists, objects and `null` as the text of their JSON.
///
/// # Errors
/// When it is no JSON.
pub fn any(reader: &mut JsonReader<'_>, name: &str) -> Result<Parameter, Error> {
    match reader.peek()? {
        Token::Object | Token::Array | Token::Null => {
            let text = reader.raw_value()?;
            Ok(Parameter::Text(reader.shared(text)?))
        }
        Token::String | Token::Number | Token::Bool => scalar(reader, name),
    }
}

/// A string in lower case: clients of several servers spell the words for one thing in several ways.
///
/// # Errors
/// When it is no string.
pub fn in_lower_case(reader: &mut JsonReader<'_>) -> Result<Parameter, Error> {
    /// A character may be longer in lower case, and the text is copied while it grows and once it is whole.
    const COPIES: usize = 4;
    let text = reader.string()?;
    reader.grant().hold(text.len().saturating_mul(COPIES))?;
    Ok(Parameter::Text(text.to_lowercase().into()))
}

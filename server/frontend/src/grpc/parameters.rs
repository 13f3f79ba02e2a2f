//! Parameters of requests and tensors: a key, and a value of one of five types. Pure.

use super::proto::{InferParameter, infer_parameter::ParameterChoice};
use inference::{error::Error, request::Parameter};

/// Where a parameter stands, for its errors.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// `input 'x', ` or the like; empty for the request itself.
    pub of: &'a str,
    /// Its key.
    pub key: &'a str,
}

impl Place<'_> {
    fn error(self, problem: std::fmt::Arguments<'_>) -> Error {
        Error::InvalidRequest(format!("{}parameter '{}': {problem}", self.of, self.key))
    }

    fn wrong(self, expected: &str, given: &InferParameter) -> Error {
        self.error(format_args!("expected {expected}, given {}", shown(given)))
    }
}

/// A truth value.
pub fn boolean(place: Place<'_>, value: &InferParameter) -> Result<bool, Error> {
    match value.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => Ok(value),
        _ => Err(place.wrong("bool_param", value)),
    }
}

/// An integer of at least `least`, in either of the two fields that hold one.
pub fn integer(place: Place<'_>, value: &InferParameter, least: u64) -> Result<u64, Error> {
    let number = match value.parameter_choice {
        Some(ParameterChoice::Int64Param(value)) => u64::try_from(value).ok(),
        Some(ParameterChoice::Uint64Param(value)) => Some(value),
        _ => return Err(place.wrong("int64_param or uint64_param", value)),
    };
    let expected = || place.wrong(&format!("a number from {least}"), value);
    number.filter(|it| least <= *it).ok_or_else(expected)
}

/// A text that is not empty.
pub fn text<'a>(place: Place<'_>, value: &'a InferParameter) -> Result<&'a str, Error> {
    match &value.parameter_choice {
        Some(ParameterChoice::StringParam(value)) if !value.is_empty() => Ok(value),
        _ => Err(place.wrong("string_param that is not empty", value)),
    }
}

/// The error of a parameter that the server does not know.
pub fn custom(place: Place<'_>, value: &InferParameter) -> Result<Parameter, Error> {
    Ok(match &value.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => Parameter::Bool(*value),
        Some(ParameterChoice::Int64Param(value)) => Parameter::Int(*value),
        Some(ParameterChoice::DoubleParam(value)) => Parameter::Double(*value),
        Some(ParameterChoice::StringParam(value)) => Parameter::Text(value.as_str().into()),
        Some(ParameterChoice::Uint64Param(value)) => match i64::try_from(*value) {
            Ok(value) => Parameter::Int(value),
            Err(_) => Parameter::Text(value.to_string().into()),
        },
        None => return Err(place.wrong("a value", value)),
    })
}

/// Type and value, as an error names them.
fn shown(value: &InferParameter) -> String {
    match &value.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => format!("bool_param {value}"),
        Some(ParameterChoice::Int64Param(value)) => format!("int64_param {value}"),
        Some(ParameterChoice::Uint64Param(value)) => format!("uint64_param {value}"),
        Some(ParameterChoice::DoubleParam(value)) => format!("double_param {value}"),
        Some(ParameterChoice::StringParam(value)) => {
            let text: String = value.chars().take(40).collect();
            format!("string_param '{text}'")
        }
        None => "none".to_owned(),
    }
}

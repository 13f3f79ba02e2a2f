//! Parameters of requests and tensors: a key, and a value of one of five types, as slices of the message. Pure.

use std::{collections::BTreeMap, sync::Arc};

use prost::encoding::WireType;

use frontend::grpc::wire::{self, WireProblem};
use inference::{error::Error, request::Parameter};

/// Most bytes of a key: keys are copied, and stand in errors. HTTP has the same bound.
const LONGEST_KEY: usize = 1 << 10;

/// Bytes that a parameter of a request takes beside its texts: its place in a list that grows by doubling, and the
/// counters of two shared texts.
const OF_ONE: usize = 2 * size_of::<(Arc<str>, Parameter)>() + 2 * 2 * size_of::<usize>();

/// Parameters by their keys.
pub type Parameters<'a> = BTreeMap<&'a str, Value<'a>>;

/// The value of a parameter: the field of an `InferParameter` that is set.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Value<'a> {
    /// No field.
    #[default]
    None,
    /// `bool_param`.
    Bool(bool),
    /// `int64_param`.
    Int64(i64),
    /// `string_param`.
    Text(&'a str),
    /// `double_param`.
    Double(f64),
    /// `uint64_param`.
    Uint64(u64),
}

/// Reads an entry of a map of parameters into `parameters`. A later entry takes the place of one with the same key.
///
/// # Errors
/// When the entry is malformed, or its key too long.
pub fn read<'a>(
    parameters: &mut Parameters<'a>,
    kind: WireType,
    rest: &mut &'a [u8],
) -> Result<(), WireProblem> {
    let mut entry = wire::delimited(kind, rest)?;
    let (mut key, mut value) = ("", Value::None);
    while let Some((number, kind)) = wire::field(&mut entry)? {
        match number {
            1 => key = wire::text(kind, &mut entry)?,
            2 => value.merge(wire::delimited(kind, &mut entry)?)?,
            _ => wire::skip(number, kind, &mut entry)?,
        }
    }
    if key.len() > LONGEST_KEY {
        return Err(WireProblem::Key { given: key.len(), most: LONGEST_KEY });
    }
    parameters.insert(key, value);
    Ok(())
}

/// Bytes of memory that these parameters take at most when they are copied.
pub fn copied(parameters: &Parameters<'_>) -> usize {
    parameters.iter().map(|(key, value)| key.len() + value.text_len() + OF_ONE).sum()
}

impl<'a> Value<'a> {
    /// Reads an `InferParameter` over this value, as messages are merged.
    fn merge(&mut self, mut rest: &'a [u8]) -> Result<(), WireProblem> {
        while let Some((number, kind)) = wire::field(&mut rest)? {
            *self = match number {
                1 => Value::Bool(wire::varint(kind, &mut rest)? != 0),
                2 => Value::Int64(wire::varint(kind, &mut rest)?.cast_signed()),
                3 => Value::Text(wire::text(kind, &mut rest)?),
                4 => Value::Double(wire::double(kind, &mut rest)?),
                5 => Value::Uint64(wire::varint(kind, &mut rest)?),
                _ => {
                    wire::skip(number, kind, &mut rest)?;
                    continue;
                }
            };
        }
        Ok(())
    }

    fn text_len(self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            // As a text where it is larger than the largest of an `i64`.
            Value::Uint64(_) => 20,
            Value::None | Value::Bool(_) | Value::Int64(_) | Value::Double(_) => 0,
        }
    }
}

/// Where a parameter stands, for its errors.
#[derive(Clone, Copy)]
pub struct ParameterPlace<'a> {
    /// `input 'x', ` or the like; empty for the request itself.
    pub of: &'a str,
    /// Its key.
    pub key: &'a str,
}

impl ParameterPlace<'_> {
    fn error(self, problem: std::fmt::Arguments<'_>) -> Error {
        Error::InvalidRequest(format!("{}parameter '{}': {problem}", self.of, self.key))
    }

    fn wrong(self, expected: &str, given: Value<'_>) -> Error {
        self.error(format_args!("expected {expected}, given {}", shown(given)))
    }
}

/// A truth value.
pub fn boolean(place: ParameterPlace<'_>, value: Value<'_>) -> Result<bool, Error> {
    match value {
        Value::Bool(value) => Ok(value),
        _ => Err(place.wrong("bool_param", value)),
    }
}

/// An integer of at least `least`, in either of the two fields that hold one.
pub fn integer(place: ParameterPlace<'_>, value: Value<'_>, least: u64) -> Result<u64, Error> {
    let number = match value {
        Value::Int64(value) => u64::try_from(value).ok(),
        Value::Uint64(value) => Some(value),
        _ => return Err(place.wrong("int64_param or uint64_param", value)),
    };
    let expected = || place.wrong(&format!("a number from {least}"), value);
    number.filter(|it| least <= *it).ok_or_else(expected)
}

/// A text that is not empty.
pub fn text<'a>(place: ParameterPlace<'_>, value: Value<'a>) -> Result<&'a str, Error> {
    match value {
        Value::Text(value) if !value.is_empty() => Ok(value),
        _ => Err(place.wrong("string_param that is not empty", value)),
    }
}

/// The error of a parameter that the server does not know.
pub fn custom(place: ParameterPlace<'_>, value: Value<'_>) -> Result<Parameter, Error> {
    Ok(match value {
        Value::Bool(value) => Parameter::Bool(value),
        Value::Int64(value) => Parameter::Int(value),
        Value::Double(value) => Parameter::Double(value),
        Value::Text(value) => Parameter::Text(value.into()),
        Value::Uint64(value) => match i64::try_from(value) {
            Ok(value) => Parameter::Int(value),
            Err(_) => Parameter::Text(value.to_string().into()),
        },
        Value::None => return Err(place.wrong("a value", value)),
    })
}

/// Type and value, as an error names them.
fn shown(value: Value<'_>) -> String {
    match value {
        Value::Bool(value) => format!("bool_param {value}"),
        Value::Int64(value) => format!("int64_param {value}"),
        Value::Uint64(value) => format!("uint64_param {value}"),
        Value::Double(value) => format!("double_param {value}"),
        Value::Text(value) => {
            let text: String = value.chars().take(40).collect();
            format!("string_param '{text}'")
        }
        Value::None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use frontend::grpc::proto::{InferParameter, infer_parameter::ParameterChoice};

    /// Reads an entry with this key, whose value is these messages one behind the other.
    fn read_entry(key: &str, values: &[Vec<u8>]) -> Result<(String, String, usize), Error> {
        let field = |number: u8, bytes: &[u8]| {
            let mut field = vec![number << 3 | 2];
            prost::encoding::encode_varint(bytes.len() as u64, &mut field);
            [field, bytes.to_vec()].concat()
        };
        let values: Vec<u8> = values.iter().flat_map(|it| field(2, it)).collect();
        let entry = [field(1, key.as_bytes()), values].concat();
        let mut bytes = Vec::new();
        prost::encoding::encode_varint(entry.len() as u64, &mut bytes);
        bytes.extend(entry);
        let mut parameters = Parameters::new();
        let read = super::read(&mut parameters, WireType::LengthDelimited, &mut &bytes[..]);
        read.map_err(|problem| problem.error("ModelInferRequest"))?;
        let (key, value) = parameters.first_key_value().unwrap();
        Ok((key.to_string(), shown(*value), copied(&parameters)))
    }

    fn value(choice: ParameterChoice) -> Vec<u8> {
        InferParameter { parameter_choice: Some(choice) }.encode_to_vec()
    }

    #[test]
    fn a_value_has_the_type_and_content_that_was_written_and_the_last_one_counts() {
        let text = value(ParameterChoice::StringParam("ü".to_owned()));
        for (values, expect) in [
            (vec![value(ParameterChoice::BoolParam(true))], "bool_param true"),
            (vec![value(ParameterChoice::Int64Param(-3))], "int64_param -3"),
            (
                vec![value(ParameterChoice::Uint64Param(u64::MAX))],
                "uint64_param 18446744073709551615",
            ),
            (vec![value(ParameterChoice::DoubleParam(0.5))], "double_param 0.5"),
            (vec![text.clone()], "string_param 'ü'"),
            (vec![value(ParameterChoice::BoolParam(true)), text.clone()], "string_param 'ü'"),
            (vec![text.clone(), Vec::new()], "string_param 'ü'"),
            (vec![], "none"),
        ] {
            assert_eq!(read_entry("k", &values).unwrap().1, expect);
        }
        assert!(read_entry("k", &[vec![0x21, 0]]).is_err());
        assert!(read_entry("k", &[vec![0x1a, 1, 0xff]]).is_err());
    }

    #[test]
    fn texts_count_as_long_as_they_are() {
        let text = value(ParameterChoice::StringParam("x".repeat(5_000)));
        assert!(read_entry("key", &[text]).unwrap().2 > 5_003);
    }

    #[test]
    fn keys_have_a_bound() {
        let longest = "k".repeat(LONGEST_KEY);
        assert_eq!(read_entry(&longest, &[]).unwrap().0, longest);
        let error = read_entry(&format!("{longest}k"), &[]).unwrap_err().to_string();
        assert_eq!(error, "expected a parameter's key of at most 1024 bytes, given 1025");
    }
}

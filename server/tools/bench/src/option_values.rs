//! Values of options: what each may be, and what is said of one that it cannot be.

use std::time::Duration;

use crate::{DataType, data::UnknownDatatype};

/// A value that an option cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct OptionError {
    /// What was given, where clap does not say it, and what was expected.
    text: String,
}

impl OptionError {
    /// Of the value that clap names.
    pub(crate) fn expected(what: &str) -> OptionError {
        OptionError { text: format!("expected {what}") }
    }

    /// Of a part of it.
    pub(crate) fn given(part: &str, what: &str) -> OptionError {
        OptionError { text: format!("{part}: expected {what}") }
    }
}

impl From<UnknownDatatype> for OptionError {
    fn from(error: UnknownDatatype) -> OptionError {
        OptionError { text: error.to_string() }
    }
}

/// An input that is described by hand.
#[derive(Debug, Clone)]
pub(crate) struct InputArg {
    pub(crate) name: String,
    pub(crate) dtype: DataType,
    pub(crate) shape: Vec<usize>,
}

/// What `--value` says that an input holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueArg {
    Value(String),
    Range(f64, f64),
}

/// `NAME: VALUE`.
pub(crate) fn header(given: &str) -> Result<(String, String), OptionError> {
    let (name, value) =
        given.split_once(':').filter(|it| !it.0.trim().is_empty()).ok_or_else(|| {
            OptionError::given(
                &format!("'{given}'"),
                "NAME: VALUE, such as 'Authorization: Bearer abc'",
            )
        })?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Seconds, with or without an `s`.
pub(crate) fn duration(given: &str) -> Result<Duration, OptionError> {
    let given = given.strip_suffix('s').unwrap_or(given);
    let seconds = given.parse().ok().filter(|it: &f64| (0.0..=1e6).contains(it));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| OptionError::expected("seconds, such as 2.5"))
}

/// Milliseconds.
pub(crate) fn milliseconds(given: &str) -> Result<Duration, OptionError> {
    let given = given.parse().ok().filter(|it: &f64| (0.0..=1e9).contains(it));
    given
        .map(|it| Duration::from_secs_f64(it / 1e3))
        .ok_or_else(|| OptionError::expected("milliseconds, such as 20"))
}

/// A latency: `50ms`, `0.05s`, or a number of milliseconds.
pub(crate) fn latency(given: &str) -> Result<Duration, OptionError> {
    let value = match given.strip_suffix("ms") {
        Some(given) => milliseconds(given),
        None if given.ends_with('s') => duration(given),
        None => milliseconds(given),
    };
    let value = value.ok().filter(|it| !it.is_zero());
    value.ok_or_else(|| OptionError::expected("a latency above 0, such as 50ms"))
}

/// The share that a percentage is.
pub(crate) fn percent(given: &str) -> Result<f64, OptionError> {
    let given = given.parse().ok().filter(|it: &f64| (0.0..=100.0).contains(it));
    given.map(|it| it / 100.0).ok_or_else(|| OptionError::expected("a percentage from 0 to 100"))
}

/// A share, from 0 to 1.
///
/// # Errors
/// Says what was expected.
pub fn share(given: &str) -> Result<f64, OptionError> {
    let given = given.parse().ok().filter(|it: &f64| (0.0..=1.0).contains(it));
    given.ok_or_else(|| OptionError::expected("a share from 0 to 1, such as 0.02"))
}

fn dims(given: &str) -> Result<Vec<usize>, OptionError> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let dims: Result<Vec<usize>, _> = given.split(',').map(str::parse).collect();
    let part = || format!("dimensions '{given}'");
    dims.map_err(|_| OptionError::given(&part(), "whole numbers, such as 1,30"))
}

/// `NAME:DATATYPE:DIMS`.
pub(crate) fn input(given: &str) -> Result<InputArg, OptionError> {
    let parts = given.rsplit_once(':').and_then(|(rest, dims)| {
        let (name, dtype) = rest.rsplit_once(':')?;
        Some((name, dtype, dims))
    });
    let expected = || OptionError::expected("NAME:DATATYPE:DIMS, such as x:FP32:1,30");
    let (name, dtype, shape) = parts.ok_or_else(expected)?;
    Ok(InputArg { name: name.to_owned(), dtype: dtype.parse()?, shape: dims(shape)? })
}

/// `NAME=VALUE` or `NAME=LOW..HIGH`.
pub(crate) fn named_value(given: &str) -> Result<(String, ValueArg), OptionError> {
    let expected =
        OptionError::expected("NAME=VALUE or NAME=LOW..HIGH, such as input_ids=0..30521");
    let Some((name, value)) = given.split_once('=') else { return Err(expected) };
    let range = value.split_once("..").and_then(|(low, high)| {
        let (low, high): (f64, f64) = (low.parse().ok()?, high.parse().ok()?);
        Some((low, high))
    });
    let value = match range {
        Some((low, high)) if low <= high => ValueArg::Range(low, high),
        Some(_) => return Err(OptionError { text: format!("{value} is no range; {expected}") }),
        None => ValueArg::Value(value.to_owned()),
    };
    Ok((name.to_owned(), value))
}

/// `NAME:DIMS`.
pub(crate) fn shape(given: &str) -> Result<(String, Vec<usize>), OptionError> {
    let expected = || OptionError::expected("NAME:DIMS, such as x:8,30");
    let (name, shape) = given.rsplit_once(':').ok_or_else(expected)?;
    Ok((name.to_owned(), dims(shape)?))
}

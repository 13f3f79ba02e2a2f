//! How long a run of a model may take, where its configuration says so. Pure.

use std::collections::BTreeMap;

use schedule::RunLimit;

/// The parameter that says it.
pub(crate) const PARAMETER: &str = "EXECUTION_TIMEOUT_SECONDS";

/// Is that the key of the parameter?
pub(crate) fn is_parameter(key: &str) -> bool {
    key.eq_ignore_ascii_case(PARAMETER)
}

/// The parameter says no time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter {key} is '{value}'; expected a whole number of seconds, or 0 for any time")]
pub(crate) struct NoTime {
    key: String,
    value: String,
}

/// What the parameters of a configuration say; `None`: nothing.
///
/// # Errors
/// When it is no time.
pub(crate) fn of(parameters: &BTreeMap<String, String>) -> Result<Option<RunLimit>, NoTime> {
    let said = parameters.iter().find(|(key, _)| is_parameter(key));
    let Some((key, value)) = said else { return Ok(None) };
    let seconds = value.trim().parse();
    let seconds = seconds.map_err(|_| NoTime { key: key.clone(), value: value.clone() })?;
    Ok(Some(RunLimit::of_seconds(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &str, value: &str) -> Result<Option<RunLimit>, NoTime> {
        of(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn it_is_a_number_of_seconds_and_zero_is_none() {
        assert_eq!(said("other", "x"), Ok(None));
        assert_eq!(said(PARAMETER, " 3 "), Ok(Some(RunLimit::of_seconds(3))));
        assert_eq!(said("execution_timeout_seconds", "0"), Ok(Some(RunLimit::Unbounded)));
        for wrong in ["", "-1", "0.5", "1s"] {
            let error = said(PARAMETER, wrong).unwrap_err().to_string();
            let expected = format!("{PARAMETER} is '{wrong}'; expected a whole number of seconds");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

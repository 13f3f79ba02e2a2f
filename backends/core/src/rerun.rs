//! May a request be run again? What the configuration of its model says.

use crate::{BackendError, ModelSource};

/// May a request be run again whose run has failed, or whose process has died in it?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RerunPolicy {
    /// `crash`: once more where its process has died; and in smaller batches where a batch has failed in a graph, which
    /// gives the same again.
    #[default]
    Crash,
    /// `never`: what has begun to run is not begun again.
    Never,
    /// `always`: the same as `crash`, and also where code of the model's own has failed, which may do something else
    /// the next time. No engine runs such code so far.
    Always,
}

impl RerunPolicy {
    /// The parameter of a model's configuration that says it.
    pub const PARAMETER: &str = "RERUN";

    /// Every policy under its name in the parameter.
    const ALL: [(&str, RerunPolicy); 3] = [
        ("crash", RerunPolicy::Crash),
        ("never", RerunPolicy::Never),
        ("always", RerunPolicy::Always),
    ];

    /// Is that the key of the parameter?
    pub fn is_parameter(key: &str) -> bool {
        key.eq_ignore_ascii_case(Self::PARAMETER)
    }

    /// That of a model.
    ///
    /// # Errors
    /// [`BackendError::Load`] for what is none.
    pub fn of(source: &ModelSource) -> Result<RerunPolicy, BackendError> {
        let said = source.options.iter().find(|(key, _)| Self::is_parameter(key));
        let Some((_, said)) = said else { return Ok(RerunPolicy::default()) };
        let known = Self::ALL.iter().find(|(name, _)| *name == said.trim());
        known.map(|(_, policy)| *policy).ok_or_else(|| {
            BackendError::Load(format!(
                "model '{}': parameter '{}': expected 'crash', 'never' or 'always', given '{said}'",
                source.name,
                Self::PARAMETER
            ))
        })
    }

    /// May what a client has sent be run more than once?
    pub fn allows_reruns(self) -> bool {
        match self {
            RerunPolicy::Crash | RerunPolicy::Always => true,
            RerunPolicy::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &str, value: &str) -> Result<RerunPolicy, BackendError> {
        let mut source = ModelSource::new("m", "/m");
        source.options.insert(key.into(), value.into());
        RerunPolicy::of(&source)
    }

    #[test]
    fn it_is_one_of_three_words_and_a_model_that_says_none_is_run_again_after_a_crash() {
        assert_eq!(said("other", "x"), Ok(RerunPolicy::Crash));
        assert_eq!(said("RERUN", "crash"), Ok(RerunPolicy::Crash));
        assert_eq!(said("rerun", " never "), Ok(RerunPolicy::Never));
        assert_eq!(said("RERUN", "always"), Ok(RerunPolicy::Always));
        for wrong in ["", "Never", "false", "crash,never"] {
            let expected = format!(
                "model 'm': parameter 'RERUN': expected 'crash', 'never' or 'always', given '{wrong}'"
            );
            assert_eq!(said("RERUN", wrong), Err(BackendError::Load(expected)));
        }
    }
}

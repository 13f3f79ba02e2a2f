//! The sentences that say of a text or an image that a label is its own.

use crate::{error::RowError, request::Parameters, text::TextLimits};

/// A sentence with a place for a label.
pub(crate) struct Hypothesis<'a> {
    before: &'a str,
    behind: &'a str,
}

impl<'a> Hypothesis<'a> {
    /// The one that the request gives, else `usual`.
    ///
    /// # Errors
    /// When it has no place for a label, or more bytes than a text may have.
    pub(crate) fn of(
        parameters: &'a Parameters,
        usual: &'static str,
        limits: TextLimits,
    ) -> Result<Hypothesis<'a>, RowError> {
        let wrong =
            |problem| Err(RowError::Parameter { name: "hypothesis_template".to_owned(), problem });
        let template = parameters.hypothesis_template.as_deref().unwrap_or(usual);
        if limits.bytes < template.len() {
            let (given, most) = (template.len(), limits.bytes);
            return wrong(format!("it has {given} bytes, at most {most} are taken"));
        }
        match template.split_once("{}") {
            Some((before, behind)) => Ok(Hypothesis { before, behind }),
            None => wrong("it has no {} where the label would stand".to_owned()),
        }
    }

    /// The sentence about that label.
    pub(crate) fn about(&self, label: &str) -> String {
        let Hypothesis { before, behind } = self;
        format!("{before}{label}{behind}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_measured_before_sentences_are_made_of_it() {
        let limits = TextLimits { bytes: 10, tokens: usize::MAX };
        let of = |template: &str| {
            let parameters = Parameters {
                hypothesis_template: Some(template.to_owned()),
                ..Parameters::default()
            };
            let hypothesis = Hypothesis::of(&parameters, "usual {}", limits);
            hypothesis.map(|it| it.about("b")).map_err(|it| it.to_string())
        };
        assert_eq!(of("a {} c."), Ok("a b c.".to_owned()));
        let error = of("a {} which is long").unwrap_err();
        let text = "parameter 'hypothesis_template': it has 18 bytes, at most 10 are taken";
        assert_eq!(error, text);
        assert!(of("none").unwrap_err().contains("it has no {}"));
    }
}

//! A regular expression of a tokenizer. The crate's own ends in silence where it gives up, and the rest of the text is
//! one piece; this one finds what is there, or fails.

use fancy_regex::{Regex, RegexBuilder};
use tokenizers::pattern::Pattern;

/// The end of the expressions of byte-level tokenizers: blanks, of which the last one belongs to the word behind them.
/// Each blank of a run stays open as an alternative until the run is over.
const BLANKS: &str = r"|\s+(?!\S)|\s+";

/// The same matches, found without open alternatives: all blanks where nothing follows, else all but the last one.
const PATIENT_BLANKS: &str = r"|(?>\s+)(?!\S)|\s+?(?=\s\S)|\s+";

/// Most steps back of one match of patient blanks: one for each blank of a run.
const PATIENT_STEPS: usize = 1 << 22;

/// An expression, compiled.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    usual: Regex,
    /// The same for runs of blanks that are too long for the usual one. Slower; `None` where it has no other form.
    patient: Option<Regex>,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// When it is none.
    pub(super) fn new(text: &str) -> Result<Expression, tokenizers::Error> {
        // Behind a backslash the first stroke is a character.
        let begins = text.strip_suffix(BLANKS).filter(|it| !it.ends_with('\\'));
        let patient = begins.map(|begins| {
            let text = format!("{begins}{PATIENT_BLANKS}");
            RegexBuilder::new(&text).backtrack_limit(PATIENT_STEPS).build()
        });
        Ok(Expression { usual: Regex::new(text)?, patient: patient.transpose()? })
    }
}

impl Pattern for &Expression {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<((usize, usize), bool)>> {
        let usual = (&self.usual).find_matches(inside);
        let found = match &self.patient {
            Some(patient) => usual.or_else(|_| patient.find_matches(inside)),
            None => usual,
        };
        found.map_err(|error| {
            let bytes = inside.len();
            let problem = format!(
                "a regular expression of it gives up on a part of {bytes} bytes ({error}); send a shorter text, or \
                 shorter runs of blanks"
            );
            problem.into()
        })
    }
}

/// May it give up on a text? Not where it has only what is found in one go: classes, and how often.
pub(super) fn may_give_up(expression: &str) -> bool {
    const FOUND_IN_ONE_GO: &str = "sSdDwWpPnrt";
    let mut before = ' ';
    for character in expression.chars() {
        let is_escape = before == '\\' && character.is_ascii_alphanumeric();
        let is_possessive = character == '+' && matches!(before, '+' | '*' | '?' | '}');
        if character == '(' || is_possessive || (is_escape && !FOUND_IN_ONE_GO.contains(character))
        {
            return true;
        }
        before = character;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All texts of these characters with at most so many.
    fn texts(longest: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..longest {
            let until = all.len();
            for at in from..until {
                let text = all[at].clone();
                all.extend([' ', '\n', 'a', '.', '\''].map(|it| format!("{text}{it}")));
            }
            from = until;
        }
        all
    }

    #[test]
    fn patient_blanks_are_what_usual_ones_are() {
        for begins in
            [r"'s| ?\p{L}+| ?[^\s\p{L}]+", r"[^\r\n\p{L}]?\p{L}+| ?[^\s\p{L}]+[\r\n]*|\s*[\r\n]+"]
        {
            let expression = Expression::new(&format!("{begins}{BLANKS}")).unwrap();
            let patient = expression.patient.as_ref().unwrap();
            for text in texts(6) {
                let given = patient.find_matches(&text).unwrap();
                assert_eq!(given, (&expression.usual).find_matches(&text).unwrap(), "{text:?}");
            }
        }
    }

    #[test]
    fn only_classes_and_how_often_never_give_up() {
        for plain in [r"\s+", " {2,}", r"[\p{L}\d]*?", "a+|b"] {
            assert!(!may_give_up(plain), "{plain}");
        }
        for other in [r"\s+(?!\S)", r"(a)\1", r"a++", r"\bx", r"\Ga", "a{2}+"] {
            assert!(may_give_up(other), "{other}");
        }
    }
}

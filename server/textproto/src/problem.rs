//! What is wrong in a text, and where.

/// One thing that is wrong in a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextProblem {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// The field, what was expected, what was given.
    pub text: String,
}

impl TextProblem {
    pub(crate) fn new(source: &str, offset: usize, text: String) -> TextProblem {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |it| it + 1);
        TextProblem {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            text,
        }
    }
}

/// A text that cannot be read. Shown as one line per problem: `config.pbtxt:3:7: ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// Where the text came from.
    pub file: String,
    /// In the order of the text; never empty.
    pub problems: Vec<TextProblem>,
}

impl std::error::Error for ReadError {}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, TextProblem { line, column, text }) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{line}:{column}: {text}", self.file)?;
        }
        Ok(())
    }
}

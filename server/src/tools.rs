//! Commands that are programs of their own, as those of git are: `muster bench ..` runs `muster-bench ..`. They lie
//! beside this program, or on the `PATH`.

use std::{env, ffi::OsString, io, os::unix::process::CommandExt, path::PathBuf, process::Command};

/// Such a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// As it follows `muster`.
    word: &'static str,
    program: &'static str,
    /// The program's own word for it, where it does several things.
    first: Option<&'static str>,
}

/// The load generator.
pub const BENCH: Tool = Tool { word: "bench", program: "muster-bench", first: None };
/// What finds settings and machines.
pub const RECOMMEND: Tool = Tool { word: "recommend", program: "muster-recommend", first: None };
/// What sends files to a model and prints the answers.
pub const PREDICT: Tool = Tool { word: "predict", program: "muster-bench", first: Some("predict") };

impl Tool {
    /// Its program: the one beside this process's, else a name to be looked up on the `PATH`.
    pub fn program(self) -> PathBuf {
        let beside = env::current_exe().ok().map(|it| it.with_file_name(self.program));
        beside.filter(|it| it.is_file()).unwrap_or_else(|| self.program.into())
    }

    /// Replaces this process by it. What is returned is why that cannot be.
    pub fn exec(self, args: Vec<OsString>) -> io::Error {
        self.missing(Command::new(self.program()).args(self.first).args(args).exec())
    }

    /// An error of starting it that says what to do where there is no such program.
    pub fn missing(self, error: io::Error) -> io::Error {
        let Tool { word, program, .. } = self;
        if error.kind() != io::ErrorKind::NotFound {
            return io::Error::new(error.kind(), format!("{program}: {error}"));
        }
        let place = env::current_exe().ok().and_then(|it| Some(it.parent()?.display().to_string()));
        let place = place.unwrap_or_default();
        io::Error::new(
            error.kind(),
            format!(
                "'muster {word}' is a program of its own, {program}, which is neither in {place} nor on the PATH. \
                 In a checkout `cargo build --release` makes it"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_not_there_says_where_it_should_be_and_what_makes_it() {
        let nothing = Tool { word: "nothing", program: "muster-nothing", first: None };
        let error = nothing.missing(io::ErrorKind::NotFound.into());
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let text = error.to_string();
        for part in ["'muster nothing'", "muster-nothing, which is", "cargo build --release"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

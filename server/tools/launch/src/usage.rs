//! Command lines of the tools: what is wrong with one is said as the server says it, in one line.

use std::{ffi::OsString, process::ExitCode};

use clap::{
    Error, Parser,
    error::{ContextKind, ErrorKind},
};

/// The exit code where the command line is wrong, as of most programs.
const USAGE: u8 = 2;

/// The command line of a tool that is started as `program`, as `muster bench`.
///
/// # Errors
/// The exit code, once help or what is wrong has been printed.
pub fn parse<T: Parser>(
    program: &str,
    words: impl IntoIterator<Item = OsString>,
) -> Result<T, ExitCode> {
    T::try_parse_from(words).map_err(|error| {
        if !error.use_stderr() {
            // An error means that the reader has closed the pipe.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        eprintln!("{}", text(program, &error));
        ExitCode::from(USAGE)
    })
}

/// What is wrong, and what to do.
fn text(program: &str, error: &Error) -> String {
    let problem = match (error.kind(), context(error, ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(name)) if name.starts_with('-') => {
            let near = context(error, ContextKind::SuggestedArg);
            let near = near.map(|it| format!("; did you mean {it}?")).unwrap_or_default();
            format!("unknown option {name}{near}")
        }
        _ => {
            // How to use it follows after an empty line.
            let rendered = error.to_string();
            let first = rendered.split("\n\n").next().unwrap_or_default();
            let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
            first.trim_start_matches("error: ").to_owned()
        }
    };
    format!("{program}: {problem}; {program} --help lists all options")
}

fn context(error: &Error, kind: ContextKind) -> Option<String> {
    error.get(kind).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[arg(long)]
        bodies: Option<u32>,
        url: String,
    }

    #[test]
    fn what_is_wrong_is_one_line_that_says_what_to_do() {
        let said = |words: &[&str]| {
            let words = [&["x"], words].concat();
            text("muster x", &Args::try_parse_from(words).unwrap_err())
        };
        let end = "; muster x --help lists all options";
        for (words, problem) in [
            (&["u", "--bodie=1"][..], "unknown option --bodie; did you mean --bodies?"),
            (&["u", "--q"][..], "unknown option --q"),
            (&[][..], "the following required arguments were not provided: <URL>"),
            (&["u", "v"][..], "unexpected argument 'v' found"),
            (
                &["u", "--bodies", "x"][..],
                "invalid value 'x' for '--bodies <BODIES>': invalid digit found in string",
            ),
        ] {
            assert_eq!(said(words), format!("muster x: {problem}{end}"));
        }
    }
}

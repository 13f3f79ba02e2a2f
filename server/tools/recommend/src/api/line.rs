//! Lines for the standard error, which may be closed: whoever started the recommender may be gone.

use std::{
    fmt,
    io::{self, Write},
};

/// Writes a line, if anybody reads it.
pub(super) fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

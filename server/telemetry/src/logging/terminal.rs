//! What a terminal gets of the log that a file does not: colours of levels, and a line that is written over again.

use tracing::Level;

/// The target of events that say how far the server has come. They are no lines of the log.
pub(super) const PROGRESS: &str = "muster::progress";

/// To the beginning of the line, and nothing is left of it.
const ERASE: &str = "\r\x1b[K";

/// Most characters of a line that is written over: one that wraps could not be.
const LONGEST: usize = 76;

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looks {
    /// Is it a terminal?
    pub is_terminal: bool,
    /// Are levels in colours?
    pub colours: bool,
}

/// Says how far the server has come, to a person at a terminal: in one line that the next one takes the place of.
/// Nothing ends it. Whatever is logged stands above it.
pub fn progress(text: &str) {
    tracing::info!(target: PROGRESS, "{text}");
}

/// The level, of five characters.
pub(super) fn level(level: Level, looks: Looks) -> String {
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    };
    match looks.colours {
        true => format!("\x1b[{colour}m{level:5}\x1b[0m"),
        false => format!("{level:5}"),
    }
}

/// The line that is written over, in place of the one before.
pub(super) fn over(text: &str) -> String {
    let shown: String = text.chars().take(LONGEST).collect();
    format!("{ERASE}{shown}")
}

/// A line of the log, in place of one that is written over.
pub(super) fn instead(line: &str) -> String {
    format!("{ERASE}{line}")
}

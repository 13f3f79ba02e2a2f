//! An event → one line. Whatever a client may have put into it, it stays one line of bounded length
//! with nothing in it that a terminal would obey.

use std::{
    error::Error,
    fmt::{self, Write as _},
};

use tracing::{
    Level,
    field::{Field, Visit},
};
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime, SystemTime},
};

use super::{
    log_settings::LogFormat,
    terminal::{self, Looks},
};

/// Longest message, in bytes; long enough for an engine's account of why a model does not load.
const LONGEST_MESSAGE: usize = 4096;
/// Longest value of a field, in bytes.
const LONGEST_VALUE: usize = 512;
/// Fields after this many bytes of them are left out.
const LONGEST_FIELDS: usize = 8192;

/// A line in the making.
pub(super) struct Line {
    format: LogFormat,
    level: Level,
    /// The line of the source that says it, as Triton's formats show it.
    place: SourceLine,
    /// The message, escaped.
    message: String,
    /// The other fields, escaped, each with its separator in front.
    fields: String,
    /// A field did not fit.
    cut: bool,
}

/// A line of the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceLine {
    /// Without its folders.
    pub(super) file: &'static str,
    pub(super) line: u32,
}

impl SourceLine {
    /// `path` is what the compiler calls the file.
    pub(super) fn new(path: &'static str, line: u32) -> SourceLine {
        let file = path.rsplit('/').next().unwrap_or(path);
        SourceLine { file, line }
    }
}

impl Line {
    pub(super) fn new(format: LogFormat, level: Level, place: SourceLine) -> Line {
        Line { format, level, place, message: String::new(), fields: String::new(), cut: false }
    }

    /// Sets the message.
    pub(super) fn say(&mut self, message: &str) {
        // A list in a message is one sentence on its line; in JSON its ends of lines are kept.
        let escaped = match self.format {
            LogFormat::Json => escape(message, LONGEST_MESSAGE),
            _ => escape(&message.replace("\n- ", "; "), LONGEST_MESSAGE),
        };
        self.message = match self.format {
            // Nothing surrounds it: its quotes are only quotes, and what it shows may be pasted.
            LogFormat::Text => escaped.replace("\\\"", "\""),
            LogFormat::Json | LogFormat::Default | LogFormat::Iso8601 => escaped,
        };
    }

    /// The message alone.
    pub(super) fn into_message(self) -> String {
        self.message
    }

    /// The whole line, with the present time and an end of line.
    pub(super) fn finish(self, looks: Looks) -> String {
        let mut line = String::with_capacity(self.message.len() + self.fields.len() + 80);
        let level = self.level;
        // Writing to a string cannot fail.
        let _ = match self.format {
            LogFormat::Text => {
                write_time(&mut line);
                let cut = if self.cut { " …" } else { "" };
                let level = terminal::level(level, looks);
                writeln!(line, " {level} {}{}{cut}", self.message, self.fields)
            }
            LogFormat::Json => {
                line.push_str("{\"time\":\"");
                write_time(&mut line);
                let cut = if self.cut { ",\"cut\":true" } else { "" };
                let (message, fields) = (self.message, self.fields);
                writeln!(line, "\",\"level\":\"{level}\",\"message\":\"{message}\"{fields}{cut}}}")
            }
            LogFormat::Default | LogFormat::Iso8601 => {
                let mut time = String::with_capacity(32);
                write_time(&mut time);
                let letter = match level {
                    Level::ERROR => 'E',
                    Level::WARN => 'W',
                    _ => 'I',
                };
                let part = |range: std::ops::Range<usize>| time.get(range).unwrap_or_default();
                let _ = match self.format {
                    LogFormat::Default => {
                        write!(line, "{letter}{}{} {}", part(5..7), part(8..10), part(11..26))
                    }
                    _ => write!(line, "{}Z {letter}", part(0..19)),
                };
                let (pid, SourceLine { file, line: number }) = (std::process::id(), self.place);
                let cut = if self.cut { " …" } else { "" };
                writeln!(line, " {pid} {file}:{number}] \"{}{}{cut}\"", self.message, self.fields)
            }
        };
        line
    }

    /// A value that is text.
    fn text(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.say(value);
            return;
        }
        let value_text = escape(value, LONGEST_VALUE);
        let bare = self.format != LogFormat::Json
            && !value.is_empty()
            && value.chars().all(|it| !it.is_whitespace() && it != '"' && it != '=')
            && value_text == value;
        self.field(field, &if bare { value_text } else { format!("\"{value_text}\"") });
    }

    /// A value that is written as it is.
    fn field(&mut self, field: &Field, value: &str) {
        if self.fields.len() + value.len() > LONGEST_FIELDS {
            self.cut = true;
            return;
        }
        let name = field.name();
        let _ = match self.format {
            LogFormat::Text => write!(self.fields, " {name}={value}"),
            LogFormat::Json => write!(self.fields, ",\"{name}\":{value}"),
            // All of the line is one string, in which quotes and what is escaped are escaped once more.
            LogFormat::Default | LogFormat::Iso8601 => {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                write!(self.fields, " {name}={value}")
            }
        };
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let longest = if field.name() == "message" { LONGEST_MESSAGE } else { LONGEST_VALUE };
        self.text(field, &bounded(format_args!("{value:?}"), longest));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.text(field, &value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.field(field, &value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, &value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.text(field, &value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.text(field, &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field, if value { "true" } else { "false" });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no word for the others.
        match value.is_finite() {
            true => self.field(field, &value.to_string()),
            false => self.text(field, &value.to_string()),
        }
    }
}

/// UTC, as `2026-01-02T03:04:05.678901Z`.
fn write_time(line: &mut String) {
    let _ = SystemTime.format_time(&mut Writer::new(line));
}

/// What is written, but no more than a little past `longest` bytes of it: the rest is never made. The
/// excess tells [`escape`] that something is missing.
fn bounded(text: fmt::Arguments<'_>, longest: usize) -> String {
    struct Bounded {
        text: String,
        longest: usize,
    }
    impl fmt::Write for Bounded {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            let room = (self.longest + 8).saturating_sub(self.text.len());
            self.text.push_str(&part[..part.floor_char_boundary(room)]);
            if part.len() > room { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut bounded = Bounded { text: String::new(), longest };
    let _ = bounded.write_fmt(text);
    bounded.text
}

/// `text` as it may stand in a JSON string or in quotes: control characters and the marks that turn the
/// direction of writing as `\n` or `\u001b`, quotes and backslashes behind a backslash. Past `longest`
/// bytes there is only `…`.
fn escape(text: &str, longest: usize) -> String {
    let kept = &text[..text.floor_char_boundary(longest)];
    let mut escaped = String::with_capacity(kept.len() + 4);
    for letter in kept.chars() {
        match letter {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            _ if letter.is_control() || turns_or_breaks(letter) => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(letter));
            }
            _ => escaped.push(letter),
        }
    }
    if kept.len() < text.len() {
        escaped.push('…');
    }
    escaped
}

/// Line and paragraph separators, and marks of writing direction. All are below U+10000, so that four
/// digits are enough.
fn turns_or_breaks(letter: char) -> bool {
    matches!(letter, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{feff}')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_would_obey_survives() {
        assert_eq!(
            escape("a\r\nb\u{1b}[31m\u{202e}\u{9b}\u{7f}", 99),
            concat!("a\\r\\nb\\u001b[31m", "\\u202e", "\\u009b", "\\u007f")
        );
        assert_eq!(escape("\"\\", 9), "\\\"\\\\");
        assert_eq!(escape("Zoë 漢", 99), "Zoë 漢");
    }

    #[test]
    fn a_list_of_problems_is_one_sentence_without_marks_for_ends_of_lines() {
        let line = |format| {
            let mut line = Line::new(format, Level::ERROR, SourceLine { file: "x.rs", line: 1 });
            line.say("2 problems\n- dims is missing\n- name is missing");
            line.finish(Looks::default())
        };
        assert!(line(LogFormat::Text).contains("2 problems; dims is missing; name is missing"));
        assert!(line(LogFormat::Json).contains("2 problems\\n- dims"));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(escape("ëëë", 3), "ë…");
        assert_eq!(escape("ëëë", 6), "ëëë");
    }

    #[test]
    fn an_endless_value_is_not_made_in_full() {
        struct Endless;
        impl fmt::Debug for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("again and again ")?;
                }
            }
        }
        assert_eq!(bounded(format_args!("{Endless:?}"), 100).len(), 108);
    }
}

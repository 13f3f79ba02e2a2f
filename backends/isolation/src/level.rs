//! The level that a line of a worker's begins with, as this program, loggers of Python, Triton and the engines'
//! libraries write it. Pure.

use tracing::Level;

/// Words for levels.
const WORDS: [(&str, Level); 10] = [
    ("TRACE", Level::TRACE),
    ("DEBUG", Level::DEBUG),
    ("VERBOSE", Level::DEBUG),
    ("INFO", Level::INFO),
    ("NOTICE", Level::INFO),
    ("WARN", Level::WARN),
    ("WARNING", Level::WARN),
    ("ERROR", Level::ERROR),
    ("CRITICAL", Level::ERROR),
    ("FATAL", Level::ERROR),
];

/// The level of a line, which is information where it does not say, and what is left of it to be logged: without the
/// word of this program's own lines.
pub(crate) fn level_of(line: &str) -> (Level, &str) {
    let line = line.trim_start();
    let (word, rest) = line.split_once(' ').unwrap_or(("", line));
    if let Some(level) = named(word) {
        return (level, rest.trim_start());
    }
    let (text, is_stamped) = without_stamp(without_colour(line));
    let text = text.trim_start_matches('[');
    let end = text.find(|it: char| !it.is_ascii_uppercase()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let level = match named(word) {
        Some(level) if rest.starts_with([':', ']', ' ', ',']) => Some(level),
        Some(_) => None,
        None => of_letter(word).filter(|_| match is_stamped {
            // `.. W tensorflow/core`, `.. [W:onnxruntime`
            true => rest.starts_with([':', ' ']),
            // `W1128 06:10:00.1 1 file.cc:12]`
            false => rest.get(..4).is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit())),
        }),
    };
    (level.unwrap_or(Level::INFO), line)
}

fn named(word: &str) -> Option<Level> {
    WORDS.iter().find(|(it, _)| *it == word).map(|(_, level)| *level)
}

fn of_letter(letter: &str) -> Option<Level> {
    match letter {
        "V" | "D" => Some(Level::DEBUG),
        "I" => Some(Level::INFO),
        "W" => Some(Level::WARN),
        "E" | "F" => Some(Level::ERROR),
        _ => None,
    }
}

/// The line behind what sets its colour on a terminal.
fn without_colour(line: &str) -> &str {
    let coloured = line.strip_prefix("\u{1b}[").and_then(|it| it.split_once('m'));
    coloured.map_or(line, |(_, rest)| rest)
}

/// The line behind a date and a time, and was there one?
fn without_stamp(line: &str) -> (&str, bool) {
    let (mut rest, mut is_stamped) = (line, false);
    for _ in 0..2 {
        let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_stamp = word.starts_with(|it: char| it.is_ascii_digit())
            && word.contains(['-', ':', '/'])
            && word.chars().all(|it| it.is_ascii_digit() || "-:./,TZ+".contains(it));
        if !is_stamp {
            break;
        }
        (rest, is_stamped) = (behind, true);
    }
    (rest, is_stamped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, level: Level, text: &str) {
        assert_eq!(level_of(line), (level, text), "{line}");
    }

    #[test]
    fn a_line_has_the_level_that_it_begins_with() {
        check("WARN nothing bounds it", Level::WARN, "nothing bounds it");
        check("ERROR  two", Level::ERROR, "two");
        for (line, level) in [
            ("WARNING:root:three", Level::WARN),
            ("CRITICAL:root:four", Level::ERROR),
            ("[ERROR] five", Level::ERROR),
            ("2026-11-28 06:10:00,123 WARNING six", Level::WARN),
            ("W1128 06:10:00.123456 1 model.cc:12] seven", Level::WARN),
            ("E1128 06:10:00.123456 1 model.cc:12] eight", Level::ERROR),
            ("2026-11-28 06:10:00.123456: W tensorflow/core/nine.cc:1] ..", Level::WARN),
            (
                "\u{1b}[1;31m2026-11-28 06:10:00.123456789 [E:onnxruntime:, ten.cc:1 Run] ..",
                Level::ERROR,
            ),
            ("2026-11-28T06:10:00Z DEBUG eleven", Level::DEBUG),
        ] {
            check(line, level, line);
        }
    }

    #[test]
    fn a_line_that_says_none_is_information() {
        for line in [
            "plain",
            "",
            "E",
            "ERRORS were found",
            "I am here",
            "Warning: no",
            "W12 x",
            "1.5 E",
            "W:x",
        ] {
            check(line, Level::INFO, line);
        }
    }
}

//! Is the first record of a CSV text a header? The text is read as its rows are: a byte order mark, empty lines and
//! quotes are no part of a name.

use std::borrow::Cow;

use backend::DataType;
use smallvec::SmallVec;

use super::reader::{CsvReader, start, text};
use crate::inputs::{is_column, only_input};
use inference::{grant::Grant, signature::Signature};

/// Does the first record consist of exactly these names?
pub(super) fn is<'n>(
    text: &str,
    mut names: impl Iterator<Item = Cow<'n, str>>,
    grant: &Grant,
) -> bool {
    let mut reader = CsvReader::new(text, grant);
    names.all(|name| matches!(reader.next(), Ok(Some(field)) if field.text.trim_ascii() == name))
}

/// Are the fields of the first record names of inputs, all that are required among them; or is its first field the name
/// of a column of the only input, and no number?
pub fn names_columns(signature: &Signature, body: &[u8]) -> bool {
    names_inputs(signature, body) || begins_with_column(signature, body)
}

fn begins_with_column(signature: &Signature, body: &[u8]) -> bool {
    let labels = only_input(signature).map_or(&[][..], |it| &it.labels);
    let Some(longest) = labels.iter().map(String::len).max() else { return false };
    let Some(mut reader) = reader(body, longest) else { return false };
    let Ok(Some(field)) = reader.next() else { return false };
    let word = field.text.trim_ascii();
    word.parse::<f64>().is_err() && is_column(signature, word)
}

fn names_inputs(signature: &Signature, body: &[u8]) -> bool {
    // Most texts begin with a number: nothing more of them is looked at.
    let first = body.get(start(body)..).unwrap_or_default();
    let is_near = matches!(first.first(), Some(b'"' | b' ' | b'\t'));
    if !is_near && !signature.inputs.iter().any(|it| first.starts_with(it.name.as_bytes())) {
        return false;
    }
    // A longer field is no name.
    let longest = signature.inputs.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let Some(mut reader) = reader(body, longest) else { return false };
    let mut found: SmallVec<[&str; 8]> = SmallVec::new();
    while let Ok(Some(field)) = reader.next() {
        let Some(port) = signature.input(field.text.trim_ascii()) else { return false };
        found.push(&port.name);
        if field.last {
            break;
        }
    }
    !found.is_empty() && signature.inputs.iter().all(|it| it.optional || found.contains(&&*it.name))
}

/// Is the first record this name alone, with a line end behind it? Spaces around it are no part of it.
pub fn is_headed(body: &[u8], name: &str) -> bool {
    // Texts are long: only one that may have this name is looked at.
    let first = body.get(start(body)..).unwrap_or_default().trim_ascii_start();
    if !first.starts_with(name.as_bytes()) && !first.starts_with(b"\"") {
        return false;
    }
    let Some(mut reader) = reader(body, name.len()) else { return false };
    let is_name = |text: &str| text.trim_matches([' ', '\t']) == name;
    let named = matches!(reader.next(), Ok(Some(field)) if field.last && is_name(field.text));
    named && reader.is_behind_line_end()
}

/// Has the first record not one number, where the model takes some?
pub fn begins_with_words(signature: &Signature, body: &[u8]) -> bool {
    if signature.inputs.iter().all(|it| it.dtype == DataType::Bytes) {
        return false;
    }
    // No number that is quoted has quotes within.
    let Some(mut reader) = reader(body, 32) else { return false };
    let mut fields = 0;
    while let Ok(Some(field)) = reader.next() {
        let word = field.text.trim_ascii();
        if word.is_empty() || word.parse::<f64>().is_ok() || word.parse::<bool>().is_ok() {
            return false;
        }
        fields += 1;
        if field.last {
            break;
        }
    }
    fields > 0
}

/// A reader of the body, if it is a text, for names of so many bytes: each of their quotes is doubled.
fn reader(body: &[u8], longest: usize) -> Option<CsvReader<'_>> {
    text(body).ok().map(|it| CsvReader::preview(it, 2 * longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::model;

    /// Ways in which programs write a first record of this one name.
    fn written(name: &str) -> Vec<String> {
        let mut written = Vec::new();
        for before in ["", "\u{feff}", "\n", "\r\n\n", "\u{feff}\n"] {
            let quoted = [format!("\"{name}\""), format!("\"{name} \"")];
            for name in [name.to_owned(), format!(" {name}\t")].into_iter().chain(quoted) {
                for end in ["\n", "\r\n"] {
                    written.push(format!("{before}{name}{end}"));
                }
            }
        }
        written
    }

    #[test]
    fn a_header_is_one_behind_marks_empty_lines_and_in_quotes() {
        let signature = model(8, &["text BYTES []"], &[]);
        let number = model(8, &["x FP32 [1]"], &[]);
        for header in written("inputs") {
            assert!(is_headed(format!("{header}A\n").as_bytes(), "inputs"), "{header:?}");
            assert!(begins_with_words(&number, format!("{header}1\n").as_bytes()), "{header:?}");
        }
        for header in written("text") {
            assert!(names_columns(&signature, format!("{header}A\n").as_bytes()), "{header:?}");
        }
    }

    #[test]
    fn a_text_that_begins_like_the_name_is_no_header() {
        for body in ["inputs", "inputs,x\nA,B\n", "inputs are\nA\n", "\"inputs\"", "\"inputs\n\"\n"]
        {
            assert!(!is_headed(body.as_bytes(), "inputs"), "{body:?}");
        }
        assert!(!is_headed(b"\xffinputs\nA\n", "inputs"));
    }
}

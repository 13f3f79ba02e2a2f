//! What a body is whose content type says nothing, from its first bytes.

use formats::{json, medium, negotiate::Media, npy, recordio};

/// The media type that a body is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyType {
    /// That format.
    Media(Media),
    /// The file of an image or a sound.
    File,
    /// A text, for a model that takes texts.
    Text,
    /// None of these: perhaps a tensor without any frame.
    Other,
}

/// What one JSON document is, by its keys and by the shape of what is behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    /// An object whose `inputs` describe tensors.
    KserveV2,
    /// An object with `instances` or `inputs`.
    Tfs,
    /// An object with `examples`.
    Examples,
    /// An object whose `inputs` are texts for a pipeline.
    HuggingFace,
    /// An object with a table, or in MLflow's dialect with tensors.
    Mlflow,
    /// An object whose `instances` are rows of AWS's algorithms.
    Instances,
    /// One such row.
    Features,
    /// An object keyed by the names of the model's inputs.
    Named,
    /// An array.
    Bare,
    /// What is one row in the dialect of TensorFlow Serving's container: a value without brackets, and for a model that
    /// does not batch also a list of values, or an object keyed by the names of inputs.
    Scalar,
}

/// The first bytes of a ZIP archive: npz is one.
const ZIP: &[u8] = b"PK\x03\x04";

/// Lines that are looked at to tell libsvm from CSV.
const LINES: usize = 16;

/// What this body is.
pub(super) fn sniff(body: &[u8]) -> BodyType {
    match body {
        _ if json::begins_with_bracket(body) => BodyType::Media(Media::Json),
        _ if body.starts_with(npy::MAGIC) => BodyType::Media(Media::Npy),
        _ if body.starts_with(ZIP) => BodyType::Media(Media::Npz),
        _ if medium::of_bytes(body).is_some() => BodyType::File,
        _ if body.starts_with(&recordio::MAGIC) => BodyType::Media(Media::RecordIo),
        _ => match text(body) {
            Some(text) if is_libsvm(text) => BodyType::Media(Media::Libsvm),
            Some(_) => BodyType::Media(Media::Csv),
            None => BodyType::Other,
        },
    }
}

/// The body as text that a person could have written.
fn text(body: &[u8]) -> Option<&str> {
    let control = |it: &u8| it.is_ascii_control() && !b"\t\r\n".contains(it);
    if body.iter().any(control) { None } else { std::str::from_utf8(body).ok() }
}

/// Has one of the first lines, which have blanks between their words, one of the form `index:value`?
fn is_libsvm(text: &str) -> bool {
    let pair = |word: &str| {
        word.split_once(':').is_some_and(|(index, value)| {
            let digits = !index.is_empty() && index.bytes().all(|it| it.is_ascii_digit());
            digits && value.parse::<f64>().is_ok()
        })
    };
    let line = |line: &str| !line.contains(',') && line.split_ascii_whitespace().any(pair);
    text.lines().take(LINES).any(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &[u8], body_type: BodyType) {
        assert_eq!(sniff(body), body_type);
    }

    #[test]
    fn json_begins_with_a_bracket_behind_blanks() {
        check(b" \n[1]", BodyType::Media(Media::Json));
        check(b"{", BodyType::Media(Media::Json));
        check(b"1,2", BodyType::Media(Media::Csv));
    }

    #[test]
    fn files_are_known_by_their_first_bytes() {
        check(b"\x93NUMPY\x01\x00", BodyType::Media(Media::Npy));
        check(b"PK\x03\x04..", BodyType::Media(Media::Npz));
        check(b"\x0a\x23\xd7\xce\x01", BodyType::Media(Media::RecordIo));
        for file in [&b"\x89PNG\r\n\x1a\n."[..], b"RIFF....WAVEfmt ", b"OggS\0\x02"] {
            check(file, BodyType::File);
        }
        check(b"BMW,VW\n", BodyType::Media(Media::Csv));
        check(b"RIFF", BodyType::Media(Media::Csv));
    }

    #[test]
    fn libsvm_has_pairs_of_index_and_value_between_blanks() {
        check(b"1 1:0.5 7:2\n", BodyType::Media(Media::Libsvm));
        check(b"0\n1 3:1\n", BodyType::Media(Media::Libsvm));
        check(b"3:1e-3 4:2", BodyType::Media(Media::Libsvm));
        check(b"12:30,13:40\n", BodyType::Media(Media::Csv));
        check(b"at 12:x\n", BodyType::Media(Media::Csv));
        check(b"a:1 :2\n", BodyType::Media(Media::Csv));
    }

    #[test]
    fn what_is_no_text_is_something_else() {
        check(&[0, 0, 128, 63], BodyType::Other);
        check(b"\xff\xfe", BodyType::Other);
    }
}

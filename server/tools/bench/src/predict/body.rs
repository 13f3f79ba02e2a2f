//! A file as the body of a request, and the type that it is sent under.

use std::{
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use crate::{Error, media::media_type};

/// The file name that is standard input.
const STANDARD_INPUT: &str = "-";

/// Types by the endings of names. Pictures and sounds are told by their first bytes.
const BY_ENDING: [(&str, &str); 12] = [
    ("csv", "text/csv"),
    ("json", "application/json"),
    ("jsonl", "application/jsonlines"),
    ("ndjson", "application/x-ndjson"),
    ("libsvm", "text/libsvm"),
    ("svm", "text/libsvm"),
    ("npy", "application/x-npy"),
    ("npz", "application/x-npz"),
    ("txt", TEXT),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
];

const TEXT: &str = "text/plain";
/// Whatever the server takes it for.
const UNKNOWN: &str = "application/octet-stream";

/// What is sent of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileBody {
    /// The type.
    pub(super) content_type: String,
    /// The bytes.
    pub(super) bytes: Vec<u8>,
}

impl FileBody {
    /// Of a file, or of standard input; `given` is a type that somebody has named. Blocks until all is read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read(path: &Path, given: Option<&str>) -> Result<FileBody, Error> {
        let failed = |source: io::Error| Error::File { path: path.to_owned(), source };
        let mut bytes = match path == Path::new(STANDARD_INPUT) {
            true => {
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
                bytes
            }
            false => fs::read(path).map_err(failed)?,
        };
        let content_type = given.unwrap_or_else(|| content_type(path, &bytes)).to_owned();
        if content_type == TEXT {
            // The end of the last line is an editor's, and no part of the text.
            bytes.truncate(bytes.trim_ascii_end().len());
        }
        Ok(FileBody { content_type, bytes })
    }
}

/// The type of a file: by its first bytes where they say it, by the ending of its name, else by what it looks like.
fn content_type(path: &Path, bytes: &[u8]) -> &'static str {
    if let Some(media) = media_type(bytes) {
        return media;
    }
    let ending = PathBuf::from(path.to_string_lossy().to_lowercase());
    let ending = ending.extension().and_then(|it| it.to_str()).unwrap_or_default();
    if let Some((_, known)) = BY_ENDING.iter().find(|it| it.0 == ending) {
        return known;
    }
    match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => return "application/x-npy",
        [b'P', b'K', 3, 4, ..] => return "application/x-npz",
        _ => {}
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if text.trim_start().starts_with(['{', '[']) => "application/json",
        Ok(text) if is_record(text.lines().next().unwrap_or_default()) => "text/csv",
        Ok(text) if !text.trim().is_empty() => TEXT,
        _ => UNKNOWN,
    }
}

/// Is this line numbers between commas?
fn is_record(line: &str) -> bool {
    line.split(',').all(|it| it.trim().parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_told_by_first_bytes_then_by_the_ending_then_by_the_look() {
        for (name, bytes, expected) in [
            ("photo.dat", &b"\xff\xd8\xff\xe0"[..], "image/jpeg"),
            ("wrong.csv", b"\x89PNG\r\n", "image/png"),
            ("a.wav", b"RIFF\x04\0\0\0WAVEfmt ", "audio/wav"),
            ("row.CSV", b"name,1", "text/csv"),
            ("body.json", b" {}", "application/json"),
            ("rows.jsonl", b"{}\n{}", "application/jsonlines"),
            ("a.npy", b"\x93NUMPY\x01", "application/x-npy"),
            ("array", b"\x93NUMPY\x01", "application/x-npy"),
            ("-", b"{\"inputs\":\"a\"}", "application/json"),
            ("-", b"1.5, -2e3,nan\n", "text/csv"),
            ("-", b"I am happy.", "text/plain"),
            ("notes.txt", b"1,2", "text/plain"),
            ("weights", b"\x00\xff", "application/octet-stream"),
            ("empty", b"", "application/octet-stream"),
        ] {
            assert_eq!(content_type(Path::new(name), bytes), expected, "{name}");
        }
    }

    #[test]
    fn a_text_is_sent_without_the_end_of_its_last_line() {
        let file = std::env::temp_dir().join(format!("muster-predict-{}.txt", std::process::id()));
        fs::write(&file, "I am happy.\n").unwrap();
        let body = FileBody::read(&file, None).unwrap();
        assert_eq!((body.content_type.as_str(), &body.bytes[..]), (TEXT, &b"I am happy."[..]));
        let named = FileBody::read(&file, Some("text/csv")).unwrap();
        assert_eq!((named.content_type.as_str(), named.bytes.len()), ("text/csv", 12));
        fs::remove_file(&file).unwrap();
        assert!(FileBody::read(&file, None).unwrap_err().to_string().contains("muster-predict-"));
    }
}

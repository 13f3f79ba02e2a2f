//! Requests from files: images or sounds, as clients of models of files send them, and bodies as they are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, Request, invocations, media::media_type, random::Random};

/// The request for a file: its bytes under the type that its first bytes say.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn file_request(file: &Path) -> Result<Request, Error> {
    let body = fs::read(file).map_err(|source| failed(file, source))?;
    invocations(media_type(&body).unwrap_or("application/x-image"), body)
}

/// All files of that list, those of its directories in place of these, in an order that depends on the seed alone.
///
/// # Errors
/// When a directory cannot be read, or there is no file.
pub(crate) fn list_files(given: &[PathBuf], seed: u64) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in given {
        match path.is_dir() {
            true => {
                for entry in fs::read_dir(path).map_err(|source| failed(path, source))? {
                    let entry = entry.map_err(|source| failed(path, source))?.path();
                    files.extend(entry.is_file().then_some(entry));
                }
            }
            false => files.push(path.clone()),
        }
    }
    if files.is_empty() {
        return Err(Error::plan("--files", "expected a file, or a directory with files"));
    }
    // The order of a directory is none.
    files.sort();
    let mut random = Random::new(seed);
    for last in (1..files.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        files.swap(last, other);
    }
    Ok(files)
}

/// The lines of a file that are not empty, or the files of a directory by their names.
///
/// # Errors
/// When something cannot be read, or there is no body.
pub(crate) fn read_bodies(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let read = |it: &Path| fs::read(it).map_err(|source| failed(it, source));
    let bodies: Vec<Vec<u8>> = match path.is_dir() {
        true => {
            let mut files = Vec::new();
            for entry in fs::read_dir(path).map_err(|source| failed(path, source))? {
                let entry = entry.map_err(|source| failed(path, source))?.path();
                files.extend(entry.is_file().then_some(entry));
            }
            files.sort();
            files.iter().map(|it| read(it)).collect::<Result<_, Error>>()?
        }
        false => {
            let all = read(path)?;
            let lines = all.split(|it| *it == b'\n').map(|it| it.trim_ascii_end());
            lines.filter(|it| !it.is_empty()).map(<[u8]>::to_vec).collect()
        }
    };
    match bodies.is_empty() {
        true => Err(Error::plan("--bodies", format!("{}: expected a body", path.display()))),
        false => Ok(bodies),
    }
}

/// Does a body look like the answer to a file?
pub(crate) fn is_answer(body: &[u8]) -> bool {
    let answer: Result<serde_json::Value, _> = serde_json::from_slice(body);
    answer.is_ok_and(|it| it.get("error").is_none())
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_a_body_under_its_type() {
        let directory = std::env::temp_dir().join(format!("muster-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
        write("a.jpg", b"\xff\xd8\xff\xe0");
        write("b.wav", b"RIFF\x04\0\0\0WAVE");
        write("c", b"BM");
        let files = list_files(std::slice::from_ref(&directory), 1).unwrap();
        assert_eq!(files.len(), 3);
        assert_eq!(list_files(&[directory.join("c")], 1).unwrap(), [directory.join("c")]);
        let sent = |name: &str| {
            let request = file_request(&directory.join(name)).unwrap();
            String::from_utf8_lossy(&request.encode("h")).into_owned()
        };
        for (name, kind) in
            [("a.jpg", "image/jpeg"), ("b.wav", "audio/wav"), ("c", "application/x-image")]
        {
            let sent = sent(name);
            assert!(sent.starts_with("POST /invocations "), "{sent}");
            assert!(sent.contains(&format!("Content-Type: {kind}\r\n")), "{sent}");
        }
        fs::remove_dir_all(&directory).unwrap();
        assert!(list_files(&[], 1).unwrap_err().to_string().contains("expected a file"));
        assert!(file_request(&directory.join("a.jpg")).is_err());
    }

    #[test]
    fn an_answer_is_told_from_an_error() {
        assert!(is_answer(br#"[{"label":"a","score":1}]"#) && is_answer(br#"{"text":"A"}"#));
        assert!(!is_answer(br#"{"error":"x"}"#) && !is_answer(b"<html>"));
    }
}

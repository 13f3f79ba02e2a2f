//! The bodies of requests: every regular file of a directory or of an archive, or one file.

use std::{
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use loadgen::bodies_in_words;

/// Most bytes of all bodies together.
const MOST_BYTES: u64 = 1 << 30;

/// Why there are no bodies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("payload{}: {problem}", of(.path.as_deref()))]
pub struct PayloadError {
    /// What was given; `None` where it is the bytes that are wrong.
    path: Option<String>,
    problem: String,
}

/// The path in a sentence.
fn of(path: Option<&str>) -> String {
    path.map_or_else(String::new, |it| format!(" '{it}'"))
}

impl PayloadError {
    fn at(path: &str, problem: impl fmt::Display) -> PayloadError {
        PayloadError { path: Some(path.to_owned()), problem: problem.to_string() }
    }

    fn bytes(problem: impl fmt::Display) -> PayloadError {
        PayloadError { path: None, problem: problem.to_string() }
    }
}

impl From<io::Error> for PayloadError {
    fn from(error: io::Error) -> PayloadError {
        PayloadError::bytes(error)
    }
}

/// A body and its type.
#[derive(Debug, Clone, PartialEq)]
pub struct TypedBody {
    /// The file that it is from.
    pub name: String,
    /// `Content-Type`.
    pub content_type: String,
    /// As it is sent.
    pub bytes: Vec<u8>,
}

/// How many bodies there are, of how many bytes and which types, in words.
pub fn described(bodies: &[TypedBody]) -> String {
    bodies_in_words(bodies.iter().map(|it| (it.bytes.len(), it.content_type.as_str())))
}

/// The bodies at `path`, in the order of their names. `path` may be a `file://` address, and a `.tar.gz`.
///
/// # Errors
/// Names what cannot be read.
pub fn read(path: &str, types: &[String]) -> Result<Vec<TypedBody>, PayloadError> {
    let path = path.strip_prefix("file://").unwrap_or(path);
    if path.contains("://") {
        return Err(PayloadError::at(path, "expected a path or a file:// address"));
    }
    let path = Path::new(path);
    let failed = |it: std::io::Error| PayloadError::at(&path.to_string_lossy(), it);
    let mut files: Vec<(String, Vec<u8>)> = match path.is_dir() {
        true => {
            let mut files = Vec::new();
            let mut left: Vec<PathBuf> = vec![path.to_owned()];
            let mut room = MOST_BYTES;
            while let Some(directory) = left.pop() {
                for entry in fs::read_dir(directory).map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    let kind = entry.file_type().map_err(failed)?;
                    if kind.is_dir() {
                        left.push(entry.path());
                    } else if kind.is_file() {
                        let bytes =
                            bounded(fs::File::open(entry.path()).map_err(failed)?, &mut room)?;
                        let name =
                            entry.path().strip_prefix(path).map_or(entry.path(), Path::to_owned);
                        files.push((name.to_string_lossy().into_owned(), bytes));
                    }
                }
            }
            files
        }
        false if archives::is_archive(&path.to_string_lossy()) => unpack(path)?,
        false => {
            let bytes = bounded(fs::File::open(path).map_err(failed)?, &mut MOST_BYTES.clone())?;
            vec![(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), bytes)]
        }
    };
    files.sort();
    if files.is_empty() {
        return Err(PayloadError::at(&path.to_string_lossy(), "expected a file"));
    }
    let body = |(name, bytes): (String, Vec<u8>)| TypedBody {
        content_type: content_type(&name, types),
        name,
        bytes,
    };
    Ok(files.into_iter().map(body).collect())
}

/// What a reader gives, as far as there is room.
fn bounded(from: impl Read, room: &mut u64) -> Result<Vec<u8>, PayloadError> {
    let mut bytes = Vec::new();
    from.take(*room + 1).read_to_end(&mut bytes).map_err(PayloadError::bytes)?;
    let left = room.checked_sub(bytes.len() as u64);
    *room = left.ok_or_else(|| PayloadError::bytes("more than 1 GiB"))?;
    Ok(bytes)
}

/// The regular files of an archive.
fn unpack(path: &Path) -> Result<Vec<(String, Vec<u8>)>, PayloadError> {
    let mut room = MOST_BYTES;
    let mut files = Vec::new();
    let read = |file| {
        archives::read(file, |entry| {
            if entry.header().entry_type().is_file() {
                let name = entry.path()?.to_string_lossy().into_owned();
                files.push((name, bounded(entry, &mut room)?));
            }
            Ok(())
        })
    };
    let read = fs::File::open(path).map_err(PayloadError::from).and_then(read);
    read.map_err(|it| PayloadError::at(&path.to_string_lossy(), it.problem))?;
    Ok(files)
}

/// The type of a file: of `types` the one that goes with its ending, else the first one.
fn content_type(name: &str, types: &[String]) -> String {
    let usual = match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "csv" => "text/csv",
        "jsonl" | "jsonlines" => "application/jsonlines",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "npy" => "application/x-npy",
        "txt" => "text/plain",
        "libsvm" => "text/libsvm",
        "wav" => "audio/wav",
        _ => "application/json",
    };
    let fits = types.iter().find(|it| *it == usual);
    fits.or(types.first()).map_or_else(|| usual.to_owned(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_an_archive_or_directory_is_a_body() {
        let directory = std::env::temp_dir().join(format!("muster-payload-{}", std::process::id()));
        fs::create_dir_all(directory.join("in/deeper")).unwrap();
        fs::write(directory.join("in/b.csv"), "1,2\n").unwrap();
        fs::write(directory.join("in/deeper/a.json"), "{}").unwrap();
        let archive = directory.join("x.tar.gz");
        let file = fs::File::create(&archive).unwrap();
        let mut builder =
            tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
        builder.append_dir_all(".", directory.join("in")).unwrap();
        builder.into_inner().unwrap().finish().unwrap();

        let types = ["application/json", "text/csv"].map(str::to_owned);
        let address = format!("file://{}", archive.display());
        for path in [address, directory.join("in").to_string_lossy().into_owned()] {
            let bodies = read(&path, &types).unwrap();
            let seen: Vec<_> =
                bodies.iter().map(|it| (it.content_type.as_str(), it.bytes.as_slice())).collect();
            assert_eq!(seen, [("text/csv", b"1,2\n".as_slice()), ("application/json", b"{}")]);
        }
        let one = read(&directory.join("in/b.csv").to_string_lossy(), &[]).unwrap();
        assert_eq!((one.len(), one[0].content_type.as_str()), (1, "text/csv"));
        fs::create_dir(directory.join("empty")).unwrap();
        let empty = read(&directory.join("empty").to_string_lossy(), &[]).unwrap_err().to_string();
        assert!(empty.contains("expected a file"), "{empty}");
        assert!(read("s3://bucket/x", &[]).unwrap_err().to_string().contains("file://"));
        fs::remove_dir_all(directory).unwrap();
    }
}

//! What distinguishes the answers of a loaded model from those of any other, also of one of the same name and version:
//! a digest of its files and its configuration, else a number that no other load has.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::{BuildHasher, Hasher},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// By so much the clock that files are stamped with may be behind.
const FILE_CLOCK: Duration = Duration::from_millis(10);

/// Folders in folders that are read. Models are not deeper, and a link may lead into a circle.
const DEEPEST: usize = 8;

/// 256 bits. Two loads with the same ones give the same answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// One that no other load has, in no process.
    pub fn unique() -> ContentHash {
        let mut digest = blake3::Hasher::new();
        digest.update(b"load");
        digest.update(&std::process::id().to_le_bytes());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        digest.update(&now.as_nanos().to_le_bytes());
        // Keys that the system has drawn by chance, others each time.
        for _ in 0..2 {
            digest.update(&RandomState::new().build_hasher().finish().to_le_bytes());
        }
        ContentHash(*digest.finalize().as_bytes())
    }

    /// That of everything that has this text and is otherwise the same.
    pub fn of_text(text: &[u8]) -> ContentHash {
        let mut digest = blake3::Hasher::new();
        part(&mut digest, env!("CARGO_PKG_VERSION").as_bytes());
        part(&mut digest, text);
        ContentHash(*digest.finalize().as_bytes())
    }

    /// That of every load of these files under this configuration, also in other processes and on other machines.
    /// Reads all files; blocking. A unique one where a file cannot be read, lies deeper than eight folders, or was
    /// written after the load had `started`: then it is not known which state the engine has seen.
    pub fn of_files(config: &[u8], path: &Path, started: SystemTime) -> ContentHash {
        let digest = || -> io::Result<Option<ContentHash>> {
            let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
            let started = started.saturating_sub(FILE_CLOCK);
            let mut digest = blake3::Hasher::new();
            part(&mut digest, env!("CARGO_PKG_VERSION").as_bytes());
            part(&mut digest, config);
            let Some(files) = files_below(path)? else { return Ok(None) };
            for file in files {
                let metadata = fs::metadata(&file)?;
                let changed = (metadata.ctime(), metadata.ctime_nsec());
                let limit = (started.as_secs().cast_signed(), i64::from(started.subsec_nanos()));
                if limit <= changed {
                    return Ok(None);
                }
                let name = file.strip_prefix(path).unwrap_or(&file);
                part(&mut digest, name.as_os_str().as_encoded_bytes());
                digest.update(&metadata.len().to_le_bytes());
                digest.update_reader(backend::open_file(&file)?)?;
            }
            Ok(Some(ContentHash(*digest.finalize().as_bytes())))
        };
        digest().ok().flatten().unwrap_or_else(ContentHash::unique)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// With its length in front, so that what follows cannot be taken for a part of it.
fn part(digest: &mut blake3::Hasher, bytes: &[u8]) {
    digest.update(&(bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}

/// Every file in a folder and those below it, in order; or the file itself. `None` where folders lie too deep.
fn files_below(path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let mut files = Vec::new();
    let mut open = vec![(path.to_owned(), 0)];
    while let Some((path, depth)) = open.pop() {
        if !path.is_dir() {
            files.push(path);
        } else if depth > DEEPEST {
            return Ok(None);
        } else {
            for entry in fs::read_dir(&path)? {
                open.push((entry?.path(), depth + 1));
            }
        }
    }
    files.sort();
    Ok(Some(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_are_one_identity_wherever_they_are_and_any_difference_is_another() {
        let root = std::env::temp_dir().join(format!("muster-fingerprint-{}", std::process::id()));
        let made = |name: &str, file: &str, content: &str| {
            let dir = root.join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(file), content).unwrap();
            dir
        };
        let (a, b) = (made("a", "model.onnx", "x"), made("b", "model.onnx", "x"));
        let (c, d) = (made("c", "model.onnx", "y"), made("d", "model.pt", "x"));
        // The clock of files may be some milliseconds behind.
        let later = SystemTime::now() + Duration::from_secs(60);
        let of = |dir: &Path, config: &str| ContentHash::of_files(config.as_bytes(), dir, later);
        assert_eq!(of(&a, "m"), of(&b, "m"));
        for other in [of(&a, "n"), of(&c, "m"), of(&d, "m"), of(&root.join("gone"), "m")] {
            assert_ne!(of(&a, "m"), other);
        }
        // Written while it was being loaded.
        let early = SystemTime::now() - Duration::from_secs(60);
        let once = ContentHash::of_files(b"m", &a, early);
        assert_ne!(once, ContentHash::of_files(b"m", &a, early));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn links_that_lead_into_a_circle_are_not_followed_for_ever() {
        let root = std::env::temp_dir().join(format!("muster-circle-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        for name in ["one", "other"] {
            std::os::unix::fs::symlink(&root, root.join(name)).unwrap();
        }
        assert_eq!(files_below(&root).unwrap(), None);
        let later = SystemTime::now() + Duration::from_secs(60);
        let once = ContentHash::of_files(b"m", &root, later);
        assert_ne!(once, ContentHash::of_files(b"m", &root, later));
        fs::remove_dir_all(&root).unwrap();
    }
}

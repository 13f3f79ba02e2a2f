//! A small file of the kernel's that is read again and again, and stays open.
//!
//! To open a file takes some of the kernel's memory, which the control group has to pay for. Where the group has none,
//! the kernel ends a process for it, or refuses: whoever watches memory must not be the one that asks for some.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf, sync::OnceLock};

/// Bytes that are read at a time.
const PIECE: usize = 4096;

/// A file that is opened when it is read for the first time.
#[derive(Debug, Default)]
pub(crate) struct KeptFile {
    pub(crate) path: PathBuf,
    file: OnceLock<File>,
}

impl KeptFile {
    pub(crate) fn new(path: impl Into<PathBuf>) -> KeptFile {
        KeptFile { path: path.into(), file: OnceLock::new() }
    }

    /// Its text now; `None` where it cannot be read.
    pub(crate) fn read(&self) -> Option<String> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let opened = File::open(&self.path).ok()?;
                self.file.get_or_init(|| opened)
            }
        };
        let mut text = Vec::new();
        loop {
            let begin = text.len();
            text.resize(begin + PIECE, 0);
            let read = file.read_at(text.get_mut(begin..)?, begin as u64).ok()?;
            text.truncate(begin + read);
            if read == 0 {
                return String::from_utf8(text).ok();
            }
        }
    }
}

/// The same file, not open yet.
impl Clone for KeptFile {
    fn clone(&self) -> KeptFile {
        KeptFile::new(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_opened_once_and_read_anew_each_time() {
        let path = std::env::temp_dir().join(format!("muster-kept-{}", std::process::id()));
        let kept = KeptFile::new(&path);
        assert_eq!(kept.read(), None, "it is not there yet");
        let long = "x".repeat(PIECE + 1);
        for text in ["1\n", &*long, ""] {
            fs::write(&path, text).unwrap();
            assert_eq!(kept.read().as_deref(), Some(text));
        }
        // Another file under that name would have to be opened.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "other").unwrap();
        assert_eq!(
            (kept.read().as_deref(), kept.clone().read().as_deref()),
            (Some(""), Some("other"))
        );
        fs::remove_file(&path).unwrap();
    }
}

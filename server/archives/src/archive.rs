//! An archive that is open, and what can be wrong with it.

use std::{
    cell::Cell,
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::PathBuf,
    rc::Rc,
};

use crate::zstd::{Frames, ZSTD};

/// An archive that cannot be unpacked.
#[derive(Debug, thiserror::Error)]
#[error("archive '{}': {problem}", .archive.display())]
pub struct ArchiveError {
    /// Where it is.
    pub archive: PathBuf,
    /// What is wrong with it.
    pub problem: ArchiveProblem,
}

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveProblem {
    /// It cannot be read, or its files cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It holds more than there is room for, or than a model has.
    #[error("it holds more than {0} bytes or {MOST_FILES} files")]
    TooLarge(u64),
    /// To make the directories of a name takes time as the cube of how deep it is.
    #[error("it has a file in more than {MOST_PARTS} directories within each other")]
    TooDeep,
    /// A folder in it is larger than that.
    #[error("it holds more than {most_bytes} bytes, or too many files")]
    LargeTree {
        /// What there is room for.
        most_bytes: u64,
    },
    /// A file would be written outside of its directory.
    #[error("'{}' leads outside of it", .0.display())]
    Outward(PathBuf),
    /// A link leads outside of its directory.
    #[error("the link '{}' leads to '{}', outside of it", .name.display(), .target.display())]
    OutwardLink {
        /// The link.
        name: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A device, a pipe or the like.
    #[error("'{}' is no file, no directory and no link", .0.display())]
    Special(PathBuf),
}

/// Most files of an archive.
pub(crate) const MOST_FILES: usize = 100_000;

/// Most directories around a file, and itself.
pub(crate) const MOST_PARTS: usize = 64;

/// Most bytes of names and remarks before a file. They are held; what compresses well may have any number of them.
const MOST_TOLD: u64 = 1 << 20;

/// How a file begins that is compressed by gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Calls `each` with every entry of an archive, inflated where it begins as gzip or zstd do. Blocking.
///
/// # Errors
/// Those of the file system, of the archive, and of `each`.
pub fn read<E: From<io::Error>>(
    mut file: File,
    mut each: impl FnMut(&mut Entry<'_>) -> Result<(), E>,
) -> Result<(), E> {
    file.rewind()?;
    let mut beginning = Vec::new();
    file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut beginning)?;
    file.rewind()?;
    // Some layers of images are several such streams, one after the other.
    let from: Box<dyn Read> = match &beginning[..] {
        it if it.starts_with(&GZIP) => Box::new(flate2::read::MultiGzDecoder::new(file)),
        it if it == ZSTD => Box::new(Frames::new(BufReader::new(file))),
        _ => Box::new(BufReader::new(file)),
    };
    let left = Rc::new(Cell::new(MOST_TOLD));
    let mut archive = tar::Archive::new(Bounded { from, left: left.clone() });
    for entry in archive.entries()? {
        let mut entry = entry?;
        left.set(u64::MAX);
        each(&mut entry)?;
        io::copy(&mut entry, &mut io::sink())?;
        left.set(MOST_TOLD);
    }
    Ok(())
}

/// An entry of an archive.
pub type Entry<'a> = tar::Entry<'a, Bounded>;

/// A source that gives so many bytes and no more.
pub struct Bounded {
    from: Box<dyn Read>,
    left: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            let text = format!("more than {MOST_TOLD} bytes are said of one of its files");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX).min(into.len());
        let read = self.from.read(&mut into[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

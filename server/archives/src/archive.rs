//! An archive that is open, and what can be wrong with it.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::{Path, PathBuf},
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

/// How a file begins that is compressed by gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads an archive, inflated where it begins as gzip or zstd do. Blocking.
///
/// # Errors
/// Those of the file system.
pub fn open(path: &Path) -> io::Result<tar::Archive<Box<dyn Read>>> {
    read(File::open(path)?)
}

/// The same of a file that is open, from its beginning.
pub(crate) fn read(mut file: File) -> io::Result<tar::Archive<Box<dyn Read>>> {
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
    Ok(tar::Archive::new(from))
}

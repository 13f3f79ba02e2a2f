//! Archives of models, as SageMaker has them: `model.tar.gz`.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use tar::EntryType;

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
    Io(#[from] std::io::Error),
    /// It holds more than a model has.
    #[error("more than 64 GiB or 100000 files")]
    TooLarge,
}

/// Most bytes and files of an archive.
const MOST_BYTES: u64 = 64 << 30;
const MOST_FILES: usize = 100_000;

/// Is the name that of an archive?
pub fn is_archive(path: &str) -> bool {
    [".tar.gz", ".tgz", ".tar"].iter().any(|it| path.ends_with(it))
}

/// Reads an archive, inflated where its name says so.
///
/// # Errors
/// Those of the file system.
pub fn open(path: &Path) -> std::io::Result<tar::Archive<Box<dyn Read>>> {
    let file = File::open(path)?;
    let from: Box<dyn Read> = match path.extension().is_some_and(|it| it == "tar") {
        true => Box::new(file),
        false => Box::new(flate2::read::GzDecoder::new(file)),
    };
    Ok(tar::Archive::new(from))
}

/// Puts the files of an archive into a directory, which is made. Links are left out.
///
/// # Errors
/// Names the archive and what is wrong.
pub fn unpack(path: &Path, into: &Path) -> Result<(), ArchiveError> {
    unpack_into(path, into).map_err(|problem| ArchiveError { archive: path.to_owned(), problem })
}

fn unpack_into(path: &Path, into: &Path) -> Result<(), ArchiveProblem> {
    fs::create_dir_all(into)?;
    let (mut bytes, mut files) = (0_u64, 0);
    for entry in open(path)?.entries()? {
        let mut entry = entry?;
        if !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Directory) {
            continue;
        }
        (bytes, files) = (bytes.saturating_add(entry.size()), files + 1);
        if bytes > MOST_BYTES || files > MOST_FILES {
            return Err(ArchiveProblem::TooLarge);
        }
        // It puts nothing outside of the directory.
        entry.unpack_in(into)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    #[test]
    fn files_are_unpacked_and_links_and_what_leads_outside_are_not() {
        let directory = std::env::temp_dir().join(format!("muster-archive-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let archive = directory.join("model.tar.gz");
        let encoder = GzEncoder::new(File::create(&archive).unwrap(), Compression::fast());
        let mut builder = tar::Builder::new(encoder);
        let mut add = |name: &str, kind: EntryType, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            if kind == EntryType::Symlink {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            builder.append(&header, content).unwrap();
        };
        add("1/model.onnx", EntryType::Regular, b"onnx");
        add("link", EntryType::Symlink, b"");
        add("../outside", EntryType::Regular, b"x");
        builder.into_inner().unwrap().finish().unwrap();

        let into = directory.join("model");
        unpack(&archive, &into).unwrap();
        assert_eq!(fs::read(into.join("1/model.onnx")).unwrap(), b"onnx");
        assert!(!into.join("link").exists() && !directory.join("outside").exists());
        fs::write(&archive, "no archive").unwrap();
        assert!(unpack(&archive, &into).unwrap_err().to_string().contains("model.tar.gz"));
        fs::remove_dir_all(directory).unwrap();
    }
}

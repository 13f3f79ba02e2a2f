//! Archives of models: `model.tar.gz` as SageMaker has them, and the layers of images. They are tar, and inflated where
//! they begin as gzip or zstd do, whatever they are called.
#![forbid(unsafe_code)]

mod archive;
mod tree;
mod zstd;

use std::{
    fs::{self, File},
    path::Path,
};

use tar::EntryType;

pub use archive::{ArchiveError, ArchiveProblem, Bounded, Entry, read};
use archive::{MOST_FILES, MOST_PARTS};
pub use tree::unpack_tree;

/// Most bytes of the files of an archive.
pub const MOST_BYTES: u64 = 64 << 30;

/// Is the name that of an archive?
pub fn is_archive(path: &str) -> bool {
    [".tar.gz", ".tgz", ".tar.zst", ".tar"].iter().any(|it| path.ends_with(it))
}

/// Puts the regular files of an archive into a directory, which is made: nothing outside of it, no links, and at most
/// so many bytes. Blocking.
///
/// # Errors
/// Names the archive and what is wrong.
pub fn unpack(path: &Path, into: &Path, most_bytes: u64) -> Result<(), ArchiveError> {
    let failed = |problem| ArchiveError { archive: path.to_owned(), problem };
    unpack_into(path, into, most_bytes.min(MOST_BYTES)).map_err(failed)
}

fn unpack_into(path: &Path, into: &Path, most_bytes: u64) -> Result<(), ArchiveProblem> {
    fs::create_dir_all(into)?;
    let (mut bytes, mut files) = (0_u64, 0);
    read(File::open(path)?, |entry| {
        // What is left out is read past, and counts.
        (bytes, files) = (bytes.saturating_add(entry.size()), files + 1);
        if bytes > most_bytes || files > MOST_FILES {
            return Err(ArchiveProblem::TooLarge(most_bytes));
        }
        // Directories are made for the files in them: an archive may say of one that nobody may write into it.
        if entry.header().entry_type() == EntryType::Regular {
            if MOST_PARTS < entry.path()?.components().count() {
                return Err(ArchiveProblem::TooDeep);
            }
            // It puts nothing outside of the directory.
            entry.unpack_in(into)?;
        }
        Ok(())
    })
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
        unpack(&archive, &into, MOST_BYTES).unwrap();
        assert_eq!(fs::read(into.join("1/model.onnx")).unwrap(), b"onnx");
        assert!(!into.join("link").exists() && !directory.join("outside").exists());
        let large = unpack(&archive, &into, 4).unwrap_err().to_string();
        assert!(large.contains("model.tar.gz") && large.contains("more than 4 bytes"), "{large}");
        let mut builder = tar::Builder::new(File::create(&archive).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        builder.append_data(&mut header, "d/".repeat(MOST_PARTS) + "f", &b""[..]).unwrap();
        builder.finish().unwrap();
        let deep = unpack(&archive, &into, MOST_BYTES).unwrap_err().to_string();
        assert!(deep.ends_with("more than 64 directories within each other"), "{deep}");
        let mut builder = tar::Builder::new(File::create(&archive).unwrap());
        builder.append_data(&mut header, "n".repeat(2 << 20), &b""[..]).unwrap();
        builder.finish().unwrap();
        let told = unpack(&archive, &into, MOST_BYTES).unwrap_err().to_string();
        assert!(told.contains("more than 1048576 bytes are said of one of its files"), "{told}");
        fs::write(&archive, "no archive").unwrap();
        let none = unpack(&archive, &into, MOST_BYTES).unwrap_err().to_string();
        assert!(none.contains("model.tar.gz"), "{none}");
        fs::remove_dir_all(directory).unwrap();
    }
}

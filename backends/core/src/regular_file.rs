//! Opens and reads files that somebody has put there, such as those of a model. Only regular files are opened: a pipe
//! holds whoever opens it until another writes, and a device may do anything.

use std::{
    fs::{self, File, FileType, Metadata},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// Opens a regular file to read it; links are followed. Does not wait for other processes.
///
/// # Errors
/// Those of the file system, and what it is where it is no file.
pub fn open_file(path: &Path) -> io::Result<File> {
    // Before it is opened: some devices do something when they are.
    check_is_file(&fs::metadata(path)?)?;
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    // It may have been replaced in between.
    check_is_file(&file.metadata()?)?;
    Ok(file)
}

/// The content of a regular file.
///
/// # Errors
/// Those of [`open_file`].
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_file(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// The text of a regular file.
///
/// # Errors
/// Those of [`open_file`], and a content that is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open_file(path)?)
}

/// The same of a file that has at most so many bytes: what is made of a text takes many times its size.
///
/// # Errors
/// Also where it has more. What a link leads to may grow without end, and is read no further.
pub fn read_text_within(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_file(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if most < bytes.len() as u64 {
        let problem = format!("it has more than {most} bytes, which is the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    // As [`read_text`] says it.
    let problem = "stream did not contain valid UTF-8";
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// That a path leads to a regular file or to a directory, for a library that opens it by itself. Blocking.
///
/// # Errors
/// What it is, where it is neither. What cannot be looked at is left to whoever opens it.
pub fn check_opens(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(it) if !it.is_dir() => check_is_file(&it),
        _ => Ok(()),
    }
}

fn check_is_file(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = kind_of(metadata.file_type());
    let problem = format!("this is {kind}, and a file is expected; put the file itself there");
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

fn kind_of(file_type: FileType) -> &'static str {
    match file_type {
        it if it.is_dir() => "a directory",
        it if it.is_fifo() => "a pipe",
        it if it.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[track_caller]
    fn check(path: &Path, kind: &str) {
        let expected = format!("this is {kind}, and a file is expected; put the file itself there");
        assert_eq!(open_file(path).unwrap_err().to_string(), expected);
        assert_eq!(read_text(path).unwrap_err().to_string(), expected);
        assert_eq!(check_opens(path).is_err(), kind != "a directory");
    }

    #[test]
    fn what_is_no_file_is_not_opened_and_is_told() {
        let root = tempfile::tempdir().unwrap();
        let at = |name| root.path().join(name);
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("pipe", at("link")).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        check(&at("pipe"), "a pipe");
        check(&at("link"), "a pipe");
        check(&at("socket"), "a socket");
        check(Path::new("/dev/zero"), "a device");
        check(root.path(), "a directory");
    }

    #[test]
    fn a_file_is_read_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        assert_eq!(read_file(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(check_opens(&path).is_ok());
        fs::write(&path, "text").unwrap();
        assert_eq!(read_file(&path).unwrap(), b"text");
        assert_eq!(read_text(&path).unwrap(), "text");
        assert_eq!(read_text_within(&path, 4).unwrap(), "text");
        let error = read_text_within(&path, 3).unwrap_err().to_string();
        assert_eq!(error, "it has more than 3 bytes, which is the most that is read");
        assert!(check_opens(&path).is_ok());
    }
}

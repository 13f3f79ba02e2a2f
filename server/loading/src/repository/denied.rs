//! Why a file or a directory cannot be read: which, and where permission lacks, who must be able to.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

/// A sentence: `what` could not be done to `path`.
pub(crate) fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    let text = format!("cannot {what} {}: {error}", path.display());
    if error.kind() != io::ErrorKind::PermissionDenied {
        return text;
    }
    // The directory of a process belongs to its user.
    let user = fs::metadata("/proc/self")
        .map_or("its user".to_owned(), |it| format!("user {} and group {}", it.uid(), it.gid()));
    format!(
        "{text}; the server runs as {user}: make it readable for them, and its directories (chmod a+rX)"
    )
}

/// The same, as an error.
pub(crate) fn listing_failed(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), cannot("list", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_permission_is_named_with_the_path() {
        let denied = io::Error::from_raw_os_error(13);
        let user = fs::metadata("/proc/self").unwrap().uid();
        let text = listing_failed(Path::new("/models/m"), denied).to_string();
        let begin = format!(
            "cannot list /models/m: Permission denied (os error 13); the server runs as user {user} "
        );
        assert!(text.starts_with(&begin), "{text}");
        let absent = io::Error::from_raw_os_error(2);
        let text = cannot("read", Path::new("/m.pbtxt"), &absent);
        assert_eq!(text, "cannot read /m.pbtxt: No such file or directory (os error 2)");
    }
}

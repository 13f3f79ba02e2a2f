//! Layers of an image that are archives: unpacked one over the other, as a container has them.

use std::{fs, io, path::Path};

use archives::ArchiveError;

/// Begins the name of a file that stands for the absence of another one.
const WHITEOUT: &str = ".wh.";

/// The file that stands for the absence of all that is in its directory.
const OPAQUE: &str = ".wh..wh..opq";

/// Puts the files of archives into a directory: those of a later one replace and remove those of earlier ones. They
/// are at most so many bytes, all together. Blocking.
///
/// # Errors
/// Names the archive.
pub(crate) fn unpack(archives: &[&Path], into: &Path, most_bytes: u64) -> Result<(), ArchiveError> {
    let layer = into.with_extension("layer");
    let mut left = most_bytes;
    for archive in archives {
        let failed =
            |it: io::Error| ArchiveError { archive: (*archive).to_owned(), problem: it.into() };
        clear(&layer).map_err(failed)?;
        archives::unpack(archive, &layer, left)?;
        left = left.saturating_sub(bytes_of(&layer).map_err(failed)?);
        fs::create_dir_all(into).and_then(|()| merge(&layer, into)).map_err(failed)?;
        clear(&layer).map_err(failed)?;
    }
    Ok(())
}

/// Removes a directory with all that is in it, if it is there.
pub(crate) fn clear(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn bytes_of(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { bytes_of(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

/// Moves what is in a layer over what is there.
fn merge(layer: &Path, into: &Path) -> io::Result<()> {
    let names = fs::read_dir(layer)?.map(|it| Ok(it?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    // What is absent is of earlier layers, never of this one.
    if names.iter().any(|it| it == OPAQUE) {
        clear(into)?;
        fs::create_dir_all(into)?;
    }
    let is_whiteout =
        |it: &&std::ffi::OsString| it.as_encoded_bytes().starts_with(WHITEOUT.as_bytes());
    for name in names.iter().filter(is_whiteout) {
        let absent = name.to_str().and_then(|it| it.strip_prefix(WHITEOUT));
        if let Some(absent) = absent
            .filter(|it| !it.is_empty() && !it.starts_with(WHITEOUT) && *it != "." && *it != "..")
        {
            remove(&into.join(absent))?;
        }
    }
    for name in names.iter().filter(|it| !is_whiteout(it)) {
        let (from, to) = (layer.join(name), into.join(name));
        if from.is_dir() {
            if !to.is_dir() {
                remove(&to)?;
                fs::create_dir(&to)?;
            }
            merge(&from, &to)?;
        } else {
            remove(&to)?;
            fs::rename(&from, &to)?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return fs::remove_dir_all(path);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::files_below;

    #[test]
    fn a_later_layer_replaces_and_removes_files_of_earlier_ones() {
        let root = std::env::temp_dir().join(format!("muster-layers-{}", std::process::id()));
        clear(&root).unwrap();
        let put = |layer: &str, files: &[&str]| {
            for file in files {
                let path = root.join(layer).join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, layer).unwrap();
            }
            merge(&root.join(layer), &root.join("all")).unwrap();
        };
        fs::create_dir_all(root.join("all")).unwrap();
        put("1", &["models/a", "models/b", "old/x", "file", "gone/deep/x"]);
        put(
            "2",
            &[
                "models/.wh.a",
                "models/c",
                "old/.wh..wh..opq",
                "old/y",
                "file/now/folder",
                ".wh.gone",
                "..wh.x",
            ],
        );
        let expected = ["..wh.x", "file/now/folder", "models/b", "models/c", "old/y"];
        assert_eq!(files_below(&root.join("all")), expected);
        assert!(!root.join("all/gone").exists());
        // Nothing outside of the directory is removed.
        fs::write(root.join("beside"), "").unwrap();
        put("3", &[".wh...", ".wh..", "models/.wh."]);
        assert!(root.join("beside").exists() && root.join("all/models/b").exists());
        clear(&root).unwrap();
    }
}

//! The files of a model: which there are, and a hash of what is in them.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Most files of a model that are looked at.
const MOST_FILES: usize = 10_000;
/// Digits of a hash that are shown.
const SHOWN: usize = 16;

/// All files at a path, in the order of their names.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        if files.len() == MOST_FILES {
            break;
        }
        match fs::read_dir(&path) {
            Ok(entries) => left.extend(entries.flatten().map(|it| it.path())),
            Err(_) if path.exists() => files.push(path),
            Err(_) => {}
        }
    }
    files.sort();
    files
}

/// What a configuration says that settings may say differently, by the names of fields and parameters.
const SETTINGS: [&str; 3] = ["instance_group", "max_batch_size", "op_thread_count"];

/// Does its configuration, in its directory or in that of a model of a repository, say what settings say, too? That of
/// a model elsewhere may.
pub(crate) fn says_settings(model: &str) -> bool {
    let says = |folder: &Path| {
        let text = fs::read_to_string(folder.join("config.pbtxt")).unwrap_or_default();
        SETTINGS.iter().any(|it| text.to_ascii_lowercase().contains(it))
    };
    let folder = Path::new(model);
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    model.contains("://") || says(folder) || inside.into_iter().any(|it| says(&it.path()))
}

/// The first digits of BLAKE3 over a model: of a file over what is in it, of a directory over the names of its files
/// with what is in them. Reads all of it; blocking. `None` where there is nothing on this machine, or it cannot be
/// read.
pub(crate) fn hash(path: &Path) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    if path.is_file() {
        hasher.update_reader(File::open(path).ok()?).ok()?;
    } else {
        let files = files(path);
        if files.is_empty() {
            return None;
        }
        files.iter().try_for_each(|it| add(&mut hasher, path, it)).ok()?;
    }
    let digits = hasher.finalize().to_hex();
    digits.get(..SHOWN).map(str::to_owned)
}

/// Adds a file of a directory. Lengths come first, so that no two directories are read as the same bytes.
fn add(hasher: &mut blake3::Hasher, folder: &Path, file: &Path) -> io::Result<()> {
    let name = file.strip_prefix(folder).unwrap_or(file).to_string_lossy().into_owned();
    let opened = File::open(file)?;
    for length in [name.len() as u64, opened.metadata()?.len()] {
        hasher.update(&length.to_le_bytes());
    }
    hasher.update(name.as_bytes());
    hasher.update_reader(opened).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_another_hash_where_a_byte_or_a_name_is_another_and_its_configuration_is_read() {
        let folder = std::env::temp_dir().join(format!("muster-hash-{}", std::process::id()));
        fs::create_dir_all(folder.join("1")).unwrap();
        let file = folder.join("1/model.onnx");
        fs::write(&file, "abc").unwrap();
        // That of `b3sum`.
        assert_eq!(hash(&file).as_deref(), Some("6437b3ac38465133"));
        let before = hash(&folder).unwrap();
        fs::write(&file, "abd").unwrap();
        let changed = hash(&folder).unwrap();
        fs::write(&file, "abc").unwrap();
        assert_eq!(hash(&folder).as_ref(), Some(&before));
        fs::rename(&file, folder.join("1/other.onnx")).unwrap();
        let renamed = hash(&folder).unwrap();
        assert!(before != changed && before != renamed && changed != renamed);
        assert_eq!(hash(&folder.join("none")), None);
        let says = |text: &str| {
            fs::write(folder.join("1/config.pbtxt"), text).unwrap();
            says_settings(&folder.to_string_lossy())
        };
        assert!(!says("backend: \"identity\""));
        assert!(says("max_batch_size: 4") && says("parameters { key: \"INTRA_OP_THREAD_COUNT\" }"));
        assert!(says_settings("s3://bucket/m") && !says_settings("/none"));
        fs::remove_dir_all(folder).unwrap();
    }
}

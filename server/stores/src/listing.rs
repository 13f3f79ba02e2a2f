//! What a store has of one model: objects become files, and each object an identity. Nothing is asked here.

use std::{collections::BTreeSet, time::SystemTime};

use md5::{Digest, Md5};
use object_store::{ObjectMeta, path::Path};

/// One object that is a file of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    /// Its key in the bucket.
    pub(super) key: Path,
    /// The file's path below the model's directory, with slashes.
    pub(super) file: String,
    /// Bytes.
    pub(super) size: u64,
    /// What the store calls this state of it.
    pub(super) e_tag: Option<String>,
    /// When it was written.
    pub(super) written: SystemTime,
    /// Another content of the same key has another one.
    pub(super) id: String,
}

impl Object {
    /// The MD5 of its content in hexadecimal, if the ETag looks like one. It is not one where the store
    /// encrypts with keys of its own.
    pub(super) fn md5(&self) -> Option<&str> {
        let tag = self.e_tag.as_deref()?.trim_matches('"');
        let is_md5 = tag.len() == 32 && tag.bytes().all(|it| it.is_ascii_hexdigit());
        is_md5.then_some(tag)
    }
}

/// A key that cannot be a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the key '{0}' is not the path of a file")]
    NoFile(Path),
    #[error("the key '{0}' is an object and a directory of others")]
    Both(Path),
}

/// Everything that a store has of one model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// By file, ascending.
    pub(super) objects: Vec<Object>,
    /// Directories that may be empty, below the model's, ascending.
    pub(super) directories: Vec<String>,
}

impl Listing {
    /// Reads the objects below `prefix`, the model's directory in the bucket.
    ///
    /// # Errors
    /// Keys that cannot be files, as `a` beside `a/b`.
    pub(super) fn new(prefix: &Path, found: Vec<ObjectMeta>) -> Result<Listing, KeyError> {
        let mut objects: Vec<Object> = Vec::with_capacity(found.len());
        let mut directories = Vec::new();
        for meta in found {
            let Some(parts) = meta.location.prefix_match(prefix) else { continue };
            let parts: Vec<String> = parts.map(|it| it.as_ref().to_owned()).collect();
            let file = parts.join("/");
            // Consoles and tools mark directories by empty objects; a version's has digits for its name.
            let is_version = parts.len() == 1 && file.bytes().all(|it| it.is_ascii_digit());
            if file.is_empty() || (meta.size == 0 && is_version) {
                directories.push(file);
                continue;
            }
            if parts.iter().any(|it| ["", ".", ".."].contains(&&**it) || it.contains(['/', '\0'])) {
                return Err(KeyError::NoFile(meta.location));
            }
            objects.push(object(meta, file));
        }
        let above: BTreeSet<String> = objects.iter().flat_map(|it| parents(&it.file)).collect();
        // Markers of directories that are not empty.
        objects.retain(|it| it.size != 0 || !above.contains(&it.file));
        if let Some(both) = objects.iter().find(|it| above.contains(&it.file)) {
            return Err(KeyError::Both(both.key.clone()));
        }
        objects.sort_by(|a, b| a.file.cmp(&b.file));
        directories.retain(|it| !it.is_empty());
        directories.sort();
        Ok(Listing { objects, directories })
    }

    /// Does the store have nothing of the model?
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.directories.is_empty()
    }

    /// A name for exactly this content.
    pub(super) fn id(&self) -> String {
        let mut hash = Md5::new();
        self.objects.iter().for_each(|it| hash.update(format!("{}\n{}\n", it.file, it.id)));
        self.directories.iter().for_each(|it| hash.update(format!("{it}/\n")));
        hex(&hash.finalize())[..16].to_owned()
    }
}

fn object(meta: ObjectMeta, file: String) -> Object {
    let written = SystemTime::from(meta.last_modified);
    // Where the store names no state of the object, the time has to do.
    let state = match (&meta.e_tag, &meta.version) {
        (None, None) => format!("{}", meta.last_modified.timestamp_micros()),
        (tag, version) => format!("{tag:?} {version:?}"),
    };
    let text = format!("{}\n{state}\n{}", meta.location, meta.size);
    let id = hex(&Md5::digest(text));
    Object { key: meta.location, file, size: meta.size, e_tag: meta.e_tag, written, id }
}

/// `a/b/c` → `a`, `a/b`.
fn parents(file: &str) -> impl Iterator<Item = String> {
    file.match_indices('/').map(|(at, _)| file[..at].to_owned())
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(found: &[(&str, u64, &str)]) -> Result<Listing, KeyError> {
        let meta = |&(key, size, tag): &(&str, u64, &str)| ObjectMeta {
            location: Path::from(key),
            last_modified: Default::default(),
            size,
            e_tag: Some(format!("\"{tag}\"")),
            version: None,
        };
        Listing::new(&Path::from("all/m"), found.iter().map(meta).collect())
    }

    fn files(found: &[(&str, u64, &str)]) -> Vec<String> {
        listing(found).unwrap().objects.into_iter().map(|it| it.file).collect()
    }

    #[test]
    fn objects_below_the_model_are_its_files() {
        let found =
            [("all/m/config.pbtxt", 9, "a"), ("all/m/1/model.onnx", 5, "b"), ("all/mm/x", 1, "c")];
        assert_eq!(files(&found), ["1/model.onnx", "config.pbtxt"]);
        assert!(listing(&[]).unwrap().is_empty());
    }

    #[test]
    fn markers_of_directories_are_no_files() {
        let found =
            [("all/m", 0, "a"), ("all/m/1", 0, "b"), ("all/m/1/x", 1, "c"), ("all/m/2", 0, "d")];
        assert_eq!(files(&found), ["1/x"]);
        assert_eq!(listing(&found).unwrap().directories, ["1", "2"]);
        assert_eq!(files(&[("all/m/d", 0, "a"), ("all/m/d/x", 1, "b")]), ["d/x"]);
        let error = listing(&[("all/m/d", 1, "a"), ("all/m/d/x", 1, "b")]).unwrap_err().to_string();
        assert!(error.contains("all/m/d"), "{error}");
    }

    #[test]
    fn another_state_of_one_object_is_another_identity_of_it_and_of_the_whole() {
        let one = listing(&[("all/m/a", 1, "x"), ("all/m/b", 1, "y")]).unwrap();
        let two = listing(&[("all/m/a", 1, "x"), ("all/m/b", 1, "z")]).unwrap();
        assert_eq!(one.objects[0].id, two.objects[0].id);
        assert_ne!(one.objects[1].id, two.objects[1].id);
        assert_ne!(one.id(), two.id());
    }

    #[test]
    fn only_an_etag_of_one_part_is_a_digest() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        let found =
            listing(&[("all/m/a", 1, md5), ("all/m/b", 1, "d41d8cd98f00b204e9800998ecf8427e-3")]);
        let found = found.unwrap();
        assert_eq!(found.objects[0].md5(), Some(md5));
        assert_eq!(found.objects[1].md5(), None);
    }
}

//! The files beside `saved_model.pb`: what TensorFlow is to open lies beneath the model's directory, and what it needs
//! is there.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Component, Path, PathBuf},
};

use backend::FileStamps;

use super::{error::SavedModelError, proto::MetaGraph};

/// The index of the variables' values.
const VARIABLES: &str = "variables/variables.index";

/// What TensorFlow opens: a file, and all in some folders.
const FILES: [&str; 4] = ["saved_model.pb", "variables", "assets", "assets.extra"];

/// Operations that name a variable.
const OF_VARIABLES: [&str; 5] =
    ["VarHandleOp", "Variable", "VariableV2", "AutoReloadVariable", "TemporaryVariable"];

/// What TensorFlow opens of the SavedModel in that folder, as it is at this moment. Blocking.
pub(crate) fn stamps_of(folder: &Path) -> FileStamps {
    FileStamps::of(FILES.map(|it| folder.join(it)))
}

/// Checks the files of the SavedModel in `folder`, of a model in `directory`. `operations` are those that its
/// signatures run.
///
/// # Errors
/// A link that leads out of both folders, and not to the blobs of its snapshot in the cache of Hugging Face's hub; an
/// asset that is not in the folder of assets, or is not there, and variables
/// without values; the text names the file.
pub(crate) fn check_files(
    folder: &Path,
    directory: &Path,
    meta: &MetaGraph,
    operations: &BTreeSet<String>,
) -> Result<(), SavedModelError> {
    let own =
        |it: &Path| it.canonicalize().map_err(|error| SavedModelError::file(it.display(), error));
    let mut roots = vec![own(folder)?];
    // A model in no directory of its own has none to lie in.
    roots.extend(own(directory).ok().filter(|it| roots[0].starts_with(it)));
    roots.extend(blobs_of(&roots[0]));
    let mut seen = BTreeSet::new();
    for name in FILES {
        check_beneath(&folder.join(name), &roots, &mut seen)?;
    }
    for asset in &meta.assets {
        let name = Path::new(&asset.file);
        let is_plain = name.components().all(|it| matches!(it, Component::Normal(_)));
        if !is_plain || asset.file.is_empty() {
            let name = &asset.file;
            return Err(SavedModelError::new(format_args!(
                "the asset '{name}' is not in the folder of assets"
            )));
        }
        if !folder.join("assets").join(name).is_file() {
            let name = &asset.file;
            return Err(SavedModelError::new(format_args!("the asset assets/{name} is not there")));
        }
    }
    let has_variables = operations.iter().any(|it| OF_VARIABLES.contains(&it.as_str()));
    match has_variables && !folder.join(VARIABLES).is_file() {
        true => Err(SavedModelError::new(format_args!(
            "it has variables, and their values are missing: there is no {VARIABLES}"
        ))),
        false => Ok(()),
    }
}

/// Where the files of a snapshot of Hugging Face's cache lie: links of `<model>/snapshots/<revision>`, or of a folder
/// in it, lead to `<model>/blobs`, which belongs to that model alone.
fn blobs_of(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.ancestors().skip(1).find(|it| it.ends_with("snapshots"))?;
    let blobs = snapshots.parent()?.join("blobs");
    // Itself no link: it would lead anywhere.
    fs::symlink_metadata(&blobs).is_ok_and(|it| it.is_dir()).then_some(blobs)
}

/// Does that file, or all that lies in that folder, lie beneath a root, links followed? `seen`: folders that need not
/// be looked into again.
fn check_beneath(
    path: &Path,
    roots: &[PathBuf],
    seen: &mut BTreeSet<PathBuf>,
) -> Result<(), SavedModelError> {
    let failed = |error: io::Error| SavedModelError::file(path.display(), error);
    let place = match path.canonicalize() {
        Ok(it) => it,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match path.is_symlink() {
                true => Err(SavedModelError::new(format_args!(
                    "{} is a link to what is not there",
                    path.display()
                ))),
                false => Ok(()),
            };
        }
        Err(error) => return Err(failed(error)),
    };
    if !roots.iter().any(|it| place.starts_with(it)) {
        return Err(SavedModelError::new(format_args!(
            "{} is a link that leads out of the model's directory, to {}; copy the file in its place",
            path.display(),
            place.display()
        )));
    }
    backend::check_opens(&place).map_err(failed)?;
    if !place.is_dir() || !seen.insert(place) {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(failed)? {
        check_beneath(&entry.map_err(failed)?.path(), roots, seen)?;
    }
    Ok(())
}

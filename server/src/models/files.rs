//! The files of a model version: which there are, which is the model, and the labels of its classes.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{choose::EngineChoice, config::ModelConfig};

/// Names of the files in a version's directory. A model that lies flat looks like the usual file of its kind.
pub(super) fn files_of(path: &Path) -> io::Result<Vec<String>> {
    if path.is_file() {
        let ending =
            path.extension().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        return Ok(vec![format!("model.{}", if ending == "pth" { "pt".into() } else { ending })]);
    }
    let names = fs::read_dir(path)?.map(|it| Ok(it?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

/// What the engine is to open: the file itself, or the one of that name in the version's directory.
pub(super) fn model_path(path: &Path, choice: &EngineChoice) -> PathBuf {
    match &choice.default_model_filename {
        Some(file) if !path.is_file() => path.join(file),
        _ => path.to_owned(),
    }
}

/// Class names by output, one per line of its label file.
pub(super) fn read_labels(
    config: &ModelConfig,
    dir: &Path,
) -> Result<BTreeMap<Arc<str>, Arc<[String]>>, String> {
    let mut labels = BTreeMap::new();
    for output in &config.outputs {
        let Some(file) = &output.label_filename else { continue };
        let path = dir.join(file);
        let text = fs::read_to_string(&path).map_err(|error| {
            format!(
                "output '{}': cannot read label_filename {}: {error}",
                output.name,
                path.display()
            )
        })?;
        labels.insert(output.name.clone(), text.lines().map(str::to_owned).collect());
    }
    Ok(labels)
}

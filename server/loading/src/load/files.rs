//! The files of a model version: which there are, which is the model, and the labels of its classes.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{Device, Format};

use crate::{
    config::{choose::EngineChoice, engines::Engines},
    load::{load_error::LoadError, placement::Plan},
    repository::{
        content::Content,
        denied::cannot,
        inspect,
        local::{FoundModel, SAVED_MODEL},
    },
};
use machine::gpus::Gpu;
use serving::config::{model::ModelConfig, raw};

/// Models in folders of a version's directory.
const OF_HUB: [&str; 1] = ["onnx/model.onnx"];

/// Names of the files in a version's directory. A model that lies flat looks like the usual file of its kind.
///
/// # Errors
/// When the directory cannot be listed, or what lies flat is no model by its name.
pub(crate) fn files_of(path: &Path, engines: &Engines) -> Result<Vec<String>, LoadError> {
    if path.is_file() {
        let formats = engines.own_formats();
        let format = formats.iter().find(|it| inspect::is_of_format(path, it));
        // A file without an ending says by its content alone what it is.
        let has_ending = path.extension().is_some();
        let by_content = || {
            let told = |it: &&Format| it.content.is_some() && inspect::has_content_of(path, it);
            formats.iter().find(told).filter(|_| !has_ending)
        };
        // Code is a model by its ending where it is named by itself, and in a folder only under the usual name.
        let is_code = |it: &&Format| {
            let ending = path.extension().and_then(|it| it.to_str());
            it.is_by_whole_name && ending.is_some_and(|ending| it.has_extension(ending))
        };
        let by_bytes = || formats.iter().find(|it| inspect::is_by_bytes(path, it));
        return format
            .or_else(by_content)
            .or_else(|| formats.iter().find(is_code))
            .or_else(by_bytes)
            .map(|it| vec![it.file.to_owned()])
            .ok_or_else(|| {
                let name = path.file_name().and_then(|it| it.to_str());
                if name.is_some_and(|name| formats.iter().any(|it| it.has_name(name))) {
                    return inspect::not_by_content(path);
                }
                let problem = format!(
                    "{} is no model by its name: expected a file that ends in {}",
                    path.display(),
                    engines.extensions_text()
                );
                match inspect::content_of(path) {
                    Some(content) if content != Content::Empty => {
                        format!("{problem}; {}", content.sentence(path))
                    }
                    _ => problem,
                }
            })
            .map_err(LoadError::Refused);
    }
    let list = || -> io::Result<Vec<String>> {
        let entries = fs::read_dir(path)?;
        let mut names: Vec<String> = entries
            .map(|it| Ok(it?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()?;
        // As a repository of Hugging Face has it.
        let of_hub = OF_HUB.iter().filter(|it| path.join(it).is_file());
        names.extend(of_hub.map(|it| (*it).to_owned()));
        Ok(names)
    };
    list().map_err(|it| cannot("list", path, &it).into())
}

/// Bytes of the files in a version's directory and in the folders below it, or of a model that lies flat.
pub(crate) fn bytes_of(path: &Path) -> u64 {
    /// Folders within folders that a model has; more are a cycle of links.
    const DEEPEST: usize = 4;
    fn walk(path: &Path, deeper: usize) -> u64 {
        match fs::metadata(path) {
            Ok(it) if it.is_file() => it.len(),
            Ok(it) if it.is_dir() && 0 < deeper => {
                let entries = fs::read_dir(path).into_iter().flatten().flatten();
                entries.map(|it| walk(&it.path(), deeper - 1)).sum()
            }
            _ => 0,
        }
    }
    walk(path, DEEPEST)
}

/// Is it a SavedModel in the layout of TensorFlow Serving, in which a version's directory is the SavedModel?
pub(crate) fn is_of_tensorflow_serving(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let is_version = !name.is_empty() && name.bytes().all(|it| it.is_ascii_digit());
    is_version && path.join(SAVED_MODEL).is_file()
}

/// What the engine is to open: the file itself, or the one of that name in the version's directory.
pub(crate) fn model_path(path: &Path, choice: &EngineChoice) -> PathBuf {
    match &choice.default_model_filename {
        Some(file) if !path.is_file() => path.join(file),
        _ => path.to_owned(),
    }
}

/// The same for a model that runs where the plan says: `cc_model_filenames` names other files for GPUs, by what they
/// can compute.
///
/// # Errors
/// Where the model would run on GPUs that want different files.
pub(crate) fn model_of_plan(
    path: &Path,
    choice: &EngineChoice,
    raw: Option<&raw::ModelConfig>,
    plan: &Plan,
    gpus: &[Gpu],
) -> Result<PathBuf, LoadError> {
    let usual = model_path(path, choice);
    let names = match raw {
        Some(raw) if !raw.cc_model_filenames.is_empty() && !path.is_file() => {
            &raw.cc_model_filenames
        }
        _ => return Ok(usual),
    };
    let mut chosen: BTreeMap<PathBuf, Device> = BTreeMap::new();
    for placement in plan.placements() {
        let Device::Gpu(number) = placement.device else { continue };
        let gpu = gpus.iter().find(|it| it.number == number);
        let capability = gpu.and_then(|it| it.capability.as_deref()).unwrap_or_default();
        let file = names.get(capability).map_or_else(|| usual.clone(), |it| path.join(it));
        chosen.insert(file, placement.device);
    }
    let mut files = chosen.into_keys();
    match (files.next(), files.next()) {
        (None, _) => Ok(usual),
        (Some(file), None) => Ok(file),
        (Some(one), Some(other)) => Err(LoadError::Refused(format!(
            "cc_model_filenames: its GPUs want different files, {} and {}; name GPUs of one kind in \
             instance_group.gpus",
            one.display(),
            other.display()
        ))),
    }
}

/// Files that are one model with the one that was chosen, which is the first of them; none where the configuration
/// names the file.
pub(crate) fn folds_of(
    path: &Path,
    choice: &EngineChoice,
    raw: Option<&raw::ModelConfig>,
    engines: &Engines,
) -> Vec<PathBuf> {
    let is_named = raw.is_some_and(|it| !it.default_model_filename.is_empty());
    let Some(first) = choice.default_model_filename.as_ref().filter(|_| !is_named) else {
        return Vec::new();
    };
    let mut formats = engines.description(&choice.backend).formats.iter();
    let Some((format, first)) = formats.find_map(|it| Some((it, it.fold(first)?))) else {
        return Vec::new();
    };
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let others = entries.filter_map(|entry| {
        let number = format.fold(entry.file_name().to_str()?)?;
        let path = entry.path();
        (first != number && inspect::has_content_of(&path, format)).then_some((number, path))
    });
    let mut others: Vec<(u32, PathBuf)> = others.collect();
    others.sort();
    others.into_iter().map(|(_, path)| path).collect()
}

/// The configuration of a model: the alternative of that name where it has it, else its `config.pbtxt`.
pub(crate) fn config_file(found: &FoundModel, alternative: Option<&str>) -> Option<PathBuf> {
    let alternative = alternative.map(|it| found.dir.join("configs").join(format!("{it}.pbtxt")));
    alternative.filter(|it| it.is_file()).or_else(|| found.config.clone())
}

/// The largest file of class names that is read.
const MOST_LABELS: u64 = 16 << 20;

/// Class names by output, one per line of its label file.
pub(crate) fn read_labels(
    config: &ModelConfig,
    dir: &Path,
) -> Result<BTreeMap<Arc<str>, Arc<[String]>>, LoadError> {
    let mut labels = BTreeMap::new();
    for output in &config.outputs {
        let Some(file) = &output.label_filename else { continue };
        let path = dir.join(file);
        let text = backend::read_text_within(&path, MOST_LABELS).map_err(|error| {
            format!(
                "output '{}': cannot read label_filename {}: {error}",
                output.name,
                path.display()
            )
        })?;
        // Editors put a byte order mark in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        labels.insert(output.name.clone(), text.lines().map(str::to_owned).collect());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::engines::{told_by_content, usual};

    #[test]
    fn a_file_without_a_version_is_a_model_by_its_ending_or_an_error() {
        let dir = std::env::temp_dir().join(format!("muster-flat-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let files = |name: &str| {
            let path = dir.join(name);
            fs::write(&path, "").unwrap();
            files_of(&path, &usual())
        };
        for (name, usual) in [("a.onnx", "onnx"), ("a.pt", "pt"), ("a.pth", "pt"), ("a.pt2", "pt2")]
        {
            assert_eq!(files(name), Ok(vec![format!("model.{usual}")]));
        }
        for name in ["README.md", "model.plan", "model"] {
            let logged = "is no model by its name: expected a file that ends in .onnx, .savedmodel, .pb, .pt or \
                          .pth";
            let text = files(name).unwrap_err().to_string();
            assert_eq!(text, format!("{} {logged}", dir.join(name).display()));
        }
        let text = files_of(&dir.join("README.md"), &told_by_content()).unwrap_err().to_string();
        assert!(text.ends_with("expected a file that ends in .ubj or .joblib"), "{text}");
        fs::write(dir.join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{\"").unwrap();
        let text = files_of(&dir.join("model.safetensors"), &usual()).unwrap_err().to_string();
        assert!(text.contains("; this is a safetensors file"), "{text}");
        fs::remove_dir_all(&dir).unwrap();
        let text = files_of(&dir, &usual()).unwrap_err().to_string();
        assert!(text.starts_with("cannot list "), "{text}");
    }

    #[test]
    fn a_file_that_has_the_name_of_a_model_and_is_none_says_what_it_is() {
        let dir = std::env::temp_dir().join(format!("muster-named-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let error = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).unwrap();
            let text = files_of(&path, &told_by_content()).unwrap_err().to_string();
            let path = format!("{}: ", path.display());
            text.strip_prefix(&path).map(str::to_owned).ok_or(text).unwrap()
        };
        for name in ["a.ubj", "model.joblib"] {
            assert_eq!(error(name, b""), "this is an empty file; copy or download it again");
            let text = error(name, b"cposix\n");
            assert!(text.starts_with("it has the name of a model, but not the content"), "{text}");
        }
        let text = error("a.ubj", b"version https://git-lfs.github.com/spec/v1\n");
        assert!(text.starts_with("this is a Git LFS pointer"), "{text}");
        fs::write(dir.join("a.ubj"), b"{L").unwrap();
        let files = files_of(&dir.join("a.ubj"), &told_by_content());
        assert_eq!(files, Ok(vec!["model.ubj".to_owned()]));
        fs::remove_dir_all(&dir).unwrap();
    }
}

//! Other forms of a model that lie beside its file, such as one in FP16 or int8.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What the names of such files end in before their extension, as exporters write them.
const ENDINGS: [&str; 8] = ["fp16", "int8", "quantized", "uint8", "q8", "optimized", "opt", "O3"];

/// The forms beside a model's file, in the order of their names; none of a directory.
pub(crate) fn beside(model: &Path) -> Vec<String> {
    let name = |it: &Path| it.file_name().map(|it| it.to_string_lossy().into_owned());
    let (Some(own), Some(extension)) = (name(model), model.extension()) else { return Vec::new() };
    if !model.is_file() {
        return Vec::new();
    }
    let extension = extension.to_string_lossy();
    let stem = own.strip_suffix(&*extension).and_then(|it| it.strip_suffix('.')).unwrap_or(&own);
    let is_form = |it: &PathBuf| {
        let Some(name) = name(it) else { return false };
        let middle = name.strip_prefix(stem).and_then(|it| it.strip_suffix(&*extension));
        let middle = middle.and_then(|it| it.strip_suffix('.'));
        middle.is_some_and(|it| {
            let ending = it.trim_start_matches(['.', '-', '_']);
            ending != it && ENDINGS.contains(&ending)
        })
    };
    let folder = model.parent().filter(|it| !it.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let mut forms: Vec<PathBuf> = entries.map(|it| it.path()).filter(is_form).collect();
    forms.sort();
    forms.into_iter().map(|it| it.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_file_are_those_with_its_name_and_a_known_ending() {
        let folder = std::env::temp_dir().join(format!("muster-forms-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in [
            "model.onnx",
            "model.int8.onnx",
            "model_fp16.onnx",
            "model_fp16.onnx.data",
            "model_fp16.pt",
            "modelint8.onnx",
            "model_other.onnx",
            "other_int8.onnx",
        ] {
            fs::write(folder.join(name), "").unwrap();
        }
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let expected = [path("model.int8.onnx"), path("model_fp16.onnx")];
        assert_eq!(beside(&folder.join("model.onnx")), expected);
        assert!(beside(&folder).is_empty() && beside(&folder.join("none.onnx")).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }
}

//! Other forms of a model: files beside its own, such as one in FP16 or int8, and weights without a graph in 8 bits.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::setting::{FORM, PIPELINE_GRAPH, PRECISION, Variables};

/// What the names of such files end in before their extension, as exporters write them.
const ENDINGS: [&str; 8] = ["fp16", "int8", "quantized", "uint8", "q8", "optimized", "opt", "O3"];

/// The graph of a folder of which there may be other forms.
const GRAPH: &str = "model.onnx";
/// Where exporters for ONNX Runtime put it in folders of Hugging Face's libraries.
const OF_HUB: &str = "onnx";
/// The weights of a folder that has no graph.
const WEIGHTS: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];
/// The graphs that a server takes rather than such weights.
const GRAPHS: [&str; 3] = [GRAPH, "onnx/model.onnx", "model.pt"];
/// Files by which a folder is one of theirs: what is around its graph belongs to the model.
const PIPELINE: [&str; 3] = ["config.json", "modules.json", "tokenizer.json"];

/// The forms beside a model's file, or beside the graph of its folder, in the order of their names: each as the
/// variable of a setting that has it served.
pub(crate) fn beside(model: &Path) -> Variables {
    if model.is_file() {
        return beside_file(model).iter().map(|it| (FORM.to_owned(), text(it))).collect();
    }
    let places = [Some(model.to_owned()), newest_version(model), Some(model.join(OF_HUB))];
    let files = places.iter().flatten().flat_map(|it| beside_file(&it.join(GRAPH)));
    let is_pipeline = PIPELINE.iter().any(|it| model.join(it).is_file());
    let variable = |file: PathBuf| match file.strip_prefix(model).ok().filter(|_| is_pipeline) {
        Some(inside) => (PIPELINE_GRAPH.to_owned(), text(inside)),
        None => (FORM.to_owned(), text(&file)),
    };
    let in_8_bits = places.iter().flatten().any(|it| has_weights_alone(it));
    let precision = PRECISION.map(str::to_owned).into();
    files.map(variable).chain(in_8_bits.then_some(precision)).collect()
}

/// Does the server make the graph of that folder?
fn has_weights_alone(folder: &Path) -> bool {
    let has = |names: &[&str]| names.iter().any(|it| folder.join(it).is_file());
    has(&WEIGHTS) && has(&[PIPELINE[0]]) && !has(&GRAPHS)
}

/// The directory of the highest version, where the folder has such.
fn newest_version(folder: &Path) -> Option<PathBuf> {
    let number = |it: &PathBuf| it.file_name()?.to_str()?.parse::<u64>().ok().filter(|it| *it > 0);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path());
    entries.filter_map(|it| Some((number(&it)?, it))).max().map(|it| it.1)
}

/// The files beside one that have its name and a known ending.
fn beside_file(model: &Path) -> Vec<PathBuf> {
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
    forms
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files; each test has one of its own.
    fn folder(name: &str, files: &[&str]) -> PathBuf {
        let own = format!("muster-forms-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(own);
        for file in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        folder
    }

    #[test]
    fn forms_of_a_file_are_those_with_its_name_and_a_known_ending() {
        let folder = folder(
            "file",
            &[
                "model.onnx",
                "model.int8.onnx",
                "model_fp16.onnx",
                "model_fp16.onnx.data",
                "model_fp16.pt",
                "modelint8.onnx",
                "model_other.onnx",
                "other_int8.onnx",
            ],
        );
        let form = |name: &str| (FORM.to_owned(), text(&folder.join(name)));
        let expected = [form("model.int8.onnx"), form("model_fp16.onnx")];
        assert_eq!(beside(&folder.join("model.onnx")), expected);
        assert!(beside(&folder.join("none.onnx")).is_empty());
        // The folder has them, too.
        assert_eq!(beside(&folder), expected);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn weights_without_a_graph_have_a_form_in_8_bits() {
        let folder = folder("weights", &["1/config.json", "1/model.safetensors"]);
        let expected: Variables = vec![PRECISION.map(str::to_owned).into()];
        assert_eq!(beside(&folder.join("1")), expected);
        assert_eq!(beside(&folder), expected);
        fs::write(folder.join("1/model.onnx"), "").unwrap();
        assert!(beside(&folder.join("1")).is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn forms_of_a_folder_lie_beside_its_graph_wherever_that_is() {
        let versions =
            ["1/model.onnx", "1/model_fp16.onnx", "10/model.onnx", "10/model_int8.onnx", "9/x"];
        let versions = folder("versions", &versions);
        let newest = (FORM.to_owned(), text(&versions.join("10/model_int8.onnx")));
        assert_eq!(beside(&versions), [newest]);
        let hub = folder("hub", &["onnx/model.onnx", "onnx/model_quantized.onnx"]);
        let inside = "onnx/model_quantized.onnx";
        assert_eq!(beside(&hub), [(FORM.to_owned(), text(&hub.join(inside)))]);
        // What is around the graph belongs to the model: only the graph is another one.
        fs::write(hub.join("tokenizer.json"), "").unwrap();
        assert_eq!(beside(&hub), [(PIPELINE_GRAPH.to_owned(), inside.to_owned())]);
        assert!(beside(Path::new("s3://bucket/model")).is_empty());
        [versions, hub].iter().for_each(|it| fs::remove_dir_all(it).unwrap());
    }
}

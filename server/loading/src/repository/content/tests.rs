//! Facts about files that lie in the place of a model.

use std::{fs, path::Path};

use super::*;

/// What the whole file of those bytes is.
fn whole(bytes: &[u8]) -> Option<Content> {
    recognise(Sample { begin: bytes, end: bytes, length: bytes.len() as u64 })
}

fn zip(names: &[&str]) -> Vec<u8> {
    let names: Vec<u8> =
        names.iter().flat_map(|it| [b"PK\x01\x02", it.as_bytes()].concat()).collect();
    [b"PK\x03\x04", names.as_slice(), b"PK\x05\x06"].concat()
}

fn pickled(class: &str) -> Vec<u8> {
    [b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x10", class.as_bytes(), b"\x94."].concat()
}

fn safetensors() -> Vec<u8> {
    [&12u64.to_le_bytes()[..], b"{\"a\":[1,2]} "].concat()
}

#[test]
fn each_kind_of_file_is_known_by_its_bytes_and_named_with_the_line_that_helps() {
    let legacy = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec();
    let table: Vec<(Vec<u8>, Content, &str, &str)> = vec![
        (b"".to_vec(), Content::Empty, "empty file", "again"),
        (vec![0; 64], Content::Zeros, "zeros", "again"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\n".to_vec(),
            Content::LfsPointer,
            "Git LFS pointer",
            "git lfs pull",
        ),
        (b"\n <!DOCTYPE html><html>".to_vec(), Content::Page, "HTML page", "download the file"),
        (b"<?xml version='1.0'?><Error>".to_vec(), Content::XmlError, "XML", "download the file"),
        (
            b"<?xml version=\"1.0\"?>\n<!-- a model -->\n<PMML version=\"4.4\">".to_vec(),
            Content::Pmml,
            "a PMML document",
            "as ONNX",
        ),
        (
            b"<?xml version=\"1.0\"?>\n<net name=\"m\" version=\"11\">".to_vec(),
            Content::OpenVino,
            "an OpenVINO model",
            "the ONNX file or the SavedModel",
        ),
        (b"<?xml version='1.0'?><svg>".to_vec(), Content::Xml, "XML text", "look into it"),
        (
            b"{\"name\": \"tree\", \"version\": \"v4\", \"num_class\": 1".to_vec(),
            Content::LightgbmDump,
            "LightGBM's dump_model",
            "save_model('model.txt')",
        ),
        (
            zip(&["m/code/__torch__.py", "m/constants.pkl"]),
            Content::TorchScript,
            "TorchScript",
            ".pt",
        ),
        (
            zip(&["archive/data.pkl", "archive/data/0"]),
            Content::StateDict,
            "state dict",
            "torch.jit.trace",
        ),
        (
            zip(&["m/archive_format", "m/models/model.json"]),
            Content::TorchExport,
            "torch.export",
            "torch.jit.trace",
        ),
        (zip(&["MAR-INF/MANIFEST.json", "m.pt"]), Content::TorchServe, "TorchServe", ".mar"),
        (zip(&["config.json", "model.weights.h5"]), Content::Keras, "Keras", "load_model('/m/x')"),
        (zip(&["schema.json", "0.npy"]), Content::Skops, "skops", "model.skops"),
        (zip(&["word/document.xml"]), Content::Zip, "zip archive", "unzip /m/x"),
        (safetensors(), Content::Safetensors, "safetensors", "optimum-cli export onnx"),
        (b"\x89HDF\r\n\x1a\n\0\0".to_vec(), Content::Hdf5, "HDF5", "export('<model>/1')"),
        (b"\x1c\0\0\0TFL3\x14\0".to_vec(), Content::Tflite, ".tflite", "--tflite /m/x"),
        (b"GGUF\x03\0\0\0".to_vec(), Content::Gguf, "GGUF", "llama.cpp"),
        (b"\x08\x01\x12\x20\x0a".to_vec(), Content::SavedModel, "SavedModel", "saved_model.pb"),
        (
            b"saved_model_schema_version: 1\nmeta_graphs {".to_vec(),
            Content::SavedModelText,
            "as text",
            "text_format.Parse(open('/m/x')",
        ),
        (
            b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder".to_vec(),
            Content::FrozenGraph,
            "frozen graph",
            "--graphdef",
        ),
        (legacy, Content::TorchPickle, "PyTorch", "torch.jit.trace"),
        (pickled("sklearn.pipeline"), Content::SklearnPickle, "scikit-learn", "model.joblib"),
        (pickled("xgboost.core"), Content::XgboostPickle, "XGBoost", "name xgboost-model"),
        (pickled("lightgbm.basic"), Content::LightgbmPickle, "LightGBM", "save_model"),
        (pickled("somebody.models"), Content::Pickle, "pickle", "export"),
        (b"\x78\x9c\x01\x02".to_vec(), Content::CompressedPickle, "joblib", "skl2onnx"),
        (b"{\"learner\":{".to_vec(), Content::Xgboost, "XGBoost", "name xgboost-model"),
        (b"tree\nversion=v4\n".to_vec(), Content::Lightgbm, "LightGBM", "name model.txt"),
        (b"CBM1\x01".to_vec(), Content::Catboost, "CatBoost", "format=\"onnx\""),
        (b"ftrt\x01".to_vec(), Content::TensorRt, "TensorRT", "ONNX"),
        (b"\x93NUMPY\x01".to_vec(), Content::Numpy, "NumPy", "the model itself"),
        (b"\x1f\x8b\x08".to_vec(), Content::Gzip, "gzip", "tar xzf /m/x"),
        (b"\x08\x08\x12\x04test\x3a\x02\x0a\0".to_vec(), Content::Onnx, "ONNX", ".onnx"),
    ];
    for (bytes, content, what, help) in table {
        assert_eq!(whole(&bytes), Some(content), "{content:?}");
        let sentence = content.sentence(Path::new("/m/x"));
        let (said, advice) = sentence.split_once("; ").unwrap();
        assert!(said.starts_with("this is ") && said.contains(what), "{content:?}: {sentence}");
        assert!(advice.contains(help), "{content:?}: {sentence}");
    }
    for unknown in ["hello", "PK", "\u{8}", "{\"message\": \"Not Found\"}"] {
        assert_eq!(whole(unknown.as_bytes()), None, "{unknown}");
    }
}

#[test]
fn a_file_that_ends_too_early_says_how_many_bytes_it_lacks() {
    let onnx = b"\x08\x08\x12\x04test\x3a\x90\x4e\x0a\0";
    let found = whole(onnx).unwrap();
    assert!(
        matches!(found, Content::Truncated { length: 13, needs: Some(10_011), .. }),
        "{found:?}"
    );
    let sentence = found.sentence(Path::new("m.onnx"));
    let said = "this is an ONNX model that is cut short: it has 13 bytes of at least 10011; copy";
    assert!(sentence.starts_with(said), "{sentence}");
    let cut = &safetensors()[..12];
    assert!(matches!(whole(cut), Some(Content::Truncated { needs: Some(20), .. })));
    let cut = whole(b"PK\x03\x04m/data.pkl").unwrap().sentence(Path::new("m.pt"));
    assert!(cut.contains("zip archive") && cut.contains("cut short"), "{cut}");
}

#[test]
fn weights_of_a_language_model_are_called_so() {
    let folder = std::env::temp_dir().join(format!("muster-writer-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let weights = folder.join("model.safetensors");
    let said = |classes: &str| {
        fs::write(folder.join("config.json"), format!(r#"{{"architectures": {classes}}}"#))
            .unwrap();
        Content::Safetensors.sentence(&weights)
    };
    assert!(said(r#"["LlamaForCausalLM"]"#).contains("no models that write a text"));
    for other in [r#"["BertForSequenceClassification"]"#, "[]", "3"] {
        assert!(said(other).contains("optimum-cli export onnx"), "{other}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

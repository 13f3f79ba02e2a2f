//! What stands in for an engine that was left out of this build: it knows its models, so that each of them is refused
//! by the name of the feature that it needs.

use std::sync::Arc;

use backend::{Backend, BackendError, EngineDescription, Format, Model, ModelSource, PortNames};

use crate::features::{self, Feature};

/// An engine that was left out.
#[derive(Debug, Clone, Copy)]
pub struct LeftOut {
    name: &'static str,
    feature: Feature,
    description: &'static EngineDescription,
}

/// A format without further names.
const FORMAT: Format = Format {
    platform: "",
    aliases: &[],
    file: "",
    other_extensions: &[],
    other_files: &[],
    folds: "",
    is_by_whole_name: false,
    content: None,
    rank: 0,
    is_served: true,
};

/// An engine of which there is nothing that could crash.
const DESCRIPTION: EngineDescription =
    EngineDescription { runs_native_code: false, ..EngineDescription::PLAIN };

/// In the place of `backend-python`.
pub const PYTHON: LeftOut = LeftOut {
    name: "python",
    feature: features::PYTHON,
    description: &EngineDescription {
        formats: &[
            Format { file: "model.py", is_by_whole_name: true, rank: 5, ..FORMAT },
            Format { file: "model.mar", rank: 5, ..FORMAT },
        ],
        runs_unread: true,
        ..DESCRIPTION
    },
};

/// In the place of `backend-pytorch`.
pub const PYTORCH: LeftOut = LeftOut {
    name: "pytorch",
    feature: features::PYTORCH,
    description: &EngineDescription {
        formats: &[
            Format {
                platform: "pytorch_libtorch",
                aliases: &["libtorch"],
                file: "model.pt",
                other_extensions: &["pth", "jit", "torchscript"],
                rank: 3,
                ..FORMAT
            },
            Format {
                platform: "torch_aoti",
                file: "model.pt2",
                rank: 4,
                is_served: false,
                ..FORMAT
            },
        ],
        ..DESCRIPTION
    },
};

const FOLDER: Format = Format {
    platform: "tensorflow_savedmodel",
    aliases: &["tensorflow"],
    file: "model.savedmodel",
    rank: 2,
    ..FORMAT
};

/// In the place of `backend-tensorflow`.
pub const TENSORFLOW: LeftOut = LeftOut {
    name: "tensorflow",
    feature: features::TENSORFLOW,
    description: &EngineDescription {
        formats: &[FOLDER, Format { file: "saved_model.pb", ..FOLDER }],
        has_op_libraries: true,
        ..DESCRIPTION
    },
};

/// In the place of `backend-trees`.
pub const TREES: LeftOut = LeftOut {
    name: "fil",
    feature: features::TREES,
    description: &EngineDescription {
        formats: &[Format {
            file: "model.ubj",
            other_extensions: &[
                "json", "model", "bst", "xgb", "lgb", "txt", "tl", "skops", "joblib", "pkl",
            ],
            other_files: &[
                "xgboost.ubj",
                "xgboost.json",
                "xgboost.model",
                "checkpoint.tl",
                "xgboost-model",
                "model.json",
                "model.txt",
                "model.skops",
                "model.joblib",
                "model.pkl",
            ],
            folds: "xgboost-model-",
            is_by_whole_name: false,
            content: Some(is_of_trees),
            rank: 4,
            ..FORMAT
        }],
        other_names: &["xgboost", "lightgbm", "sklearn", "trees"],
        ..DESCRIPTION
    },
};

/// Is a file that begins so one for the engine? As the engine tells it, but for files of XGBoost without a head, which
/// their names alone tell.
fn is_of_trees(begin: &[u8]) -> bool {
    /// Of pickles, of what packs them, of LightGBM's text, and of XGBoost's own forms.
    const HEADS: [&[u8]; 15] = [
        b"\x80",
        b"ccopy_reg\n",
        b"\x1f\x8b\x08",
        b"\x78\x01",
        b"\x78\x5e",
        b"\x78\x9c",
        b"\x78\xda",
        b"BZh",
        b"\x5d\0\0",
        b"\x04\x22\x4d\x18",
        b"\xfd7zXZ\0",
        b"tree\n",
        b"tree\r\n",
        b"binf",
        b"CONFIG-offset:",
    ];
    let holds = |text: &[u8]| begin.windows(text.len()).any(|it| it == text);
    match begin {
        [3 | 4, 0, 0, 0, _, 0, 0, 0, _, 0, 0, 0, 2 | 3, 2 | 3, ..] => true,
        [b'{', ..] => {
            let keys: [&[u8]; 4] = [b"\"learner\"", b"learner{", b"learnerL", b"Model"];
            keys.into_iter().any(holds)
        }
        [b'P', b'K', 3, 4, ..] => holds(b".npy") || holds(b"schema.json"),
        _ => HEADS.iter().any(|it| begin.starts_with(it)),
    }
}

impl LeftOut {
    /// As an engine of the server.
    pub fn engine(self) -> Arc<dyn Backend> {
        Arc::new(self)
    }
}

impl Backend for LeftOut {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static EngineDescription {
        self.description
    }

    fn load(&self, _: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        Err(BackendError::Load(self.feature.missing()))
    }

    fn check(&self, _: &ModelSource) -> Result<PortNames, BackendError> {
        Err(BackendError::Load(self.feature.missing()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_one_is_refused_by_the_name_of_the_feature() {
        let error = TREES.load(&ModelSource::new("m", "/m")).err().unwrap();
        let expected =
            "this build has no engine for tree models; build muster with --features trees";
        assert_eq!(error, BackendError::Load(expected.to_owned()));
    }

    /// What of a description decides which engine a model is for.
    fn known(it: &dyn Backend) -> impl PartialEq + std::fmt::Debug + use<> {
        let formats = it.description().formats.iter().map(|it| {
            let names = (it.platform, it.aliases, it.file, it.other_extensions, it.other_files);
            (names, it.folds, it.rank, it.is_served, it.content.is_some())
        });
        let other_names = it.description().other_names;
        (it.name(), other_names, it.description().has_op_libraries, formats.collect::<Vec<_>>())
    }

    #[test]
    fn files_of_tree_models_are_told_by_their_first_bytes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/forests");
        let is_of_trees =
            |file: &str| is_of_trees(&std::fs::read(format!("{folder}/{file}")).unwrap()[..]);
        for file in [
            "estimators/early-3.2.0.ubj",
            "estimators/early-3.2.0.joblib",
            "lightgbm-4.7.0/binary.txt",
            "sklearn-1.9.1/tree.skops",
            "treelite-4.8.1/greater.tl",
            "xgboost-3.4.1/hinge.json",
        ] {
            assert!(is_of_trees(file), "{file}");
        }
        assert!(!is_of_trees("xgboost-3.4.1/expected.json"));
    }

    #[cfg(all(feature = "python", feature = "pytorch", feature = "tensorflow", feature = "trees"))]
    #[test]
    fn they_know_the_models_of_the_engines_in_whose_place_they_stand() {
        assert_eq!(known(&PYTHON), known(&python::Python::default()));
        assert_eq!(known(&PYTORCH), known(&pytorch::PyTorch::default()));
        assert_eq!(known(&TENSORFLOW), known(&libtensorflow::TensorFlow::default()));
        assert_eq!(known(&TREES), known(&trees::Trees));
    }
}

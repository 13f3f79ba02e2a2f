//! What can be left out of a build, and what this one has of it. Each is a feature of Cargo's and a crate, and here one
//! line in a list; `default` of the manifest has all.

use configuration::{Given, Sources};

/// Something that can be left out of a build.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    /// As Cargo calls it.
    pub name: &'static str,
    /// What is missing without it, as it follows "this build has no".
    pub what: &'static str,
    /// Does this build have it?
    pub is_in: bool,
    /// The flags that mean nothing without it.
    pub flags: &'static [&'static str],
}

/// What a person's browser asks.
pub const BROWSER: Feature = Feature {
    name: "browser",
    what: "page for a browser and document of its addresses",
    is_in: cfg!(feature = "browser"),
    flags: &[],
};

/// What clients of servers of texts ask.
pub const EMBEDDINGS: Feature = Feature {
    name: "embeddings",
    what: "protocols of servers of texts",
    is_in: cfg!(feature = "embeddings"),
    flags: &["served-model-name", "auto-truncate", "tei-root", "tei-batch-status"],
};

/// Models in processes of their own.
pub const ISOLATION: Feature = Feature {
    name: "isolation",
    what: "processes of models' own",
    is_in: cfg!(feature = "isolation"),
    flags: &["isolation", "worker-sandbox", "worker-arena-bytes"],
};

/// Folders of Hugging Face's libraries, and the steps that ensembles are made of.
pub const PIPELINES: Feature = Feature {
    name: "pipelines",
    what: "pipelines of texts, images and sounds",
    is_in: cfg!(feature = "pipelines"),
    flags: &[
        "pipelines",
        "task",
        "pipeline-graph",
        "pipeline-precision",
        "pooling",
        "max-client-batch-size",
        "max-batch-tokens",
        "max-batch-requests",
        "max-text-bytes",
        "tokenization-workers",
        "max-image-pixels",
        "max-audio-seconds",
        "jpeg-library",
        "default-prompt",
        "default-prompt-name",
    ],
};

/// Models that are Python code.
pub const PYTHON: Feature = Feature {
    name: "python",
    what: "engine for models in Python",
    is_in: cfg!(feature = "python"),
    flags: &["python", "python-env-dir", "install-requirements", "script-flavor"],
};

/// TorchScript.
pub const PYTORCH: Feature = Feature {
    name: "pytorch",
    what: "engine for TorchScript",
    is_in: cfg!(feature = "pytorch"),
    flags: &["pytorch-plugin"],
};

/// Models by name: of a hub, a registry or an address.
pub const SOURCES: Feature = Feature {
    name: "sources",
    what: "models by name",
    is_in: cfg!(feature = "sources"),
    flags: &["lock-file", "hub-token", "hub-cache-dir", "hub-offline"],
};

/// Repositories in object stores.
pub const STORES: Feature = Feature {
    name: "stores",
    what: "object stores",
    is_in: cfg!(feature = "stores"),
    flags: &["model-repository-cache-dir", "store-anonymous"],
};

/// SavedModels.
pub const TENSORFLOW: Feature = Feature {
    name: "tensorflow",
    what: "engine for SavedModels",
    is_in: cfg!(feature = "tensorflow"),
    flags: &[
        "tensorflow-library",
        "tensorflow-onednn",
        "tensorflow-session-count",
        "tensorflow-warmup",
        "tensorflow-warmup-iterations",
        "tensorflow-method-name-check",
        "tensorflow-tags",
        "tensorflow-mixed-precision",
    ],
};

/// TensorFlow Serving's REST and gRPC.
pub const TENSORFLOW_SERVING: Feature = Feature {
    name: "tensorflow_serving",
    what: "protocol of TensorFlow Serving",
    is_in: cfg!(feature = "tensorflow_serving"),
    flags: &["tfs-metrics", "allow-tfs-grpc", "tfs-grpc-port"],
};

/// Models of XGBoost, LightGBM, scikit-learn and treelite.
pub const TREES: Feature = Feature {
    name: "trees",
    what: "engine for tree models",
    is_in: cfg!(feature = "trees"),
    flags: &[],
};

/// All that can be left out.
pub const FEATURES: [Feature; 11] = [
    BROWSER,
    EMBEDDINGS,
    ISOLATION,
    PIPELINES,
    PYTHON,
    PYTORCH,
    SOURCES,
    STORES,
    TENSORFLOW,
    TENSORFLOW_SERVING,
    TREES,
];

impl Feature {
    /// Why something does not work where this was left out, and what to do.
    pub fn missing(&self) -> String {
        format!("this build has no {}; build muster with --features {}", self.what, self.name)
    }
}

/// What follows the version: which features were left out; nothing where all are in.
pub fn beside_version(features: &[Feature]) -> String {
    match names(features, false) {
        it if it.is_empty() => String::new(),
        it => format!(", built without {}", it.join(", ")),
    }
}

/// Names of the features that this build has, or of those that were left out.
pub fn names(features: &[Feature], are_in: bool) -> Vec<&'static str> {
    features.iter().filter(|it| it.is_in == are_in).map(|it| it.name).collect()
}

/// Refuses the settings that ask for what was left out.
pub fn refuse(features: &[Feature], sources: &Sources, problems: &mut Vec<String>) {
    for feature in features.iter().filter(|it| !it.is_in) {
        let given = feature.flags.iter().filter_map(|it| sources.last(it)).filter(|it| asks(it));
        problems.extend(given.map(|it| format!("{it}: {}", feature.missing())));
    }
}

/// Does it ask for anything? What is not there may be switched off.
fn asks(given: &Given) -> bool {
    !["", "off", "false", "none"].contains(&given.text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::Origin;

    #[track_caller]
    fn check(flags: &[(&'static str, &str)], expect: &[&str]) {
        let table = crate::config::flags();
        let mut sources = Sources::new(&table);
        let given =
            |&(name, text): &(_, &str)| Given::new(name, text.to_owned(), Origin::CommandLine);
        sources.offer(flags.iter().map(given).collect());
        let without = FEATURES.map(|it| Feature { is_in: it.name == "pytorch", ..it });
        let mut problems = Vec::new();
        refuse(&without, &sources, &mut problems);
        assert_eq!(problems, expect);
    }

    #[test]
    fn a_setting_of_what_was_left_out_is_refused_by_the_name_of_the_feature() {
        let missing = "this build has no object stores; build muster with --features stores";
        let given = "--store-anonymous 'true' (command line)";
        check(&[("store-anonymous", "true")], &[&format!("{given}: {missing}")]);
        check(&[("store-anonymous", "false"), ("isolation", "off")], &[]);
        check(&[("pytorch-plugin", "x.so"), ("http-port", "1")], &[]);
    }

    #[test]
    fn every_flag_of_a_feature_exists() {
        let table = crate::config::flags();
        for it in FEATURES.iter().flat_map(|it| it.flags) {
            assert!(table.flag(it).is_some(), "--{it}");
        }
    }

    #[test]
    fn the_version_says_what_was_left_out() {
        let all = FEATURES.map(|it| Feature { is_in: true, ..it });
        assert_eq!(beside_version(&all), "");
        let without = all.map(|it| Feature { is_in: it.name != "trees", ..it });
        assert_eq!(beside_version(&without), ", built without trees");
    }
}

//! Makes Rust types, and descriptors for text, JSON and reflection, of the definitions in this folder. They are kept in
//! `generated`, so that no build of the server compiles a compiler of protobuf first: `cargo run -p muster-proto`
//! writes them, and a test compares.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
};

use prost::Message;
use prost_build::{Config, Module};

/// Contents by their paths below `generated`.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Definitions that one crate uses.
struct Part {
    /// Their folder below `generated`.
    folder: &'static str,
    /// Their imports follow.
    definitions: &'static [&'static str],
    /// The file of descriptors, where there are any.
    descriptors: Option<&'static str>,
    configure: fn(&mut Config),
}

const ANY: (&str, &str) = (".google.protobuf.Any", "::prost_reflect::prost_types::Any");

const PARTS: [Part; 4] = [
    // The services of gRPC, which clients can ask for.
    Part {
        folder: "services",
        definitions: &[
            "grpc_service.proto",
            "health.proto",
            "reflection.proto",
            "tensorflow_serving/apis/model_service.proto",
            "tensorflow_serving/apis/prediction_service.proto",
        ],
        descriptors: Some("services.bin"),
        configure: |config| {
            // Tensors are slices of the received message.
            config.bytes(["."]).extern_path(ANY.0, ANY.1);
            // These messages have Rust types already.
            config.extern_path(
                ".tensorflow.serving.ModelServerConfig",
                "crate::grpc::proto::ModelServerConfig",
            );
        },
    },
    // A model's configuration.
    Part {
        folder: "model_config",
        definitions: &["model_config.proto"],
        descriptors: Some("model_config.bin"),
        configure: |_| {},
    },
    // What operators of TensorFlow Serving write down.
    Part {
        folder: "tensorflow_serving",
        definitions: &[
            "tensorflow_serving/config/model_server_config.proto",
            "tensorflow_serving/config/monitoring_config.proto",
            "tensorflow_serving/servables/tensorflow/session_bundle_config.proto",
        ],
        descriptors: Some("tensorflow_serving.bin"),
        configure: |config| {
            config.extern_path(ANY.0, ANY.1);
        },
    },
    // The records in RecordIO files.
    Part {
        folder: "recordio",
        definitions: &["aialgs_record.proto"],
        descriptors: None,
        configure: |_| {},
    },
];

/// The folder of this crate, with the definitions in it.
pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All that is generated.
///
/// # Errors
/// Where a definition cannot be compiled.
pub fn files() -> Result<Files, Box<dyn Error>> {
    let mut files = Files::new();
    for part in PARTS {
        part.make(&mut files)?;
    }
    Ok(files)
}

impl Part {
    fn make(&self, files: &mut Files) -> Result<(), Box<dyn Error>> {
        let mut compiled = protox::compile(self.definitions, [folder()])?;
        let mut config = Config::new();
        // Maps are sorted, so that printing and comparing do not depend on chance.
        config.btree_map(["."]);
        (self.configure)(&mut config);
        if self.folder == "services" {
            for file in compiled.file.iter().filter(|it| it.name() == "model_config.proto") {
                let messages = file.message_type.iter().map(|it| it.name());
                for name in messages.chain(file.enum_type.iter().map(|it| it.name())) {
                    config.extern_path(
                        format!(".inference.{name}"),
                        format!("::serving::raw::{name}"),
                    );
                }
            }
        }
        let folder = Path::new(self.folder);
        let requests = compiled
            .file
            .iter()
            .map(|it| (Module::from_protobuf_package_name(it.package()), it.clone()));
        for (module, text) in config.generate(requests.collect())? {
            // Of a definition that is only imported.
            if !text.trim().is_empty() {
                files.insert(folder.join(module.to_file_name_or("_")), text.into_bytes());
            }
        }
        if let Some(name) = self.descriptors {
            // Comments and positions are for the generated code only.
            compiled.file.iter_mut().for_each(|file| file.source_code_info = None);
            files.insert(folder.join(name), compiled.encode_to_vec());
        }
        Ok(())
    }
}

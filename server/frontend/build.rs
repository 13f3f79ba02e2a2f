//! Compiles the definitions of the gRPC services into Rust types and into descriptors, which clients can ask for.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

/// The definitions of the services. Their imports follow.
const SERVICES: [&str; 5] = [
    "grpc_service.proto",
    "health.proto",
    "reflection.proto",
    "tensorflow_serving/apis/model_service.proto",
    "tensorflow_serving/apis/prediction_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile(SERVICES, ["../proto"])?;
    let mut config = prost_build::Config::new();
    // Tensors are slices of the received message.
    config.btree_map(["."]).bytes(["."]);
    config.extern_path(".google.protobuf.Any", "::prost_reflect::prost_types::Any");
    // These messages have Rust types already, generated elsewhere.
    config.extern_path(
        ".tensorflow.serving.ModelServerConfig",
        "::textproto::tensorflow::raw::ModelServerConfig",
    );
    for file in files.file.iter().filter(|it| it.name() == "model_config.proto") {
        let messages = file.message_type.iter().map(|it| it.name());
        for name in messages.chain(file.enum_type.iter().map(|it| it.name())) {
            config.extern_path(format!(".inference.{name}"), format!("::models::raw::{name}"));
        }
    }
    config.compile_fds(files.clone())?;
    // Comments and positions serve only the generated code.
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(out.join("services.bin"), files.encode_to_vec())?;
    Ok(())
}

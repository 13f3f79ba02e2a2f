//! Compiles the protocol definitions: Rust types, and descriptors with which text and JSON are read, and which
//! clients ask for.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;
use protox::prost_reflect::prost_types::FileDescriptorSet;

/// The services, and what they import.
const SERVICES: [&str; 5] = [
    "grpc_service.proto",
    "health.proto",
    "reflection.proto",
    "tensorflow_serving/apis/model_service.proto",
    "tensorflow_serving/apis/prediction_service.proto",
];

/// What operators of TensorFlow Serving write down.
const TENSORFLOW_SERVING: [&str; 3] = [
    "tensorflow_serving/config/model_server_config.proto",
    "tensorflow_serving/config/monitoring_config.proto",
    "tensorflow_serving/servables/tensorflow/session_bundle_config.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let files = protox::compile(["model_config.proto"], ["proto"])?;
    // Maps are sorted, so that printing and comparing a configuration does not depend on chance.
    prost_build::Config::new().btree_map(["."]).compile_fds(files.clone())?;
    fs::write(out.join("model_config.bin"), descriptor(files))?;

    let files = protox::compile(TENSORFLOW_SERVING, ["proto"])?;
    let mut config = prost_build::Config::new();
    config
        .btree_map(["."])
        .extern_path(".google.protobuf.Any", "::prost_reflect::prost_types::Any");
    config.compile_fds(files.clone())?;
    fs::write(out.join("tensorflow_serving.bin"), descriptor(files))?;

    let files = protox::compile(SERVICES, ["proto"])?;
    let messages_out = out.join("grpc");
    fs::create_dir_all(&messages_out)?;
    let mut config = prost_build::Config::new();
    // Tensors are slices of the message that they came in.
    config.btree_map(["."]).bytes(["."]).out_dir(messages_out);
    config.extern_path(".google.protobuf.Any", "::prost_reflect::prost_types::Any");
    // Which models there are, and a model's configuration, have their types already.
    config.extern_path(
        ".tensorflow.serving.ModelServerConfig",
        "crate::textproto::tensorflow::raw::ModelServerConfig",
    );
    for file in files.file.iter().filter(|it| it.name() == "model_config.proto") {
        let messages = file.message_type.iter().map(|it| it.name());
        for name in messages.chain(file.enum_type.iter().map(|it| it.name())) {
            config.extern_path(format!(".inference.{name}"), format!("crate::models::raw::{name}"));
        }
    }
    config.compile_fds(files.clone())?;
    fs::write(out.join("services.bin"), descriptor(files))?;

    let records_out = out.join("records");
    fs::create_dir_all(&records_out)?;
    let files = protox::compile(["aialgs_record.proto"], ["proto"])?;
    prost_build::Config::new().btree_map(["."]).out_dir(records_out).compile_fds(files)?;
    Ok(())
}

/// The definitions without comments and positions, which are for the generated code only.
fn descriptor(mut files: FileDescriptorSet) -> Vec<u8> {
    for file in &mut files.file {
        file.source_code_info = None;
    }
    files.encode_to_vec()
}

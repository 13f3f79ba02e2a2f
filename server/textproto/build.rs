//! Compiles what operators of TensorFlow Serving write down: Rust types, and descriptors with which text is read.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const DEFINITIONS: [&str; 3] = [
    "tensorflow_serving/config/model_server_config.proto",
    "tensorflow_serving/config/monitoring_config.proto",
    "tensorflow_serving/servables/tensorflow/session_bundle_config.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile(DEFINITIONS, ["../proto"])?;
    // Maps are sorted, so that printing and comparing a configuration does not depend on chance.
    let mut config = prost_build::Config::new();
    config
        .btree_map(["."])
        .extern_path(".google.protobuf.Any", "::prost_reflect::prost_types::Any");
    config.compile_fds(files.clone())?;
    // Comments and positions are for the generated code only.
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(out.join("tensorflow_serving.bin"), files.encode_to_vec())?;
    Ok(())
}

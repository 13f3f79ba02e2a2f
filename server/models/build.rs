//! Compiles the definition of a model's configuration: Rust types, and a descriptor with which text and JSON are read.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = protox::compile(["model_config.proto"], ["../proto"])?;
    // Maps are sorted, so that printing and comparing a configuration does not depend on chance.
    prost_build::Config::new().btree_map(["."]).compile_fds(files.clone())?;
    // Comments and positions are for the generated code only.
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    fs::write(out.join("model_config.bin"), files.encode_to_vec())?;
    Ok(())
}

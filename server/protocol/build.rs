//! Compiles the definition of the records in RecordIO files.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../proto");
    let files = protox::compile(["aialgs_record.proto"], ["../proto"])?;
    prost_build::Config::new().btree_map(["."]).compile_fds(files)?;
    Ok(())
}

//! Writes what is generated of the definitions.
#![forbid(unsafe_code)]

use std::{error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let generated = muster_proto::folder().join("generated");
    let files = muster_proto::files()?;
    if generated.exists() {
        fs::remove_dir_all(&generated)?;
    }
    for (path, content) in files {
        let path = generated.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&generated))?;
        fs::write(path, content)?;
    }
    Ok(())
}

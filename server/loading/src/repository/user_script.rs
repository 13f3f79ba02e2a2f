//! Scripts that come with a model for another container, which would run them around it. This server does not.

use std::{fs, path::Path};

/// The default name of such a script.
pub const NAME: &str = "inference.py";

/// Where it lies in the directory of a model.
pub const FOLDER: &str = "code";

/// Has the script any code? One that is empty or only comments has none; one that cannot be read counts as one with
/// code, one that is not there as one without.
pub fn has_code(script: &Path) -> bool {
    if !script.is_file() {
        return false;
    }
    let Ok(text) = fs::read(script) else { return true };
    let mut lines = text.split(|it| *it == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|it| !it.is_empty() && !it.starts_with(b"#"))
}

/// What becomes of it, for a line of the log.
pub fn explanation(script: &Path) -> String {
    format!(
        "the script {} came with the model and is not run: what it does before and after the model is for an ensemble, \
         or for the client",
        script.display()
    )
}

/// What becomes of one that lies in an object store, for a line of the log. Whether it has code is not looked at:
/// training jobs leave the address of theirs, and the model may need nothing of it.
pub fn elsewhere(program: &str, archive: &str) -> String {
    format!(
        "the script {program} in {archive} is not fetched and not run: if it has functions such as input_fn or \
         predict_fn, what they do is for an ensemble, or for the client"
    )
}

/// Why a model with that script is not served.
pub fn refusal(script: &Path) -> String {
    format!("{}; MUSTER_IGNORE_SCRIPTS=true serves the model without it", explanation(script))
}

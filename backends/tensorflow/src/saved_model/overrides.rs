//! What a SavedModel says of its own session: `saved_model_config.pb` in `assets.extra`, as TensorFlow Serving has it.

use std::{fmt, fs, io, path::Path};

use prost::Message;

use super::error::{Defect, SavedModelError};

/// The file, in the folder of the SavedModel.
const FILE: &str = "assets.extra/saved_model_config.pb";

/// Largest file: what is larger is no such message.
const LARGEST: u64 = 16 << 20;

/// `SavedModelConfig` of `saved_model_config.proto`. Messages that have no effect stay encoded.
#[derive(Clone, PartialEq, prost::Message)]
struct SavedModelConfig {
    #[prost(message, optional, tag = "1")]
    session: Option<SessionOverrides>,
    #[prost(bytes = "vec", optional, tag = "2")]
    runtime: Option<Vec<u8>>,
    #[prost(bool, tag = "3")]
    critical: bool,
}

/// `SessionOverrides` of the same file.
#[derive(Clone, PartialEq, prost::Message)]
struct SessionOverrides {
    #[prost(bytes = "vec", optional, tag = "1")]
    remote_operators: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    batch_operators: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3")]
    disables_meta_optimizer: Option<bool>,
}

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Overrides {
    /// Is the graph run as it is, without the passes that rewrite it?
    pub(crate) disables_meta_optimizer: bool,
    /// Names of the fields that are set and have no effect here.
    pub(crate) ignored: Vec<&'static str>,
}

/// What the SavedModel in that folder says; `None` where it has no such file.
///
/// # Errors
/// A file that cannot be read, or is no such message; the text has the file.
pub(crate) fn overrides_of(folder: &Path) -> Result<Option<Overrides>, SavedModelError> {
    let path = folder.join(FILE);
    let refused = |problem: &dyn fmt::Display| SavedModelError::file(FILE, problem);
    let length = match fs::metadata(&path) {
        Ok(it) => it.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(&error)),
    };
    if LARGEST < length {
        return Err(refused(&format_args!("has {length} bytes; at most {LARGEST} are read")));
    }
    let file = backend::read_file(&path).map_err(|it| refused(&it))?;
    overrides(&file).map(Some).map_err(|it| refused(&it))
}

fn overrides(file: &[u8]) -> Result<Overrides, Defect> {
    let config = SavedModelConfig::decode(file)
        .map_err(|it| Defect::new(format_args!("is no SavedModelConfig, or is cut off: {it}")))?;
    let SavedModelConfig { session, runtime, critical } = config;
    let session = session.unwrap_or_default();
    let fields = [
        ("session_overrides.remote_op_remap_config", session.remote_operators.is_some()),
        ("session_overrides.batch_op_rewriter_config", session.batch_operators.is_some()),
        ("tfrt_runtime_config", runtime.is_some()),
        ("critical", critical),
    ];
    Ok(Overrides {
        disables_meta_optimizer: session.disables_meta_optimizer.unwrap_or(false),
        ignored: fields.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_is_read_and_the_rest_is_named() {
        let disabled = |ignored| Overrides { disables_meta_optimizer: true, ignored };
        // As protobuf writes it: { session_overrides { disable_meta_optimizer: true } }.
        assert_eq!(overrides(&[0x0a, 2, 0x18, 1]).unwrap(), disabled(vec![]));
        let all = [0x0a, 6, 0x0a, 0, 0x12, 0, 0x18, 1, 0x12, 0, 0x18, 1];
        let names = [
            "session_overrides.remote_op_remap_config",
            "session_overrides.batch_op_rewriter_config",
            "tfrt_runtime_config",
            "critical",
        ];
        assert_eq!(overrides(&all).unwrap(), disabled(names.to_vec()));
        assert_eq!(overrides(&[]).unwrap(), Overrides::default());
        assert!(overrides(&[0x0a, 9]).unwrap_err().to_string().contains("cut off"));
    }
}

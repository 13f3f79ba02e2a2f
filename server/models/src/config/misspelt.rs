//! Parameters of a configuration that look like one of the engine's and are none. Pure.

use crate::config::{engines::Engines, model::MERGING, raw::ModelConfig as RawConfig};
use inference::signature::nearest;

/// A warning for each; a name that is like no other is somebody's own, and is left alone.
pub(crate) fn misspelt_parameters(
    raw: Option<&RawConfig>,
    backend: &str,
    engines: &Engines,
) -> Vec<String> {
    let known = engines.description(backend).parameters;
    let is_known = |key: &str| known.contains(&key) || key == MERGING;
    let mut keys: Vec<&String> = raw.into_iter().flat_map(|it| it.parameters.keys()).collect();
    keys.sort();
    let unknown = keys.into_iter().filter(|it| !is_known(it));
    let hint = |key: &String| {
        let near = nearest(key, known.iter().copied())?;
        Some(format!(
            "parameter '{key}' has no effect: '{backend}' has none of that name; did you mean '{near}'?"
        ))
    };
    unknown.filter_map(hint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{engines::usual, pbtxt::ConfigReader};

    #[test]
    fn a_slip_is_named_with_the_nearest_and_foreign_names_are_left_alone() {
        let parameter =
            |key: &str| format!("parameters {{ key: '{key}' value {{ string_value: '1' }} }}\n");
        let keys = ["intra_op_thread_count", "intra_op_threads_count", "team", "session.x"];
        let text: String = keys.map(parameter).concat();
        let raw = ConfigReader::default().parse_text("m", &text).unwrap();
        let warnings = misspelt_parameters(Some(&raw), "onnxruntime", &usual());
        assert_eq!(
            warnings,
            [
                "parameter 'intra_op_threads_count' has no effect: 'onnxruntime' has none of that name; did you mean \
              'intra_op_thread_count'?"
            ]
        );
        assert!(misspelt_parameters(Some(&raw), "identity", &usual()).is_empty());
    }
}

//! Parameters of a configuration that look like one of the engine's and have no effect. Pure.

use backend::EngineDescription;

use crate::config::engines::Engines;
use inference::signature::nearest;
use serving::config::{model::is_finding, raw::ModelConfig as RawConfig};

/// A warning for each; a name that is like no other, and does not begin as the engine's do, is somebody's own, and is
/// left alone.
pub(crate) fn misspelt_parameters(
    raw: Option<&RawConfig>,
    backend: &str,
    engines: &Engines,
) -> Vec<String> {
    let EngineDescription { parameters: known, prefix, .. } = engines.description(backend);
    let is_known = |key: &str| known.contains(&key) || is_finding(key);
    let mut keys: Vec<&String> = raw.into_iter().flat_map(|it| it.parameters.keys()).collect();
    keys.sort();
    let unknown = keys.into_iter().filter(|it| !is_known(it));
    let has_prefix = |key: &str| {
        let begin = key.get(..prefix.len()).filter(|it| !it.is_empty());
        begin.is_some_and(|it| it.eq_ignore_ascii_case(prefix))
    };
    let hint = |key: &String| {
        let remedy = match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None if has_prefix(key) => format!("it has {}; take it out", known.join(", ")),
            None => return None,
        };
        Some(format!(
            "parameter '{key}' has no effect: '{backend}' has none of that name; {remedy}"
        ))
    };
    unknown.filter_map(hint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{engines::usual, pbtxt::ConfigReader};

    #[test]
    fn a_name_that_only_parameters_of_the_engine_have_is_named_where_it_has_no_effect() {
        let text = "parameters { key: 'TF_XLA' value { string_value: 'on' } }\n\
                    parameters { key: 'tf_init_operations' value { string_value: 'x' } }\n\
                    parameters { key: 'TFX' value { string_value: 'own' } }\n\
                    parameters { key: 'TF_NUM_INTRA_THREADS' value { string_value: '1' } }";
        let raw = ConfigReader::default().parse_text("m", text).unwrap();
        let warnings = misspelt_parameters(Some(&raw), "tensorflow", &usual());
        let told: Vec<&str> = warnings.iter().filter_map(|it| it.split(' ').nth(1)).collect();
        assert_eq!(told, ["'TF_XLA'", "'tf_init_operations'"], "{warnings:?}");
        let all = "it has TF_NUM_INTRA_THREADS, TF_GRAPH_TAG; take it out";
        assert!(warnings.iter().all(|it| it.ends_with(all)), "{warnings:?}");
        assert!(misspelt_parameters(Some(&raw), "onnxruntime", &usual()).is_empty());
    }

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

//! What of a configuration reaches beyond the model: code that would run, and files of this machine. Pure.

use std::path::Path;

use crate::config::engines::Engines;
use serving::config::raw::ModelConfig as RawConfig;

/// The first place in a configuration that brings code, or names a file anywhere on this machine; a sentence.
pub(crate) fn beyond_the_model(raw: &RawConfig, engines: &Engines) -> Option<String> {
    if raw.model_operations.iter().any(|it| !it.op_library_filename.is_empty()) {
        return Some("model_operations: libraries of operators are code".to_owned());
    }
    let in_process = raw.parameters.iter().find(|(key, value)| {
        key.eq_ignore_ascii_case("ISOLATION") && value.string_value.trim() != "process"
    });
    if let Some((key, _)) = in_process {
        return Some(format!(
            "parameter {key} says that native code may run in the server's process"
        ));
    }
    let named = raw.parameters.keys().find(|it| engines.names_files(it));
    if let Some(key) = named {
        return Some(format!("parameter {key} reads or writes files of the server"));
    }
    let accelerators = raw.optimization.iter().flat_map(|it| &it.execution_accelerators);
    let accelerators = accelerators
        .flat_map(|it| it.gpu_execution_accelerator.iter().chain(&it.cpu_execution_accelerator));
    accelerators.flat_map(|it| it.parameters.keys().map(|key| (&it.name, key))).find_map(
        |(accelerator, key)| {
            engines.names_files(key).then(|| {
                format!("accelerator '{accelerator}': parameter {key} reads or writes files of the server")
            })
        },
    )
}

/// The file of that configuration that would be run though its engine would read it as data; a sentence.
pub(crate) fn runs_unread(raw: &RawConfig, engines: &Engines) -> Option<String> {
    let engine = engines.description(engines.name_of(&raw.backend));
    let file = raw.default_model_filename.as_str();
    let is_unread = engine.runs_unread && !file.is_empty() && !engine.has_file(Path::new(file));
    is_unread.then(|| format!("backend '{}' runs what the file '{file}' says", raw.backend))
}

/// The first parameter that names a file of another model; a sentence.
pub(crate) fn of_others(raw: &RawConfig, engines: &Engines) -> Option<String> {
    let settings = engines.description(&raw.backend).settings_of_repository;
    let named = settings
        .iter()
        .find(|key| raw.parameters.get(**key).is_some_and(|it| it.string_value.contains('/')));
    named.map(|key| format!("parameter {key} reads files of other models"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        engines::{told_by_content, usual},
        pbtxt::ConfigReader,
    };

    #[test]
    fn a_pickle_that_python_is_to_open_is_found_by_its_name() {
        let found = |text: &str| {
            let raw = ConfigReader::default().parse_text("config.pbtxt", text).unwrap();
            runs_unread(&raw, &told_by_content())
        };
        let python = |file: &str| format!("backend: 'python' default_model_filename: '{file}'");
        let told = found(&python("model.joblib")).unwrap();
        assert_eq!(told, "backend 'python' runs what the file 'model.joblib' says");
        assert!(found(&python("weights")).is_some());
        assert_eq!(found(&python("other.py")), None);
        assert_eq!(found("backend: 'python'"), None);
        assert_eq!(found("backend: 'fil' default_model_filename: 'model.joblib'"), None);
    }

    fn found(text: &str) -> Option<String> {
        let raw = ConfigReader::default().parse_text("config.pbtxt", text).unwrap();
        beyond_the_model(&raw, &usual())
    }

    #[test]
    fn libraries_and_settings_that_name_files_are_found_wherever_they_stand() {
        let accelerator = "optimization { execution_accelerators { gpu_execution_accelerator {
            name: 'tensorrt' parameters { key: 'engine_cache_path' value: '/x' } } } }";
        for (text, told) in [
            ("model_operations { op_library_filename: 'a.so' }", "model_operations"),
            (
                "parameters { key: 'session.optimized_model_filepath' value { string_value: '/x' } }",
                "filepath",
            ),
            ("parameters { key: 'isolation' value { string_value: 'in_process' } }", "isolation"),
            (accelerator, "accelerator 'tensorrt': parameter engine_cache_path"),
        ] {
            let text = found(text).unwrap();
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn what_stays_in_the_model_is_not() {
        let text = "default_model_filename: 'a.onnx' parameters {
            key: 'session.disable_prepacking' value { string_value: '1' } }
            parameters { key: 'ISOLATION' value { string_value: 'process' } }";
        assert_eq!(found(text), None);
    }
}

//! How the best setting is had again: as a `config.pbtxt`, and as the line that starts the container.

use std::fs;

use crate::{setting::FORM, step::Step, words::quoted};

/// The fields of `config.pbtxt` that say what the setting's variables say; `None` where they are not such fields.
pub fn config_pbtxt(step: &Step) -> Option<String> {
    let mut text = String::new();
    for (name, value) in &step.setting.environment {
        text += &match name.as_str() {
            "MUSTER_DEFAULT_INSTANCE_COUNT" | "SAGEMAKER_MODEL_SERVER_WORKERS" => {
                format!("instance_group [ {{ count: {value} }} ]\n")
            }
            "MUSTER_DEFAULT_INTRA_OP_THREADS" | "OMP_NUM_THREADS" => format!(
                "parameters {{ key: \"intra_op_thread_count\" value: {{ string_value: \"{value}\" }} }}\n"
            ),
            "MUSTER_DEFAULT_MAX_BATCH_SIZE" => format!("max_batch_size: {value}\n"),
            // Another form of the model, which is served in its place.
            FORM => continue,
            _ => return None,
        };
    }
    Some(match text.is_empty() {
        true => "# Nothing: the server finds the best settings by itself.\n".to_owned(),
        false => text,
    })
}

/// The line that starts the container with the setting.
pub fn docker_run(step: &Step, model: &str) -> String {
    let mut words = vec!["docker run --rm -p 8080:8080".to_owned()];
    words.push(format!("--cpus {}", step.setting.instance.cpus));
    if step.setting.instance.gpu {
        words.push("--gpus all".to_owned());
    }
    let (forms, variables): (Vec<_>, Vec<_>) =
        step.setting.environment.iter().partition(|it| it.0 == FORM);
    let model = forms.first().map_or(model, |it| &it.1);
    words.extend(
        variables
            .into_iter()
            .map(|(name, value)| format!("-e {}", quoted(&format!("{name}={value}")))),
    );
    // Docker takes absolute paths only. A model that is gone keeps its name.
    let path = fs::canonicalize(model).unwrap_or_else(|_| model.into());
    words.push(format!(
        "-v {} muster serve",
        quoted(&format!("{}:/opt/ml/model:ro", path.display()))
    ));
    words.join(" ")
}

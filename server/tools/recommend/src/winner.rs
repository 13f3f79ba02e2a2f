//! How the best setting is had again: as a `config.pbtxt`, and as the line that starts the container.

use std::{
    fs,
    path::{Path, PathBuf},
};

use launch::quoted;

use crate::{
    setting::{FORM, INSTANCES, MERGES, OVER_CONFIG, PRECISION, ROWS, SPINS, THREADS},
    step::Step,
};

/// The folder in which the container looks for its models.
const HOSTED_MODEL: &str = "/opt/ml/model";

/// The field of `config.pbtxt` that has threads spin.
const SPINNING: &str =
    "parameters { key: \"session.intra_op.allow_spinning\" value: { string_value: \"1\" } }\n";

/// The field of `config.pbtxt` that has products computed in 8 bits.
const IN_8_BITS: &str = "parameters { key: \"precision\" value: { string_value: \"int8\" } }\n";

/// The fields of `config.pbtxt` that say what the setting's variables say; `None` where they are not such fields.
pub fn config_pbtxt(step: &Step) -> Option<String> {
    let mut text = String::new();
    for (name, value) in &step.setting.environment {
        text += &match name.as_str() {
            INSTANCES | "SAGEMAKER_MODEL_SERVER_WORKERS" => {
                format!("instance_group [ {{ count: {value} }} ]\n")
            }
            THREADS | "OMP_NUM_THREADS" => format!(
                "parameters {{ key: \"intra_op_thread_count\" value: {{ string_value: \"{value}\" }} }}\n"
            ),
            ROWS => format!("max_batch_size: {value}\n"),
            name if [name, value] == SPINS => SPINNING.to_owned(),
            name if [name, value] == PRECISION => IN_8_BITS.to_owned(),
            name if [name, value] == MERGES => "dynamic_batching { }\n".to_owned(),
            // Fields of a configuration need nothing to go before it.
            name if [name, value] == OVER_CONFIG => continue,
            // Another form of the model, which is served in its place.
            FORM => continue,
            _ => return None,
        };
    }
    let over = step.setting.environment.iter().any(|(name, value)| [name, value] == OVER_CONFIG);
    if over {
        text.insert_str(0, "# In place of what the model's own says of them:\n");
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
    if model.contains("://") {
        // The container fetches it.
        words.push(format!("muster serve {}", quoted(model)));
        return words.join(" ");
    }
    words.extend(mounts(model).iter().map(|it| format!("-v {}", quoted(it))));
    words.push("muster serve".to_owned());
    words.join(" ")
}

/// What is mounted where, so that the container finds the model in its folder: a directory as that folder, a file in
/// it, together with the files of its weights; and in it, too, the directory of one model with its configuration,
/// which is none of models.
fn mounts(model: &str) -> Vec<String> {
    // Docker takes absolute paths only. A model that is gone keeps its name.
    let path = fs::canonicalize(model).unwrap_or_else(|_| model.into());
    let below = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("{}:{HOSTED_MODEL}/{name}:ro", path.display())
    };
    if path.is_file() {
        return [path.clone()].iter().chain(&weights(&path)).map(|it| below(it)).collect();
    }
    match path.join("config.pbtxt").is_file() {
        true => vec![below(&path)],
        false => vec![format!("{}:{HOSTED_MODEL}:ro", path.display())],
    }
}

/// The files beside a model's file that hold its weights, as exporters call them: `model.onnx.data`,
/// `model.onnx_data_1`.
fn weights(model: &Path) -> Vec<PathBuf> {
    let own = model.file_name().unwrap_or_default().to_string_lossy();
    let is_part = |it: &PathBuf| {
        let name = it.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(&*own).unwrap_or_default();
        it.is_file() && [".data", "_data"].iter().any(|ending| rest.starts_with(ending))
    };
    let entries = model.parent().and_then(|it| fs::read_dir(it).ok()).into_iter().flatten();
    let mut parts: Vec<PathBuf> = entries.flatten().map(|it| it.path()).filter(is_part).collect();
    parts.sort();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{search::Knobs, step::tests::of_rounds};

    #[test]
    fn each_variable_of_the_search_has_its_field_of_the_configuration() {
        let knobs =
            Knobs { instances: Some(1), threads: Some(2), batch: Some(8), spins: true, form: None };
        let text = |config_says| {
            let variables = knobs.environment(&[], config_says);
            let variables: Vec<_> = variables.iter().map(|it| (&*it.0, &*it.1)).collect();
            config_pbtxt(&of_rounds(&variables, &[1.0])).unwrap()
        };
        let names = |text: &str| -> Vec<String> {
            let name = |it: &str| it.split([' ', ':']).next().unwrap_or_default().to_owned();
            text.lines().map(name).collect()
        };
        let (configured, text) = (text(true), text(false));
        let fields = ["instance_group", "parameters", "max_batch_size", "parameters"];
        assert_eq!(names(&text), fields);
        let fields =
            ["instance_group", "parameters", "max_batch_size", "dynamic_batching", "parameters"];
        assert_eq!(names(configured.split_once('\n').unwrap().1), fields);
        assert!(configured.starts_with("# In place of"), "{configured}");
        assert!(text.contains("session.intra_op.allow_spinning"), "{text}");
        assert_eq!(config_pbtxt(&of_rounds(&[("OMP_PROC_BIND", "true")], &[1.0])), None);
    }

    #[test]
    fn the_container_finds_each_form_of_a_model_in_its_folder() {
        let folder = std::env::temp_dir().join(format!("muster-winner-{}", std::process::id()));
        fs::create_dir_all(folder.join("models/m")).unwrap();
        let folder = fs::canonicalize(folder).unwrap();
        for file in ["model.onnx", "model.onnx.data", "model.onnx_data_1", "model.onnx.txt"] {
            fs::write(folder.join(file), "").unwrap();
        }
        fs::write(folder.join("models/m/config.pbtxt"), "").unwrap();
        let at = |path: &str| folder.join(path).to_string_lossy().into_owned();
        let run = |environment: &[(&str, &str)], model: &str| {
            docker_run(&of_rounds(environment, &[1.0]), model)
        };
        let begins = "docker run --rm -p 8080:8080 --cpus 2";
        let own = "/opt/ml/model";
        for (model, expected) in [
            (
                at("model.onnx"),
                format!(
                    "-v {0}:{own}/model.onnx:ro -v {0}.data:{own}/model.onnx.data:ro \
                     -v {0}_data_1:{own}/model.onnx_data_1:ro muster serve",
                    at("model.onnx")
                ),
            ),
            (at("models"), format!("-v {}:{own}:ro muster serve", at("models"))),
            (at("models/m"), format!("-v {}:{own}/m:ro muster serve", at("models/m"))),
            ("s3://bucket/m".to_owned(), "muster serve s3://bucket/m".to_owned()),
            ("/gone".to_owned(), format!("-v /gone:{own}:ro muster serve")),
        ] {
            assert_eq!(run(&[], &model), format!("{begins} {expected}"));
        }
        // Another form of the model stands in for the one that was given.
        let form = at("model.onnx.txt");
        let line = run(&[("OMP_NUM_THREADS", "2"), (FORM, &form)], &at("models"));
        let mounted = format!("-v {form}:{own}/model.onnx.txt:ro muster serve");
        assert_eq!(line, format!("{begins} -e OMP_NUM_THREADS=2 {mounted}"));
        fs::remove_dir_all(folder).unwrap();
    }
}

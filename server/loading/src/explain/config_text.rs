//! An ensemble of steps as the text of `config.pbtxt` files.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use backend::{
    Backend, BackendError, DataType, Hints, ModelSource, ModelSpec, TensorHint, TensorSpec,
};
use steps::{ExplainedEnsemble, ExplainedFile, ExplainedMember, ExplainedValue, Steps};

use crate::config::check::types::type_name;

/// Most rows of a request.
const MOST_ROWS: usize = 64;

/// The configuration of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// The model.
    pub model: String,
    /// Its `config.pbtxt`.
    pub text: String,
}

/// The configurations of an ensemble of that name and of its members. `dir` is the folder whose files they read,
/// `backend` the engine of its graph.
///
/// # Errors
/// When a step whose types must be written cannot be opened.
pub(super) fn config_files(
    name: &str,
    backend: &str,
    dir: &Path,
    plan: &ExplainedEnsemble,
) -> Result<Vec<ConfigFile>, BackendError> {
    let mut files = vec![ConfigFile { model: name.to_owned(), text: ensemble(name, plan) }];
    for member in &plan.members {
        let text = match &member.step {
            None => graph(backend),
            Some((step, parameters)) => {
                let values = Values { graph_model: &format!("{name}_graph") };
                let mut text = head("backend: \"steps\"", rows(plan));
                parameter(&mut text, "step", step);
                for (key, value) in parameters {
                    parameter(&mut text, key, &values.of_config(value));
                }
                if !member.types.is_empty() {
                    ports(&mut text, &spec(member, dir, plan.is_unbatched)?, member, plan);
                }
                text
            }
        };
        files.push(ConfigFile { model: member_name(name, member), text });
    }
    Ok(files)
}

fn member_name(name: &str, member: &ExplainedMember) -> String {
    format!("{name}_{}", member.suffix)
}

fn rows(plan: &ExplainedEnsemble) -> usize {
    if plan.is_unbatched { 0 } else { MOST_ROWS }
}

fn head(first: &str, rows: usize) -> String {
    format!("{first}\nmax_batch_size: {rows}\n")
}

/// The graph takes as many rows in a run as any model whose configuration says nothing of it.
fn graph(backend: &str) -> String {
    format!("backend: \"{backend}\"\ndynamic_batching {{ }}\n")
}

fn ensemble(name: &str, plan: &ExplainedEnsemble) -> String {
    let mut text = head("platform: \"ensemble\"", rows(plan));
    for (what, ports) in [("input", &plan.inputs), ("output", &plan.outputs)] {
        for it in ports {
            let dims = it.dims.iter().map(|it| it.map_or("-1".to_owned(), |it| it.to_string()));
            let dims = dims.collect::<Vec<_>>().join(", ");
            let optional = if it.is_optional { " optional: true" } else { "" };
            let dtype = type_name(it.dtype);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{what} {{ name: \"{}\" data_type: {dtype} dims: [ {dims} ]{optional} }}",
                it.name
            );
        }
    }
    text.push_str("ensemble_scheduling { step [\n");
    for (at, member) in plan.members.iter().enumerate() {
        let _ = write!(text, "  {{ model_name: {}", quoted(&member_name(name, member)));
        for (what, ports) in [("input_map", &member.inputs), ("output_map", &member.outputs)] {
            for (own, tensor) in ports {
                let (own, tensor) = (quoted(own), quoted(tensor));
                let _ = write!(text, "\n    {what} {{ key: {own} value: {tensor} }}");
            }
        }
        text.push_str(if at + 1 < plan.members.len() { " },\n" } else { " } ] }\n" });
    }
    text
}

fn parameter(text: &mut String, key: &str, value: &str) {
    let value = quoted(value);
    let _ = writeln!(text, "parameters {{ key: \"{key}\" value: {{ string_value: {value} }} }}");
}

/// Text in double quotes, as protobuf's text format has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// How values of parameters are written.
struct Values<'a> {
    graph_model: &'a str,
}

impl Values<'_> {
    /// As a configuration has it: files are those beside the graph.
    fn of_config(&self, value: &ExplainedValue) -> String {
        words(value, |file| format!("{}/{file}", self.graph_model))
    }
}

fn words(value: &ExplainedValue, file: impl Fn(&str) -> String) -> String {
    match value {
        ExplainedValue::Text(text) => text.clone(),
        ExplainedValue::Files(words) => {
            let word = |it: &ExplainedFile| match it {
                ExplainedFile::File(name) => file(name),
                ExplainedFile::Word(word) => word.clone(),
            };
            words.iter().map(word).collect::<Vec<_>>().join(",")
        }
    }
}

/// The ports of a step, as it has them with these types.
fn spec(
    member: &ExplainedMember,
    dir: &Path,
    is_unbatched: bool,
) -> Result<ModelSpec, BackendError> {
    let Some((step, parameters)) = &member.step else { return Ok(ModelSpec::default()) };
    let mut options: BTreeMap<String, String> = parameters
        .iter()
        .map(|(key, value)| ((*key).to_owned(), words(value, str::to_owned)))
        .collect();
    options.insert("step".to_owned(), (*step).to_owned());
    let hint = |(name, dtype): &(String, DataType)| TensorHint {
        name: name.as_str().into(),
        dtype: Some(*dtype),
        dims: None,
    };
    let hints: Vec<TensorHint> = member.types.iter().map(hint).collect();
    let hints = Hints { inputs: hints.clone(), outputs: hints, is_unbatched };
    let source = ModelSource {
        directory: dir.to_owned(),
        options,
        hints,
        ..ModelSource::new("explained", dir)
    };
    let model = Steps::default().load(&source)?;
    Ok(model.spec().cloned().unwrap_or_default())
}

/// The inputs and outputs of a step that the ensemble uses.
fn ports(text: &mut String, spec: &ModelSpec, member: &ExplainedMember, plan: &ExplainedEnsemble) {
    let rows = usize::from(!plan.is_unbatched);
    let sides =
        [("input", &spec.inputs, &member.inputs), ("output", &spec.outputs, &member.outputs)];
    for (what, ports, used) in sides {
        let is_used = |it: &&TensorSpec| used.iter().any(|(own, _)| *own == *it.name);
        for it in ports.iter().filter(is_used) {
            let dims = it.dims.iter().skip(rows);
            let dims: Vec<String> =
                dims.map(|it| it.map_or("-1".to_owned(), |it| it.to_string())).collect();
            let (dims, dtype) = (dims.join(", "), type_name(it.dtype));
            let optional = plan.inputs.iter().any(|outer| {
                let tensor = member.inputs.iter().find(|(own, _)| *own == *it.name);
                outer.is_optional && tensor.is_some_and(|(_, tensor)| *tensor == outer.name)
            });
            let optional = if optional { " optional: true" } else { "" };
            let _ = writeln!(
                text,
                "{what} {{ name: \"{}\" data_type: {dtype} dims: [ {dims} ]{optional} }}",
                it.name
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_was_written() {
        let text = "a \"b\" \\ c\n\tä";
        let config = format!(
            "backend: \"steps\" parameters {{ key: \"prompt\" value: {{ string_value: {} }} }}",
            quoted(text)
        );
        let read = crate::config::pbtxt::ConfigReader::default().parse_text("m", &config).unwrap();
        assert_eq!(read.parameters["prompt"].string_value, text);
    }
}

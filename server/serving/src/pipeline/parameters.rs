//! The parameters of a request as the steps take them.

use std::sync::Arc;

use crate::pipeline::row_error;
use inference::{
    error::Error,
    request::Parameter,
    task::{CANDIDATE_LABELS, RowForm, Task},
};
use serde_json::Value;
use steps::Parameters;

/// What a request asks for beside its inputs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Asked {
    /// What the steps heed.
    pub parameters: Parameters,
    /// The classes of a zero-shot classification.
    pub candidate_labels: Option<Vec<String>>,
    /// Bytes of all texts among the parameters: labels, targets, a template.
    pub bytes: usize,
}

/// Most bytes of one parameter in text: as many as a text has by default. As JSON it becomes up to 35 times as much,
/// and it is read by the thread that talks to the client.
const MOST_BYTES: usize = 1 << 20;

/// What these parameters of a request for that task mean. Of those that say nothing no value is read.
///
/// # Errors
/// [`Error::InvalidParameter`] for a name that the task does not have, for a value of the wrong type, and for one that
/// is too long; [`Error::InvalidRequest`] for labels that are none.
pub fn read(task: Task, parameters: &[(Arc<str>, Parameter)]) -> Result<Asked, Error> {
    let mut asked = Asked::default();
    for (key, value) in parameters {
        let are_labels = key.as_ref() == CANDIDATE_LABELS && task.facts().row == RowForm::Labels;
        if !are_labels && !Parameters::is_heeded(task, key).map_err(row_error::error)? {
            continue;
        }
        if let Parameter::Text(text) = value {
            if MOST_BYTES < text.len() {
                let problem =
                    format!("its text has {} bytes, at most {MOST_BYTES} are taken", text.len());
                return Err(Error::InvalidParameter { name: key.to_string(), problem });
            }
            asked.bytes = asked.bytes.saturating_add(text.len());
        }
        if let Parameter::Double(number) = value
            && !number.is_finite()
        {
            let problem = format!("{number} is no finite number");
            return Err(Error::InvalidParameter { name: key.to_string(), problem });
        }
        let value = value_of(key, value);
        match are_labels {
            true => asked.candidate_labels = Some(labels(&value)?),
            false => asked.parameters.set(task, key, &value).map_err(row_error::error)?,
        }
    }
    Ok(asked)
}

/// Parameters that are texts, whatever they look like.
const TEXTS: [&str; 2] = ["hypothesis_template", "prompt_name"];

/// Lists, objects and `null` have come as the text of their JSON.
fn value_of(key: &str, parameter: &Parameter) -> Value {
    match parameter {
        Parameter::Bool(value) => (*value).into(),
        Parameter::Int(value) => (*value).into(),
        Parameter::Double(value) => (*value).into(),
        Parameter::Text(text) => {
            let looks = text.starts_with(['[', '{']) || &**text == "null";
            let is_json = looks && !TEXTS.contains(&key);
            let json = is_json.then(|| serde_json::from_str(text).ok()).flatten();
            json.unwrap_or_else(|| text.as_ref().into())
        }
    }
}

/// A list of texts, or texts with commas between them.
fn labels(value: &Value) -> Result<Vec<String>, Error> {
    let labels: Option<Vec<String>> = match value {
        Value::String(text) => {
            let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
            Some(parts.map(str::to_owned).collect())
        }
        Value::Array(items) => items.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    labels.filter(|it| !it.is_empty()).ok_or_else(|| {
        let expected = "expected a list of texts, or texts with commas between them";
        Error::InvalidRequest(format!("parameters.{CANDIDATE_LABELS}: {expected}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use steps::TopK;

    #[test]
    fn a_number_that_is_not_finite_is_refused_by_name() {
        for number in [f64::NAN, f64::INFINITY] {
            let given = [("iou".into(), Parameter::Double(number))];
            let error = read(Task::ObjectDetection, &given).unwrap_err();
            assert_eq!(error.parameter(), Some("iou"), "{error}");
        }
    }

    fn text(value: &str) -> Parameter {
        Parameter::Text(value.into())
    }

    fn asked(task: Task, name: &str, value: Parameter) -> Result<Asked, String> {
        read(task, &[(name.into(), value)]).map_err(|it| it.to_string())
    }

    #[test]
    fn lists_and_null_come_as_text() {
        let top_k =
            |value| asked(Task::TextClassification, "top_k", value).unwrap().parameters.top_k;
        assert_eq!(top_k(Parameter::Int(3)), TopK::Best(3));
        assert_eq!(top_k(text("null")), TopK::All);
        let labels = |value| {
            let asked = asked(Task::ZeroShotClassification, CANDIDATE_LABELS, text(value));
            asked.map(|it| it.candidate_labels.unwrap())
        };
        assert_eq!(labels(r#"["a", "b, c"]"#).unwrap(), ["a", "b, c"]);
        assert_eq!(labels("a, b").unwrap(), ["a", "b"]);
        assert!(labels("").unwrap_err().starts_with("parameters.candidate_labels: expected"));
    }

    #[test]
    fn a_template_is_a_text_whatever_it_looks_like() {
        let template = |value| {
            let asked = asked(Task::ZeroShotClassification, "hypothesis_template", text(value));
            asked.unwrap().parameters.hypothesis_template.unwrap()
        };
        assert_eq!((template("{}"), template("[1, {}]")), ("{}".to_owned(), "[1, {}]".to_owned()));
    }

    #[test]
    fn a_text_is_measured_before_it_is_read_and_after_its_name() {
        let long = format!("[{}1]", "1,".repeat(MOST_BYTES / 2));
        for (task, name) in [
            (Task::FillMask, "targets"),
            (Task::ZeroShotClassification, CANDIDATE_LABELS),
            (Task::ZeroShotClassification, "hypothesis_template"),
        ] {
            let error = read(task, &[(name.into(), text(&long))]).unwrap_err();
            assert_eq!(error.parameter(), Some(name), "{error}");
            assert!(error.to_string().contains("1048579 bytes, at most 1048576"), "{error}");
        }
        let error = asked(Task::FillMask, "target", text(&long)).unwrap_err();
        assert!(error.contains("the nearest is 'targets'"), "{error}");
        let passed_over = asked(Task::FillMask, "timeout", text(&long)).unwrap();
        assert_eq!(passed_over, Asked::default());
    }

    #[test]
    fn a_parameter_of_another_task_is_named() {
        let error = asked(Task::FillMask, "top_j", Parameter::Int(1)).unwrap_err();
        assert!(error.contains("top_j") && error.contains("'top_k'"), "{error}");
    }
}

//! Parameters by their names in requests, with what is wrong with one.

use serde_json::Value;

use crate::{
    error::{RowError, shortened},
    folder::document::shown,
    request::{Function, Parameters, Similarity, Strategy, TopK},
    side::Side,
    text,
};
use inference::{signature::nearest, task::Task};

/// What clients send for other servers, and what changes no answer.
const PASSED_OVER: [&str; 5] =
    ["timeout", "batch_size", "use_cache", "wait_for_model", "return_tensors"];

/// The names of all parameters that a task heeds.
fn names(task: Task) -> impl Iterator<Item = &'static str> {
    task.facts().parameters.into_iter().flatten().copied()
}

impl Parameters {
    /// Does the parameter of that name say anything in a request for `task`? Not one that is passed over, whatever its
    /// value is.
    ///
    /// # Errors
    /// When the task has no such parameter, with the nearest name.
    pub fn is_heeded(task: Task, name: &str) -> Result<bool, RowError> {
        if PASSED_OVER.contains(&name) {
            return Ok(false);
        }
        if !names(task).any(|it| it == name) {
            let hint = match nearest(name, names(task)) {
                Some(nearest) => format!("the nearest is '{nearest}'"),
                None if names(task).next().is_none() => "it has none".to_owned(),
                None => format!("it has {}", names(task).collect::<Vec<_>>().join(", ")),
            };
            let problem = format!("{task} has no such parameter; {hint}");
            return Err(RowError::Parameter { name: shortened(name), problem });
        }
        Ok(true)
    }

    /// Sets the parameter of that name in a request for `task`.
    ///
    /// # Errors
    /// Those of [`Parameters::is_heeded`], and when the value is none that the parameter can have.
    pub fn set(&mut self, task: Task, name: &str, value: &Value) -> Result<(), RowError> {
        match Parameters::is_heeded(task, name)? {
            true => self.set_known(&Given { name, value }),
            false => Ok(()),
        }
    }

    fn set_known(&mut self, given: &Given<'_>) -> Result<(), RowError> {
        match given.name {
            "truncation" | "truncate" => self.set_truncation(given)?,
            "truncation_side" | "truncation_direction" => {
                self.truncation_side = given.named("left, right", Side::from_name)?;
            }
            "max_length" => self.max_length = given.count()?,
            "padding" => {
                self.has_padding = !matches!(given.value, Value::Bool(false) | Value::Null)
            }
            "top_k" => {
                self.top_k = given.some_count()?.map_or(TopK::All, TopK::Best);
            }
            "return_all_scores" => {
                self.top_k = if given.flag()?.unwrap_or(false) { TopK::All } else { TopK::Default }
            }
            "function_to_apply" => {
                // `default` is what nothing is.
                let is_default = given.value.as_str().is_some_and(|it| it == "default");
                if !is_default {
                    self.function = given.named("softmax, sigmoid, none", Function::from_name)?;
                }
            }
            "max_tokens_per_doc" => self.max_tokens_per_text = given.some_count()?,
            "raw_scores" => self.raw_scores = given.flag()?,
            "aggregation_strategy" => {
                let known = "none, simple, first, max, average";
                self.strategy = given.named(known, Strategy::from_name)?.unwrap_or_default();
            }
            "ignore_labels" => self.ignore_labels = given.texts()?,
            "stride" => self.stride = given.count()?,
            "targets" => self.targets = given.texts()?,
            "hypothesis_template" => self.hypothesis_template = given.text()?,
            "multi_label" => self.multi_label = given.flag()?.unwrap_or(false),
            "normalize" => self.normalize = given.flag()?,
            "dimensions" => self.dimensions = given.count()?,
            "prompt_name" => self.prompt_name = given.text()?,
            "threshold" | "confidence" => self.detection.threshold = given.part()?,
            "iou" => self.detection.iou = given.part()?,
            "max_detections" => self.detection.most = given.some_count()?,
            "agnostic" => self.detection.agnostic = given.flag()?,
            "pool" => self.pool = given.flag()?.unwrap_or(false),
            "similarity" => {
                let known = "cosine, dot, euclidean, manhattan";
                self.similarity = given.named(known, Similarity::from_name)?;
            }
            _ => self.set_answer(given)?,
        }
        Ok(())
    }

    fn set_truncation(&mut self, given: &Given<'_>) -> Result<(), RowError> {
        let known = "true, false, longest_first, only_first, only_second, do_not_truncate";
        self.truncate = match given.value {
            Value::Null => None,
            Value::Bool(truncate) => Some(*truncate),
            Value::String(name) if name == "do_not_truncate" => Some(false),
            Value::String(name) => {
                let strategy = text::Strategy::from_name(name).ok_or_else(|| given.wrong(known))?;
                self.truncation_strategy = Some(strategy);
                Some(true)
            }
            Value::Number(_) | Value::Array(_) | Value::Object(_) => return Err(given.wrong(known)),
        };
        Ok(())
    }

    fn set_answer(&mut self, given: &Given<'_>) -> Result<(), RowError> {
        let answer = &mut self.answer;
        match given.name {
            "doc_stride" => answer.doc_stride = given.count()?,
            "max_seq_len" => answer.max_seq_len = given.count()?,
            "max_question_len" => answer.max_question_len = given.positive(64)?,
            "max_answer_len" => answer.max_answer_len = given.positive(15)?,
            "handle_impossible_answer" => {
                answer.handle_impossible_answer = given.flag()?.unwrap_or(false);
            }
            "align_to_words" => answer.align_to_words = given.flag()?.unwrap_or(true),
            other => {
                let problem = "no such parameter".to_owned();
                return Err(RowError::Parameter { name: other.to_owned(), problem });
            }
        }
        Ok(())
    }
}

/// A parameter as it came. `null` is as if it had not come.
struct Given<'a> {
    name: &'a str,
    value: &'a Value,
}

impl Given<'_> {
    fn wrong(&self, expected: &str) -> RowError {
        let problem = format!("it is {}, not {expected}", shown(self.value));
        RowError::Parameter { name: self.name.to_owned(), problem }
    }

    fn read<T>(&self, expected: &str, read: Option<T>) -> Result<Option<T>, RowError> {
        match (self.value, read) {
            (Value::Null, _) => Ok(None),
            (_, Some(value)) => Ok(Some(value)),
            (_, None) => Err(self.wrong(expected)),
        }
    }

    fn count(&self) -> Result<Option<usize>, RowError> {
        let count = self.value.as_u64().and_then(|it| usize::try_from(it).ok());
        self.read("a count", count)
    }

    /// A count that is not zero.
    fn some_count(&self) -> Result<Option<usize>, RowError> {
        match self.count()? {
            Some(0) => Err(self.wrong("a count from 1 on")),
            count => Ok(count),
        }
    }

    /// A number from 0 to 1.
    fn part(&self) -> Result<Option<f32>, RowError> {
        let number = self.value.as_f64().filter(|it| (0.0..=1.0).contains(it));
        self.read("a number from 0 to 1", number.map(|it| it as f32))
    }

    fn positive(&self, usual: usize) -> Result<usize, RowError> {
        Ok(self.some_count()?.unwrap_or(usual))
    }

    fn flag(&self) -> Result<Option<bool>, RowError> {
        self.read("true or false", self.value.as_bool())
    }

    fn text(&self) -> Result<Option<String>, RowError> {
        self.read("a text", self.value.as_str().map(str::to_owned))
    }

    /// A list of texts, or one text.
    fn texts(&self) -> Result<Option<Vec<String>>, RowError> {
        let texts = match self.value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(items) => items.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        self.read("a list of texts", texts)
    }

    fn named<T>(
        &self,
        known: &str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, RowError> {
        self.read(&format!("one of {known}"), self.value.as_str().and_then(from_name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(task: Task, name: &str, value: Value) -> Result<Parameters, String> {
        let mut parameters = Parameters::default();
        let set = parameters.set(task, name, &value);
        set.map(|()| parameters).map_err(|error| error.to_string())
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest() {
        let error = set(Task::TextClassification, "topk", json!(1)).unwrap_err();
        let text = "parameter 'topk': text-classification has no such parameter; \
                    the nearest is 'top_k'";
        assert_eq!(error, text);
        let error = set(Task::FillMask, "colour", json!(1)).unwrap_err();
        assert!(
            error.ends_with(
                "; it has top_k, targets, truncation, truncate, truncation_side, \
                                 truncation_direction, max_length, padding"
            ),
            "{error}"
        );
        assert!(set(Task::FillMask, "stride", json!(1)).is_err());
        assert!(set(Task::FillMask, "timeout", json!("any")).is_ok());
    }

    #[test]
    fn errors_repeat_the_beginning_of_a_long_value() {
        let long = json!(vec!["x".repeat(1000); 3]);
        for (name, value) in [("top_k", long), ("function_to_apply", json!("y".repeat(1000)))] {
            let error = set(Task::TextClassification, name, value).unwrap_err();
            assert!(error.len() < 200 && error.contains("…, not "), "{error}");
        }
        let name = "z".repeat(1000);
        assert!(set(Task::TextClassification, &name, json!(1)).unwrap_err().len() < 500);
    }

    #[test]
    fn null_is_all_classes_and_the_older_name_says_the_same() {
        let task = Task::TextClassification;
        assert_eq!(set(task, "top_k", json!(null)).unwrap().top_k, TopK::All);
        assert_eq!(set(task, "top_k", json!(3)).unwrap().top_k, TopK::Best(3));
        assert_eq!(set(task, "return_all_scores", json!(true)).unwrap().top_k, TopK::All);
        assert!(set(task, "top_k", json!(0)).is_err());
    }

    #[test]
    fn truncation_may_name_the_text() {
        let task = Task::TextClassification;
        let parameters = set(task, "truncation", json!("only_second")).unwrap();
        assert_eq!(parameters.truncate, Some(true));
        assert_eq!(parameters.truncation_strategy, Some(text::Strategy::OnlySecond));
        let error = set(task, "truncation", json!("some")).unwrap_err();
        assert!(error.starts_with("parameter 'truncation': it is \"some\", not true, false,"));
    }

    #[test]
    fn the_windows_of_a_context_are_not_cut_by_a_length() {
        let error = set(Task::QuestionAnswering, "max_length", json!(64)).unwrap_err();
        assert!(error.contains("question-answering has no such parameter"), "{error}");
        let parameters = set(Task::QuestionAnswering, "max_seq_len", json!(64)).unwrap();
        assert_eq!(parameters.answer.max_seq_len, Some(64));
        assert!(set(Task::Rerank, "max_tokens_per_doc", json!(0)).is_err());
    }

    #[test]
    fn every_name_of_every_task_is_read() {
        for task in Task::ALL {
            for name in names(task) {
                assert!(set(task, name, json!(null)).is_ok(), "{task}: {name}");
            }
        }
    }
}

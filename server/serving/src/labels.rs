//! Labels of versions: names such as `stable` by which clients ask for a version whose number the operator sets.

use std::sync::Arc;

use crate::{label_table::VersionLabels, manager::ModelManager, model_id::ModelId};
use inference::error::Error;

impl ModelManager {
    /// The version that a label of a model stands for. Whether it serves is known to [`ModelManager::get`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an unknown label, as TensorFlow Serving has it; those of
    /// [`ModelManager::get`] for a model without labels that cannot be had.
    pub fn labelled(&self, name: &str, label: &str) -> Result<u64, Error> {
        let labels = self.labels.0.load();
        let of_model = labels.get(name);
        if let Some(version) = of_model.and_then(|it| it.get(label)) {
            return Ok(*version);
        }
        let shown: String = label.chars().take(128).collect();
        let Some(of_model) = of_model.filter(|it| !it.is_empty()) else {
            if self.ready_versions(name).is_empty() {
                return Err(self.explain(&ModelId::named(name), None));
            }
            return Err(Error::InvalidRequest(format!(
                "model '{name}' has no version label '{shown}': it has no labels, which version_labels of the \
                 model config file give"
            )));
        };
        let known: Vec<&str> = of_model.keys().map(String::as_str).collect();
        Err(Error::InvalidRequest(format!(
            "model '{name}' has no version label '{shown}'; its labels are {}",
            known.join(", ")
        )))
    }

    /// The labels of a model; none for an unknown name.
    pub fn labels(&self, name: &str) -> VersionLabels {
        self.labels.0.load().get(name).cloned().unwrap_or_default()
    }

    /// From the next request on these labels count, by the name of their model, and no others.
    pub fn set_labels(&self, labels: impl IntoIterator<Item = (Arc<str>, VersionLabels)>) {
        self.labels.0.store(Arc::new(labels.into_iter().collect()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;

    fn manager() -> ModelManager {
        let manager = ModelManager::default();
        manager.note(&ModelId::named("m"), Some(1), State::Loading, "");
        let labels = VersionLabels::from([("stable".to_owned(), 1), ("canary".to_owned(), 2)]);
        manager.set_labels([("m".into(), labels)]);
        manager
    }

    #[test]
    fn a_label_stands_for_its_version_until_the_labels_are_set_anew() {
        let manager = manager();
        assert_eq!(manager.labelled("m", "stable").unwrap(), 1);
        assert_eq!(manager.labelled("m", "canary").unwrap(), 2);
        manager.set_labels([("m".into(), VersionLabels::from([("stable".to_owned(), 2)]))]);
        assert_eq!(manager.labelled("m", "stable").unwrap(), 2);
        assert!(manager.labelled("m", "canary").is_err());
    }

    #[test]
    fn an_unknown_label_is_refused_naming_those_that_there_are() {
        let error = manager().labelled("m", "blue").unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
        assert!(error.to_string().contains("'blue'; its labels are canary, stable"), "{error}");
    }

    #[test]
    fn a_label_of_a_model_that_is_not_there_says_that_the_model_is_not() {
        let error = manager().labelled("other", "stable").unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error}");
    }
}

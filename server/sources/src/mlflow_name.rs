//! Names of models in MLflow's registry, as its own clients write them. Pure.

use std::fmt;

/// Begins the name of a model in MLflow's registry.
const SCHEME: &str = "models:/";

/// A version of a registered model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MlflowName {
    /// What the model is registered as.
    pub model: String,
    /// Which of its versions is meant.
    pub version: MlflowVersion,
}

/// Which version of a registered model is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MlflowVersion {
    /// `/3`: this one.
    Number(u64),
    /// `@champion`: the one that has this alias now.
    Alias(String),
    /// `/latest`: the one with the highest number now.
    Latest,
}

impl MlflowName {
    /// The model that a text names; `None` for a text that does not begin so.
    pub(crate) fn parse(text: &str) -> Option<Option<MlflowName>> {
        Some(MlflowName::of_rest(text.strip_prefix(SCHEME)?))
    }

    fn of_rest(rest: &str) -> Option<MlflowName> {
        let is_letter = |it: char| !it.is_control() && !"/:@\\".contains(it);
        let is_model = |it: &str| !it.is_empty() && it.len() <= 256 && it.chars().all(is_letter);
        let (model, version) = match rest.rsplit_once('@') {
            Some((model, alias)) => {
                let is_letter = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
                let is_alias = !alias.is_empty() && alias.len() <= 255;
                let is_alias = is_alias && alias.chars().all(is_letter);
                (model, is_alias.then(|| MlflowVersion::Alias(alias.to_owned()))?)
            }
            None => match rest.split_once('/')? {
                (model, "latest") => (model, MlflowVersion::Latest),
                (model, number) => {
                    let is_number = number.bytes().all(|it| it.is_ascii_digit());
                    (model, MlflowVersion::Number(number.parse().ok().filter(|_| is_number)?))
                }
            },
        };
        is_model(model).then(|| MlflowName { model: model.to_owned(), version })
    }
}

impl fmt::Display for MlflowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = &self.model;
        match &self.version {
            MlflowVersion::Number(number) => write!(f, "{SCHEME}{model}/{number}"),
            MlflowVersion::Alias(alias) => write!(f, "{SCHEME}{model}@{alias}"),
            MlflowVersion::Latest => write!(f, "{SCHEME}{model}/latest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_number_an_alias_or_the_latest() {
        for (text, version) in [
            ("models:/churn/3", MlflowVersion::Number(3)),
            ("models:/churn@champion", MlflowVersion::Alias("champion".to_owned())),
            ("models:/churn/latest", MlflowVersion::Latest),
        ] {
            let name = MlflowName::parse(text).unwrap().unwrap();
            assert_eq!(
                (&*name.model, &name.version, name.to_string()),
                ("churn", &version, text.to_owned())
            );
        }
        assert_eq!(MlflowName::parse("models:/a b/1").unwrap().unwrap().model, "a b");
        assert_eq!(MlflowName::parse("models/churn"), None);
    }

    #[test]
    fn what_names_no_version_is_refused() {
        for rest in [
            "",
            "churn",
            "churn/",
            "churn@",
            "churn/Production",
            "churn/+3",
            "/3",
            "@a",
            "a/b/3",
            "a@b/c",
            "a:b/1",
        ] {
            assert_eq!(MlflowName::parse(&format!("{SCHEME}{rest}")), Some(None), "{rest}");
        }
        // Of another registry.
        assert_eq!(MlflowName::parse("models://other/churn/3"), Some(None));
    }
}

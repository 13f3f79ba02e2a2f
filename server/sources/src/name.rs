//! The names by which an operator calls a model that is not on this machine. Pure.

use std::fmt;

/// A model somewhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// `owner/name` or `hf://owner/name@revision`: of Hugging Face's hub.
    Hub(HubName),
}

/// A repository of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// `owner/name`; a few old ones have no owner.
    pub repository: String,
    /// A branch, a tag or a commit; `None` for the one of the settings.
    pub revision: Option<String>,
}

/// What was expected of a text that begins as a name does. The text may hold a secret and is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// After `hf://`.
    #[error("hf://<owner>/<name>, perhaps with @<branch, tag or commit> behind it")]
    Hub,
}

/// Begins the name of a model of a hub.
const HUB: &str = "hf://";

/// Endings of files that are models: whoever types one means a file of this machine.
const OF_FILES: [&str; 13] =
    ["onnx", "pt", "pth", "json", "txt", "pkl", "joblib", "skops", "ubj", "pb", "gz", "zip", "tar"];

impl Name {
    /// The model that a text names; `None` for the text of a path.
    ///
    /// # Errors
    /// What was expected of a name that begins so.
    pub fn parse(text: &str) -> Option<Result<Name, NameError>> {
        if let Some(rest) = text.strip_prefix(HUB) {
            return Some(HubName::parse(rest).map(Name::Hub).ok_or(NameError::Hub));
        }
        let hub = HubName::parse(text)?;
        let ending = hub.repository.rsplit_once('.').map(|it| it.1);
        let is_file = ending.is_some_and(|it| OF_FILES.contains(&it));
        (hub.repository.contains('/') && !is_file).then_some(Ok(Name::Hub(hub)))
    }

    /// The same for the words of Hugging Face's containers, whose models are all of a hub: an owner is not needed.
    ///
    /// # Errors
    /// As [`Name::parse`].
    pub fn parse_id(text: &str) -> Option<Result<Name, NameError>> {
        Name::parse(text).or_else(|| HubName::parse(text).map(|it| Ok(Name::Hub(it))))
    }

    /// What the model is called, unless the operator says otherwise.
    pub fn model(&self) -> &str {
        match self {
            Name::Hub(hub) => hub.repository.rsplit('/').next().unwrap_or(&hub.repository),
        }
    }
}

impl fmt::Display for Name {
    /// The whole name, whose beginning says where it is from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Hub(HubName { repository, revision: None }) => write!(f, "{HUB}{repository}"),
            Name::Hub(HubName { repository, revision: Some(revision) }) => {
                write!(f, "{HUB}{repository}@{revision}")
            }
        }
    }
}

impl HubName {
    /// `owner/name` or `name`, with `@revision` or without.
    fn parse(text: &str) -> Option<HubName> {
        let (repository, revision) = match text.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (text, None),
        };
        let parts: Vec<&str> = repository.split('/').collect();
        let is_whole = parts.len() <= 2 && parts.iter().all(|it| is_part(it));
        let is_known = revision.is_none_or(is_revision);
        (is_whole && is_known).then(|| HubName {
            repository: repository.to_owned(),
            revision: revision.map(str::to_owned),
        })
    }
}

/// An owner, or the name of a model. `--` stands between them in the cache.
fn is_part(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let is_plain = !text.starts_with(['.', '-']) && !text.ends_with(['.', '-']);
    !text.is_empty() && text.len() <= 96 && is_plain && text.chars().all(is_letter)
}

/// A branch, a tag or a commit: it becomes the path of a file, which must not leave its folder.
pub(crate) fn is_revision(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || "-_.+".contains(it);
    let is_word = |it: &str| !it.is_empty() && !it.starts_with('.') && it.chars().all(is_letter);
    text.len() <= 200 && text.split('/').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, whole: &str, model: &str) {
        let name = Name::parse(text).unwrap().unwrap();
        assert_eq!((name.to_string(), name.model()), (whole.to_owned(), model), "{text}");
        assert_eq!(Name::parse(whole), Some(Ok(name)));
    }

    #[test]
    fn a_model_of_a_hub_has_an_owner_or_a_scheme() {
        check("BAAI/bge-small-en-v1.5", "hf://BAAI/bge-small-en-v1.5", "bge-small-en-v1.5");
        check("hf://a/b@refs/pr/7", "hf://a/b@refs/pr/7", "b");
        check("a/b@v1.0", "hf://a/b@v1.0", "b");
        check("hf://gpt2", "hf://gpt2", "gpt2");
    }

    #[test]
    fn a_path_is_no_name() {
        for path in ["model", "models/x.onnx", "./a/b", "/a/b", "a/b/c", "../a", "a/", "~/a", ""] {
            assert_eq!(Name::parse(path), None, "{path}");
        }
        assert_eq!(Name::parse("s3://bucket/models"), None);
    }

    #[test]
    fn a_name_that_could_lead_elsewhere_is_refused() {
        for text in
            ["hf://", "hf://a/b/c", "hf://a/..", "hf://a/b@", "hf://a/b@../x", "hf://a/b@x//y"]
        {
            assert_eq!(Name::parse(text), Some(Err(NameError::Hub)), "{text}");
        }
    }
}

//! The names by which an operator calls a model that is not on this machine. Pure.

use std::fmt;

use crate::{mlflow_name::MlflowName, oci_name::OciName};

/// A model somewhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// `owner/name` or `hf://owner/name@revision`: of Hugging Face's hub.
    Hub(HubName),
    /// `https://host/path/model.onnx#sha256=<digest>`: a file at an address.
    Web(WebName),
    /// `models:/name@alias` or `models:/name/version`: of MLflow's registry.
    Mlflow(MlflowName),
    /// `oci://host/name:tag` or `oci://host/name@sha256:<digest>`: an image of a registry.
    Oci(OciName),
}

/// How the names of models somewhere else begin or look, for what is said of other texts.
pub const FORMS: &str = "<owner>/<name>, hf://<owner>/<name>@<revision>, models:/<name>/<version>, \
                         models:/<name>@<alias>, oci://<host>/<name>:<tag> or https://<address>#sha256=<digest>";

/// A repository of a hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// `owner/name`; a few old ones have no owner.
    pub repository: String,
    /// A branch, a tag or a commit; `None` for the one of the settings.
    pub revision: Option<String>,
}

/// A file at an address.
#[derive(Clone, PartialEq, Eq)]
pub struct WebName {
    /// The whole address, which may be signed.
    pub url: String,
    /// The digest of the file, in small hexadecimal letters.
    pub sha256: String,
    /// What the file is called.
    pub file: String,
}

/// What was expected of a text that begins as a name does. The text may hold a secret and is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// After `hf://`.
    #[error("hf://<owner>/<name>, perhaps with @<branch, tag or commit> behind it")]
    Hub,
    /// After `https://`.
    #[error(
        "https://<host>/<path>/<file>#sha256=<64 hexadecimal digits>, without credentials, where the file ends in one of {}",
        WEB_FILES.map(|it| format!(".{it}")).join(", ")
    )]
    Web,
    /// After `models:/`.
    #[error(
        "models:/<name>/<number of a version>, models:/<name>/latest or models:/<name>@<alias>"
    )]
    Mlflow,
    /// After `oci://`.
    #[error(
        "oci://<host>/<name>:<tag> or oci://<host>/<name>@sha256:<64 hexadecimal digits>, without credentials"
    )]
    Oci,
    /// Plain HTTP.
    #[error("https, not http, for a file at an address")]
    Http,
}

/// Files that are fetched from an address. Pickles run code where they are read, and are not among them.
const WEB_FILES: [&str; 5] = ["onnx", "ubj", "json", "txt", "skops"];

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
        if text.starts_with("https://") {
            return Some(WebName::parse(text).map(Name::Web).ok_or(NameError::Web));
        }
        if let Some(name) = MlflowName::parse(text) {
            return Some(name.map(Name::Mlflow).ok_or(NameError::Mlflow));
        }
        if let Some(name) = OciName::parse(text) {
            return Some(name.map(Name::Oci).ok_or(NameError::Oci));
        }
        if text.starts_with("http://") {
            return Some(Err(NameError::Http));
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
            Name::Web(web) => web.file.rsplit_once('.').map_or(&web.file, |it| it.0),
            Name::Mlflow(name) => &name.model,
            Name::Oci(name) => name.repository.rsplit('/').next().unwrap_or(&name.repository),
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
            Name::Web(web) => write!(f, "{}#sha256={}", web.shown(), web.sha256),
            Name::Mlflow(name) => name.fmt(f),
            Name::Oci(name) => name.fmt(f),
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

impl WebName {
    /// An address with the digest of what lies there.
    fn parse(text: &str) -> Option<WebName> {
        let (url, digest) = text.split_once("#sha256=")?;
        let sha256 = digest.to_ascii_lowercase();
        let is_digest = sha256.len() == 64 && sha256.bytes().all(|it| it.is_ascii_hexdigit());
        let plain = url.split('?').next().unwrap_or_default();
        let (host, path) = plain.strip_prefix("https://")?.split_once('/')?;
        let file = path.rsplit('/').next().unwrap_or_default();
        let is_letter = |it: char| it.is_ascii_alphanumeric() || "-_.+".contains(it);
        let is_file = !file.starts_with('.') && file.len() <= 200 && file.chars().all(is_letter);
        let ending = file.rsplit_once('.').filter(|it| !it.0.is_empty())?.1;
        let is_known = WEB_FILES.contains(&&*ending.to_ascii_lowercase());
        let is_host = !host.is_empty() && !host.contains(['@', ' ']);
        let file = file.to_owned();
        let is_one = is_digest && is_host && is_file && is_known;
        is_one.then(|| WebName { url: url.to_owned(), sha256, file })
    }

    /// The address without what it may be signed by.
    pub(crate) fn shown(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }
}

impl fmt::Debug for WebName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebName({}, {})", self.shown(), self.sha256)
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
    fn a_file_at_an_address_has_a_digest_and_its_signature_is_not_shown() {
        let digest = "ab".repeat(32);
        check(
            &format!("https://h:1/a/fraud.onnx#sha256={}", digest.to_uppercase()),
            &format!("https://h:1/a/fraud.onnx#sha256={digest}"),
            "fraud",
        );
        let signed = Name::parse(&format!("https://h/m.onnx?sig=secret#sha256={digest}"));
        let signed = signed.unwrap().unwrap();
        assert!(!format!("{signed} {signed:?}").contains("secret"));
        for text in [
            "https://h/m.onnx",
            &format!("https://u:p@h/m.onnx#sha256={digest}"),
            &format!("https://h/m.pkl#sha256={digest}"),
            &format!("https://h/m.onnx#sha256={}", &digest[1..]),
            &format!("https://h/..onnx#sha256={digest}"),
        ] {
            assert_eq!(Name::parse(text), Some(Err(NameError::Web)), "{text}");
        }
        assert_eq!(Name::parse("http://h/m.onnx"), Some(Err(NameError::Http)));
    }

    #[test]
    fn a_model_of_a_registry_is_called_by_its_name_there() {
        check("models:/churn@champion", "models:/churn@champion", "churn");
        check("oci://ghcr.io/org/churn", "oci://ghcr.io/org/churn:latest", "churn");
        assert_eq!(Name::parse("models:/churn"), Some(Err(NameError::Mlflow)));
        assert_eq!(Name::parse("oci://churn"), Some(Err(NameError::Oci)));
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

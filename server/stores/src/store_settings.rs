//! Model repositories in object stores: what an address says, and the settings and variables that the stores
//! are opened with. Nothing is opened here.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use configuration::{Environment, Flag, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("model-repository-cache-dir", "", "Directory for local copies of models from s3://, gs:// and as:// repositories, and of files from https://; what has not changed there is not fetched again. TRITON_AWS_MOUNT_DIRECTORY and the like go before it. Default: muster-models-<user> in the directory for temporary files").named("DIR"),
    Flag::boolean("store-anonymous", "false", "Do not sign requests to object stores, for buckets that anyone may read"),
];

/// Beginnings of the names of variables that stores know.
const VARIABLES: [&str; 8] = [
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
    "STORAGE_EMULATOR_HOST",
    "TRITON_CLOUD_CREDENTIAL_PATH",
    "TRITON_",
];

/// How stores are opened, and where copies of their models lie.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoreSettings {
    /// `--model-repository-cache-dir`: the directory of copies; a variable of the provider beats it.
    pub cache_dir: PathBuf,
    /// `--store-anonymous`: requests are not signed, for buckets that anyone may read.
    pub anonymous: bool,
    /// Credentials among them. Empty where no repository is in a store.
    pub variables: Variables,
}

/// Variables of the environment that stores know. Its debug text has their names only.
#[derive(Clone, PartialEq, Default)]
pub struct Variables(pub BTreeMap<String, String>);

impl Variables {
    /// The text of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|it| it.trim()).filter(|it| !it.is_empty())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl StoreSettings {
    /// Where copies of what this provider has go.
    pub fn cache_dir_of(&self, provider: Provider) -> PathBuf {
        let mount = self.variables.get(provider.mount_variable());
        mount.map_or_else(|| self.cache_dir.clone(), PathBuf::from)
    }
}

/// Who keeps the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Amazon S3, and everything that speaks as it does.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Provider {
    /// The variable that names the directory for copies, in Triton.
    pub fn mount_variable(self) -> &'static str {
        match self {
            Provider::S3 => "TRITON_AWS_MOUNT_DIRECTORY",
            Provider::Gcs => "TRITON_GCS_MOUNT_DIRECTORY",
            Provider::Azure => "TRITON_AZURE_MOUNT_DIRECTORY",
        }
    }
}

/// A directory of models in a store, as in `s3://bucket/models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// As it was given.
    pub text: String,
    /// Who keeps it.
    pub provider: Provider,
    /// `http://host:port` or the like, where it is given.
    pub endpoint: Option<String>,
    /// The storage account, on Azure; else empty.
    pub account: String,
    /// The bucket, or Azure's container.
    pub bucket: String,
    /// The path of the directory in the bucket; without slashes at its ends, possibly empty.
    pub prefix: String,
}

/// What an address looks like, by provider.
const FORMS: &str = "s3://bucket/path, s3://[https://]host:port/bucket/path, gs://bucket/path or \
                     as://account/container/path";

/// What was expected of a text that is no address. The text may hold a secret and is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It has another form.
    #[error("an address of the form {FORMS}")]
    Form,
    /// It holds credentials.
    #[error(
        "an address of the form {FORMS}, without credentials in it: they come from the environment"
    )]
    Credentials,
}

impl StoreUrl {
    /// Is this an address rather than a path of the file system? It need not be a valid one.
    pub fn is_one(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric()))
    }

    /// Reads an address.
    ///
    /// # Errors
    /// What was expected. The text may hold a secret and is not repeated.
    pub fn parse(text: &str) -> Result<StoreUrl, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Form)?;
        if rest.contains('@') || rest.contains('?') {
            return Err(UrlError::Credentials);
        }
        let provider = match scheme {
            "s3" => Provider::S3,
            "gs" => Provider::Gcs,
            "as" => Provider::Azure,
            _ => return Err(UrlError::Form),
        };
        let (protocol, rest) = match rest.split_once("://") {
            Some((protocol @ ("http" | "https"), rest)) if provider == Provider::S3 => {
                (Some(protocol), rest)
            }
            Some(_) => return Err(UrlError::Form),
            None => (None, rest),
        };
        let (first, path) = rest.split_once('/').unwrap_or((rest, ""));
        let has_host = protocol.is_some() || (provider == Provider::S3 && first.contains(':'));
        let (endpoint, account, path) = if has_host {
            (Some(format!("{}://{first}", protocol.unwrap_or("http"))), "", path)
        } else if provider == Provider::Azure {
            // Triton takes the host of the account for its name, too.
            let account = first.split('.').next().unwrap_or(first);
            (first.contains('.').then(|| format!("https://{first}")), account, path)
        } else {
            (None, "", rest)
        };
        let path = path.trim_matches('/');
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let is_word = |it: &str| !it.is_empty() && !it.contains([' ', ':']);
        let has_account = provider != Provider::Azure || is_word(account);
        let clean = prefix.split('/').all(|it| prefix.is_empty() || !["", ".", ".."].contains(&it));
        if first.is_empty() || !is_word(bucket) || !has_account || !clean {
            return Err(UrlError::Form);
        }
        Ok(StoreUrl {
            text: text.trim_end_matches('/').to_owned(),
            provider,
            endpoint,
            account: account.to_owned(),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// The address of something below the bucket.
    pub fn of(&self, path: &str) -> String {
        let above = self.text.strip_suffix(&self.prefix).unwrap_or(&self.text);
        format!("{}/{path}", above.trim_end_matches('/'))
    }
}

/// Settings and variables; the latter only where they are needed.
pub fn resolve(
    sources: &Sources,
    environment: &dyn Environment,
    has_remote: bool,
    problems: &mut Vec<String>,
) -> StoreSettings {
    let given = sources.read("model-repository-cache-dir", value::path, problems);
    let temporary = || {
        let dir = environment.variable("TMPDIR").filter(|it| !it.is_empty());
        let user = rustix::process::getuid().as_raw();
        dir.map_or_else(|| "/tmp".into(), PathBuf::from).join(format!("muster-models-{user}"))
    };
    let anonymous = sources.read("store-anonymous", value::boolean, problems).unwrap_or(false);
    let mut variables = BTreeMap::new();
    if has_remote {
        let is_known = |it: &String| VARIABLES.iter().any(|begin| it.starts_with(begin));
        let mut names: Vec<String> = environment.names().into_iter().filter(is_known).collect();
        names.push("HOME".to_owned());
        for name in names {
            // What is not text is no name of a file that Triton could read either.
            if let Some(Ok(text)) = environment.variable(&name).map(|it| it.into_string()) {
                variables.insert(name, text);
            }
        }
    }
    StoreSettings {
        cache_dir: given.unwrap_or_else(temporary),
        anonymous,
        variables: Variables(variables),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Provider, endpoint, account, bucket, prefix.
    #[track_caller]
    fn check(text: &str, expect: (Provider, Option<&str>, &str, &str, &str)) {
        let url = StoreUrl::parse(text).unwrap();
        let StoreUrl { provider, endpoint, account, bucket, prefix, .. } = &url;
        assert_eq!((*provider, endpoint.as_deref(), &**account, &**bucket, &**prefix), expect);
    }

    #[test]
    fn an_address_names_provider_endpoint_bucket_and_prefix() {
        use Provider::{Azure, Gcs, S3};
        check("s3://b", (S3, None, "", "b", ""));
        check("s3://b/models/all/", (S3, None, "", "b", "models/all"));
        check("s3://host:9000/b/m", (S3, Some("http://host:9000"), "", "b", "m"));
        check("s3://http://host:9000/b/m", (S3, Some("http://host:9000"), "", "b", "m"));
        check("s3://https://host:9000/b", (S3, Some("https://host:9000"), "", "b", ""));
        check("s3://https://host/b", (S3, Some("https://host"), "", "b", ""));
        check("gs://b/m", (Gcs, None, "", "b", "m"));
        check("as://account/c/m/n", (Azure, None, "account", "c", "m/n"));
        let host = "https://account.blob.core.windows.net";
        check("as://account.blob.core.windows.net/c", (Azure, Some(host), "account", "c", ""));
    }

    #[test]
    fn the_error_of_an_invalid_store_address_lists_the_forms_and_does_not_repeat_it() {
        let wrong = [
            "s3://",
            "s3:///b",
            "s3://host:1",
            "s3://b/../x",
            "s3://b//x",
            "gs://https://b",
            "as://account",
            "ftp://b/x",
            "s3://key:secret@host/b",
            "s3://ftp://b",
        ];
        for text in wrong {
            let expected = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(
                expected.contains("s3://bucket/path") && !expected.contains("secret"),
                "{text}"
            );
        }
        assert!(StoreUrl::is_one("s3://") && StoreUrl::is_one("ftp://x"));
        assert!(!StoreUrl::is_one("./models") && !StoreUrl::is_one("/a://b"));
    }

    #[test]
    fn the_address_of_an_object_has_the_endpoint_of_its_repository() {
        let url = StoreUrl::parse("s3://https://host:9/b/m").unwrap();
        assert_eq!(url.of("m/x/1/model.onnx"), "s3://https://host:9/b/m/x/1/model.onnx");
        let url = StoreUrl::parse("gs://b").unwrap();
        assert_eq!(url.of("x"), "gs://b/x");
    }

    #[test]
    fn debug_texts_have_names_of_variables_and_no_values() {
        let pairs = [("AWS_SECRET_ACCESS_KEY".to_owned(), "hunter2".to_owned())];
        let settings =
            StoreSettings { variables: Variables(pairs.into()), ..StoreSettings::default() };
        let text = format!("{settings:?}");
        assert!(text.contains("AWS_SECRET_ACCESS_KEY") && !text.contains("hunter2"), "{text}");
    }
}

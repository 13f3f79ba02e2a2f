//! From an address, settings and credentials to a store that can be asked.

use std::{fs, path::Path, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig, aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder,
};

use crate::{
    credentials::{Credentials, credentials},
    error::{Refusal, StoreError},
    store_settings::{Provider, StoreSettings, StoreUrl},
    words::{hint, redacted},
};

/// How often the library repeats a request that did not get through, and how long a connection may take. An
/// address that does not answer is reported after some 20 seconds.
const RETRIES: usize = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// A store, and what errors say of it.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) url: StoreUrl,
    pub(super) endpoint: String,
    pub(super) credentials: String,
    secrets: Vec<String>,
}

impl Access {
    /// What went wrong with the object or directory at `path` in the bucket.
    pub(super) fn error(
        &self,
        doing: &'static str,
        path: &str,
        error: &dyn std::error::Error,
    ) -> StoreError {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        StoreError::Access(Box::new(Refusal {
            doing,
            object: self.url.of(path),
            reason: redacted(&message, &self.secrets),
            endpoint: self.endpoint.clone(),
            credentials: self.credentials.clone(),
            hint: hint(&message),
        }))
    }
}

/// Makes the store; nothing is asked yet.
pub(super) fn connect(url: &StoreUrl, settings: &StoreSettings) -> Result<Access, StoreError> {
    let read = |path: &Path| fs::read_to_string(path);
    let found = credentials(url, settings, &read)
        .map_err(|it| StoreError::settings(url, it.to_string()))?;
    let secrets = found.secrets();
    let endpoint = endpoint(url, &found);
    let store = match url.provider {
        Provider::S3 => s3(url, &found, &endpoint),
        Provider::Gcs => gcs(url, &found, &endpoint),
        Provider::Azure => azure(url, &found, &endpoint),
    };
    let store = store.map_err(|error| {
        let message = redacted(&error.to_string(), &secrets);
        StoreError::settings(url, format!("{message}; credentials: {}", found.source))
    })?;
    Ok(Access { store, url: url.clone(), endpoint, credentials: found.source, secrets })
}

/// Who is asked: by the address, else by a variable, else the provider's own.
fn endpoint(url: &StoreUrl, found: &Credentials) -> String {
    let option = |keys: &[&str]| keys.iter().find_map(|it| found.options.get(*it)).cloned();
    let given = url.endpoint.clone();
    match url.provider {
        Provider::S3 => {
            let names = ["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"];
            let region = option(&["aws_region", "aws_default_region"]);
            given.or_else(|| option(&names)).unwrap_or_else(|| {
                format!("https://s3.{}.amazonaws.com", region.as_deref().unwrap_or("us-east-1"))
            })
        }
        Provider::Gcs => option(&["google_base_url"])
            .unwrap_or_else(|| "https://storage.googleapis.com".to_owned()),
        Provider::Azure => given
            .or_else(|| option(&["azure_storage_endpoint", "azure_endpoint"]))
            .unwrap_or_else(|| format!("https://{}.blob.core.windows.net", url.account)),
    }
}

fn client(endpoint: &str) -> ClientOptions {
    ClientOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        // A large object takes its time. That it goes on is watched where it is read.
        .with_timeout_disabled()
        .with_allow_http(endpoint.starts_with("http://"))
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(3),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT }
}

type Made = Result<Arc<dyn ObjectStore>, object_store::Error>;

fn s3(url: &StoreUrl, found: &Credentials, endpoint: &str) -> Made {
    let is_aws = endpoint.ends_with(".amazonaws.com");
    let known = found.options.iter().filter_map(|(key, value)| Some((key.parse().ok()?, value)));
    let mut builder =
        known.fold(AmazonS3Builder::new(), |it, (key, value)| it.with_config(key, value));
    if !is_aws {
        // Also where a variable names another: the address goes first.
        builder = builder.with_endpoint(endpoint);
        builder = builder.with_config(object_store::aws::AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    let builder = builder.with_bucket_name(&url.bucket).with_client_options(client(endpoint));
    Ok(Arc::new(builder.with_retry(retry()).build()?))
}

fn gcs(url: &StoreUrl, found: &Credentials, endpoint: &str) -> Made {
    let known = found.options.iter().filter_map(|(key, value)| Some((key.parse().ok()?, value)));
    let builder =
        known.fold(GoogleCloudStorageBuilder::new(), |it, (key, value)| it.with_config(key, value));
    let builder = builder.with_bucket_name(&url.bucket).with_client_options(client(endpoint));
    Ok(Arc::new(builder.with_retry(retry()).build()?))
}

fn azure(url: &StoreUrl, found: &Credentials, endpoint: &str) -> Made {
    let known = found.options.iter().filter_map(|(key, value)| Some((key.parse().ok()?, value)));
    let builder =
        known.fold(MicrosoftAzureBuilder::new(), |it, (key, value)| it.with_config(key, value));
    let builder = builder
        .with_container_name(&url.bucket)
        .with_endpoint(endpoint.to_owned())
        .with_client_options(client(endpoint));
    Ok(Arc::new(builder.with_retry(retry()).build()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_settings::Variables;

    fn access(url: &str, variables: &[(&str, &str)]) -> Result<Access, StoreError> {
        let pairs = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let settings = StoreSettings {
            variables: Variables(pairs.collect()),
            anonymous: variables.is_empty(),
            ..StoreSettings::default()
        };
        connect(&StoreUrl::parse(url).unwrap(), &settings)
    }

    #[test]
    fn every_provider_has_its_endpoint_and_may_be_given_another() {
        let endpoint =
            |url: &str, variables: &[(&str, &str)]| access(url, variables).unwrap().endpoint;
        assert_eq!(endpoint("s3://b", &[]), "https://s3.us-east-1.amazonaws.com");
        let region = ("AWS_DEFAULT_REGION", "eu-west-1");
        assert_eq!(endpoint("s3://b", &[region]), "https://s3.eu-west-1.amazonaws.com");
        let other = ("AWS_ENDPOINT_URL", "http://minio:9000");
        assert_eq!(endpoint("s3://b", &[other]), "http://minio:9000");
        assert_eq!(endpoint("s3://here:1/b", &[other]), "http://here:1");
        assert_eq!(endpoint("gs://b", &[]), "https://storage.googleapis.com");
        let emulator = ("STORAGE_EMULATOR_HOST", "fake:4443");
        assert_eq!(endpoint("gs://b", &[emulator]), "http://fake:4443");
        assert_eq!(endpoint("as://a/c", &[]), "https://a.blob.core.windows.net");
        let azurite = ("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:10000/a");
        assert_eq!(endpoint("as://a/c", &[azurite]), "http://127.0.0.1:10000/a");
    }

    #[test]
    fn an_error_names_object_endpoint_and_source_and_no_secret() {
        let keys = [("AWS_ACCESS_KEY_ID", "id-of-key"), ("AWS_SECRET_ACCESS_KEY", "hunter2")];
        let access = access("s3://h:1/b/m", &keys).unwrap();
        let error =
            access.error("read", "m/x", &std::io::Error::other("403 Forbidden: hunter2 id-of-key"));
        let text = error.to_string();
        for part in ["read s3://h:1/b/m/x", "http://h:1", "AWS_ACCESS_KEY_ID", "s3:GetObject"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("hunter2") && !text.contains("id-of-key"), "{text}");
    }

    #[test]
    fn the_error_of_an_invalid_key_does_not_repeat_it() {
        let error = access("as://a/c", &[("AZURE_STORAGE_KEY", "not base64!")]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("as://a/c") && text.contains("account's key"), "{text}");
        assert!(!text.contains("not base64!"), "{text}");
    }
}

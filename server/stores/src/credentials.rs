//! What requests to a store are signed with: Triton's file of credentials, the variables of each provider,
//! Amazon's profiles, and what the machine itself has.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    profile::{other_way, profile},
    store_settings::{Provider, StoreSettings, StoreUrl, Variables},
};

/// Triton's file of credentials by address.
const CREDENTIAL_FILE: &str = "TRITON_CLOUD_CREDENTIAL_PATH";

/// What is wrong with the file of credentials or the variables, by name; no values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct CredentialsError(String);

/// Options of a store, and where its credentials come from.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Credentials {
    /// By the names of `object_store`, as `aws_access_key_id`. Names that it does not know are without effect.
    pub(super) options: BTreeMap<String, String>,
    /// For errors and the log.
    pub(super) source: String,
}

impl Credentials {
    /// Values that are not to be shown.
    pub(super) fn secrets(&self) -> Vec<String> {
        let is_secret = |key: &str| {
            ["key", "token", "secret", "sas"].iter().any(|it| key.contains(it))
                && !key.ends_with("_file")
        };
        let secrets = self.options.iter().filter(|(key, _)| is_secret(key));
        secrets.map(|(_, value)| value.clone()).collect()
    }

    fn set(&mut self, key: &str, value: &str) {
        self.options.insert(key.to_owned(), value.to_owned());
    }

    fn without(&mut self, keys: &[&str]) {
        keys.iter().for_each(|it| drop(self.options.remove(*it)));
    }
}

/// Finds them. `read` reads a file.
///
/// # Errors
/// What is wrong with the file or the variables, by name; no values.
pub(super) fn credentials(
    url: &StoreUrl,
    settings: &StoreSettings,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Credentials, CredentialsError> {
    let variables = &settings.variables;
    let entry = match variables.get(CREDENTIAL_FILE) {
        Some(path) => entry(url, path, read)?,
        None => None,
    };
    let mut found = match url.provider {
        Provider::S3 => s3(variables, entry, read, settings.anonymous)?,
        Provider::Gcs => gcs(variables, entry),
        Provider::Azure => azure(url, variables, entry)?,
    };
    if settings.anonymous {
        for prefix in ["aws", "google", "azure"] {
            found.set(&format!("{prefix}_skip_signature"), "true");
        }
        found.source = "none (--store-anonymous: requests are not signed)".to_owned();
    }
    Ok(found)
}

/// What Triton's file says of one prefix of addresses.
struct CredentialsEntry {
    fields: BTreeMap<String, String>,
    source: String,
}

impl CredentialsEntry {
    fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(|it| &**it).filter(|it| !it.is_empty())
    }
}

/// The entry with the longest prefix of the address; `None` where there is none.
fn entry(
    url: &StoreUrl,
    path: &str,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Option<CredentialsEntry>, CredentialsError> {
    let problem = |it: &str| CredentialsError(format!("{CREDENTIAL_FILE}='{path}': {it}"));
    let text = read(Path::new(path)).map_err(|it| problem(&format!("cannot read {path}: {it}")))?;
    // The parser's own words could repeat a part of the file.
    let file: Value = serde_json::from_str(&text).map_err(|it| {
        problem(&format!("expected JSON, at line {} column {} it is none", it.line(), it.column()))
    })?;
    let (section, fields): (_, &[&str]) = match url.provider {
        Provider::S3 => ("s3", &["secret_key", "key_id", "region", "session_token", "profile"]),
        Provider::Gcs => ("gs", &[]),
        Provider::Azure => ("as", &["account_str", "account_key", "auth_type", "client_id"]),
    };
    let Some(given) = file.get(section) else { return Ok(None) };
    let expected = || problem(&format!("\"{section}\": expected an object of entries by prefix"));
    let entries = given.as_object().ok_or_else(expected)?;
    let fitting = entries.iter().filter(|(prefix, _)| url.text.starts_with(prefix.as_str()));
    let Some((prefix, given)) = fitting.max_by_key(|(prefix, _)| prefix.len()) else {
        return Ok(None);
    };
    let place = format!("\"{section}\", entry \"{prefix}\"");
    let fields: BTreeMap<String, String> = match given {
        Value::String(file) if fields.is_empty() => {
            [("file".to_owned(), file.clone())].into_iter().collect()
        }
        Value::Object(given) if !fields.is_empty() => {
            let read = given.iter().map(|(key, value)| match value.as_str() {
                Some(value) if fields.contains(&key.as_str()) => {
                    Ok((key.clone(), value.to_owned()))
                }
                _ => Err(problem(&format!(
                    "{place}: '{key}' is not known or not text; expected texts for {}",
                    fields.join(", ")
                ))),
            });
            read.collect::<Result<_, _>>()?
        }
        _ if fields.is_empty() => {
            return Err(problem(&format!("{place}: expected the path of a file of credentials")));
        }
        _ => {
            return Err(problem(&format!(
                "{place}: expected an object with {}",
                fields.join(", ")
            )));
        }
    };
    Ok(Some(CredentialsEntry { fields, source: format!("{CREDENTIAL_FILE} '{path}', {place}") }))
}

/// The variables that begin so, by names in small letters.
fn options(variables: &Variables, begin: &str) -> BTreeMap<String, String> {
    let given = variables.0.keys().filter(|it| it.starts_with(begin));
    let given =
        given.filter_map(|it| Some((it.to_ascii_lowercase(), variables.get(it)?.to_owned())));
    given.collect()
}

const S3_KEYS: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

fn s3(
    variables: &Variables,
    entry: Option<CredentialsEntry>,
    read: &dyn Fn(&Path) -> io::Result<String>,
    anonymous: bool,
) -> Result<Credentials, CredentialsError> {
    let mut found = Credentials { options: options(variables, "AWS_"), source: String::new() };
    if anonymous {
        found.without(&S3_KEYS);
        return Ok(found);
    }
    let mut named = variables.get("AWS_PROFILE").map(str::to_owned);
    if let Some(entry) = &entry {
        if let Some(region) = entry.get("region") {
            found.without(&["aws_region"]);
            found.set("aws_default_region", region);
        }
        let keys = [entry.get("key_id"), entry.get("secret_key"), entry.get("session_token")];
        if keys[0].is_some() || keys[1].is_some() {
            found.without(&S3_KEYS);
            for (name, value) in S3_KEYS.iter().zip(keys) {
                value.into_iter().for_each(|it| found.set(name, it));
            }
        }
        if let Some(name) = entry.get("profile") {
            found.without(&S3_KEYS);
            named = Some(name.to_owned());
        }
    }
    match [S3_KEYS[0], S3_KEYS[1]].map(|it| found.options.contains_key(it)) {
        [true, true] => {
            let of_entry = entry.filter(|it| it.get("key_id").is_some());
            found.source =
                of_entry.map_or("AWS_ACCESS_KEY_ID (environment)".to_owned(), |it| it.source);
            return Ok(found);
        }
        [false, false] => {}
        _ => {
            let place = entry.map_or("the environment".to_owned(), |it| it.source);
            return Err(CredentialsError(format!(
                "credentials in {place}: expected both an access key id and a secret access key (AWS_ACCESS_KEY_ID \
                 and AWS_SECRET_ACCESS_KEY), one of them is missing"
            )));
        }
    }
    if let Some(found) = with_profile(&mut found, variables, named.as_deref(), read)? {
        return Ok(found);
    }
    let has = |name: &str| found.options.contains_key(name);
    let source = if has("aws_web_identity_token_file") && has("aws_role_arn") {
        "the role of AWS_ROLE_ARN, by AWS_WEB_IDENTITY_TOKEN_FILE"
    } else if has("aws_container_credentials_relative_uri") {
        "the container's role, by AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
    } else if has("aws_container_credentials_full_uri") {
        "the pod's role, by AWS_CONTAINER_CREDENTIALS_FULL_URI"
    } else {
        "the machine's role, by its metadata service, as there are none in the environment or a profile"
    };
    found.source = source.to_owned();
    Ok(found)
}

/// What the profile of that name, or the default one, adds; `None` where there is no default one.
fn with_profile(
    found: &mut Credentials,
    variables: &Variables,
    named: Option<&str>,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Option<Credentials>, CredentialsError> {
    let path = |variable: &str, name: &str| {
        let home = Path::new(variables.get("HOME").unwrap_or("/")).join(".aws");
        variables.get(variable).map_or_else(|| home.join(name), PathBuf::from)
    };
    let paths =
        [path("AWS_SHARED_CREDENTIALS_FILE", "credentials"), path("AWS_CONFIG_FILE", "config")];
    // That a file is not there is said where the profile is missed.
    let [credentials, config] = paths.clone().map(|it| read(&it).unwrap_or_default());
    let name = named.unwrap_or("default");
    let files = paths.map(|it| it.display().to_string()).join(" and ");
    let Some(profile) = profile(name, &credentials, &config) else {
        return match named {
            Some(_) => Err(CredentialsError(format!("the profile '{name}' is in none of {files}"))),
            None => Ok(None),
        };
    };
    for (key, value) in &profile {
        let option = match key.as_str() {
            "region" => "aws_default_region".to_owned(),
            key if key.starts_with("aws_") => key.to_owned(),
            key => format!("aws_{key}"),
        };
        // A region or endpoint in the environment goes before the profile's.
        found.options.entry(option).or_insert_with(|| value.clone());
    }
    let has = |name: &str| found.options.contains_key(name);
    let complete = (has(S3_KEYS[0]) && has(S3_KEYS[1]))
        || (has("aws_web_identity_token_file") && has("aws_role_arn"));
    match (complete, named) {
        (true, _) => {
            found.source = format!("the profile '{name}' of {files}");
            Ok(Some(std::mem::take(found)))
        }
        (false, None) => Ok(None),
        (false, Some(_)) => Err(CredentialsError(format!(
            "the profile '{name}' of {files} has no aws_access_key_id and aws_secret_access_key{}",
            other_way(&profile)
                .map_or(String::new(), |it| format!(", and its '{it}' is not supported"))
        ))),
    }
}

fn gcs(variables: &Variables, entry: Option<CredentialsEntry>) -> Credentials {
    let mut found = Credentials { options: options(variables, "GOOGLE_"), source: String::new() };
    if let Some(host) = variables.get("STORAGE_EMULATOR_HOST") {
        let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
        found.set("google_base_url", url.trim_end_matches('/'));
        found.set("google_skip_signature", "true");
        found.source = "none (STORAGE_EMULATOR_HOST)".to_owned();
    } else if let Some((entry, file)) = entry.as_ref().and_then(|it| Some((it, it.get("file")?))) {
        found.set("google_application_credentials", file);
        found.source.clone_from(&entry.source);
    } else if let Some(file) = found.options.get("google_application_credentials") {
        found.source = format!("GOOGLE_APPLICATION_CREDENTIALS '{file}' (environment)");
    } else {
        found.source = "gcloud's default, else the machine's service account, as GOOGLE_APPLICATION_CREDENTIALS is \
                        not set"
            .to_owned();
    }
    found
}

fn azure(
    url: &StoreUrl,
    variables: &Variables,
    entry: Option<CredentialsEntry>,
) -> Result<Credentials, CredentialsError> {
    let mut found = Credentials { options: options(variables, "AZURE_"), source: String::new() };
    let pick = |field: &str, variable: &str| match &entry {
        Some(entry) => entry.get(field).map(str::to_owned),
        None => variables.get(variable).map(str::to_owned),
    };
    let place = entry.as_ref().map_or("the environment", |it| &it.source);
    // The address says whose container it is; what the account is called elsewhere names the key's owner.
    found.set("azure_storage_account_name", &url.account);
    let key = pick("account_key", "AZURE_STORAGE_KEY");
    let kind = pick("auth_type", "AZURE_STORAGE_AUTH_TYPE");
    if let Some(id) = pick("client_id", "AZURE_STORAGE_CLIENT_ID") {
        found.set("azure_storage_client_id", &id);
    }
    const KEY: &str = "azure_storage_account_key";
    found.without(&["azure_storage_key", KEY]);
    found.source = match (kind.as_deref(), key) {
        (Some("managed_identity"), _) => {
            found.without(&["azure_client_secret", "azure_federated_token_file"]);
            format!("the machine's managed identity, by auth_type in {place}")
        }
        (Some("default"), _) => format!(
            "AZURE_CLIENT_ID and the like, else the machine's managed identity, by auth_type in {place}"
        ),
        (Some(other), _) => {
            return Err(CredentialsError(format!(
                "the authentication type in {place} (AZURE_STORAGE_AUTH_TYPE, auth_type) is '{other}'; expected \
                 managed_identity or default, or none with a key"
            )));
        }
        (None, Some(key)) => {
            found.set(KEY, &key);
            format!("the account's key in {place}")
        }
        (None, None) => "AZURE_CLIENT_ID and the like, else the machine's managed identity, as AZURE_STORAGE_KEY is \
                         not set"
            .to_owned(),
    };
    Ok(found)
}

#[cfg(test)]
mod tests;

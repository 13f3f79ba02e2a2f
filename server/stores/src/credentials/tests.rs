//! Tables: variables and files, and what requests are signed with.

use super::*;

const FILE: &str = r#"{
    "gs": {"": "/default.json", "gs://b/deep": "/deep.json"},
    "s3": {"": {"secret_key": "s0", "key_id": "k0", "region": "r0", "session_token": "", "profile": ""},
           "s3://b": {"secret_key": "s1", "key_id": "k1"},
           "s3://b/deep": {"profile": "ml"}},
    "as": {"as://a/c": {"account_str": "a", "account_key": "a2V5"},
           "as://m": {"account_str": "m", "auth_type": "managed_identity", "client_id": "id"}}
}"#;

fn read(path: &Path) -> io::Result<String> {
    match path.to_str() {
        Some("/cred.json") => Ok(FILE.to_owned()),
        Some("/bad.json") => Ok("{\"s3\": {\"\": {\"key_idd\": \"hunter2\"}}}".to_owned()),
        Some("/none.json") => Ok("hunter2".to_owned()),
        Some("/home/.aws/credentials") => {
            Ok("[ml]\naws_access_key_id=pk\naws_secret_access_key=ps\n".to_owned())
        }
        Some("/home/.aws/config") => {
            Ok("[profile ml]\nregion=pr\n[profile sso]\nsso_start_url=x\n".to_owned())
        }
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
    }
}

fn find(url: &str, variables: &[(&str, &str)]) -> Result<Credentials, CredentialsError> {
    let home = [("HOME", "/home")];
    let pairs =
        variables.iter().chain(&home).map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let settings =
        StoreSettings { variables: Variables(pairs.collect()), ..StoreSettings::default() };
    credentials(&StoreUrl::parse(url).unwrap(), &settings, &read)
}

/// The given options, and a part of the source.
#[track_caller]
fn check(url: &str, variables: &[(&str, &str)], expect: &[(&str, &str)], source: &str) {
    let found = find(url, variables).unwrap();
    for (key, value) in expect {
        let given = found.options.get(*key).map(|it| &**it);
        assert_eq!(given.unwrap_or_default(), *value, "{key} of {:?}", found.source);
    }
    assert!(found.source.contains(source), "{}", found.source);
}

const TRITON: (&str, &str) = ("TRITON_CLOUD_CREDENTIAL_PATH", "/cred.json");

#[test]
fn the_longest_prefix_of_the_file_wins_and_the_empty_one_is_the_default() {
    let id = "aws_access_key_id";
    check("s3://other/x", &[TRITON], &[(id, "k0"), ("aws_default_region", "r0")], "entry \"\"");
    check(
        "s3://b/x",
        &[TRITON],
        &[(id, "k1"), ("aws_secret_access_key", "s1")],
        "entry \"s3://b\"",
    );
    check("s3://b/deep/x", &[TRITON], &[(id, "pk"), ("aws_default_region", "pr")], "profile 'ml'");
    check("gs://b/deep/x", &[TRITON], &[("google_application_credentials", "/deep.json")], "deep");
    check("gs://b/x", &[TRITON], &[("google_application_credentials", "/default.json")], "\"\"");
    check("as://a/c/x", &[TRITON], &[("azure_storage_account_key", "a2V5")], "key in TRITON_CLOUD");
    check("as://m/c", &[TRITON], &[("azure_storage_client_id", "id")], "managed identity");
}

#[test]
fn what_the_file_says_goes_before_variables_and_without_an_entry_they_count() {
    let keys = [("AWS_ACCESS_KEY_ID", "env"), ("AWS_SECRET_ACCESS_KEY", "env"), TRITON];
    check("s3://b/x", &keys, &[("aws_access_key_id", "k1")], "TRITON_CLOUD_CREDENTIAL_PATH");
    let key = [("AZURE_STORAGE_KEY", "ZW52"), TRITON];
    check("as://x/c", &key, &[("azure_storage_account_key", "ZW52")], "environment");
}

#[test]
fn of_amazons_ways_the_first_that_is_there_counts() {
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_PROFILE", "ml")];
    check("s3://b", &keys, &[("aws_access_key_id", "k")], "AWS_ACCESS_KEY_ID");
    check("s3://b", &[("AWS_PROFILE", "ml")], &[("aws_secret_access_key", "ps")], "profile 'ml'");
    let role = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "arn")];
    check("s3://b", &role, &[], "AWS_WEB_IDENTITY_TOKEN_FILE");
    check("s3://b", &[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")], &[], "container's role");
    check("s3://b", &[], &[], "metadata service");
}

#[test]
fn the_other_providers_have_ways_of_their_own() {
    let file = [("GOOGLE_APPLICATION_CREDENTIALS", "/g.json")];
    check("gs://b", &file, &[("google_application_credentials", "/g.json")], "/g.json");
    check("gs://b", &[], &[], "machine's service account");
    let emulator = [("STORAGE_EMULATOR_HOST", "h:1")];
    check("gs://b", &emulator, &[("google_base_url", "http://h:1")], "STORAGE_EMULATOR_HOST");
    let name = ("azure_storage_account_name", "a");
    check("as://a/c", &[("AZURE_STORAGE_KEY", "a2V5")], &[name], "account's key");
    let kind = [("AZURE_STORAGE_AUTH_TYPE", "managed_identity"), ("AZURE_STORAGE_KEY", "a2V5")];
    check("as://a/c", &kind, &[("azure_storage_account_key", "")], "managed identity");
}

#[test]
fn what_is_wrong_is_named_and_no_value_is_repeated() {
    type Pairs<'a> = &'a [(&'a str, &'a str)];
    let wrong: [(&str, Pairs<'_>, &str); 6] = [
        ("s3://b", &[("TRITON_CLOUD_CREDENTIAL_PATH", "/bad.json")], "key_idd"),
        ("s3://b", &[("TRITON_CLOUD_CREDENTIAL_PATH", "/none.json")], "expected JSON"),
        ("s3://b", &[("TRITON_CLOUD_CREDENTIAL_PATH", "/x.json")], "no such file"),
        ("s3://b", &[("AWS_PROFILE", "other")], "'other' is in none of /home/.aws/credentials"),
        ("s3://b", &[("AWS_PROFILE", "sso")], "'sso_start_url' is not supported"),
        ("s3://b", &[("AWS_SECRET_ACCESS_KEY", "hunter2")], "one of them is missing"),
    ];
    for (url, variables, part) in wrong {
        let error = find(url, variables).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
    }
    let kind = [("AZURE_STORAGE_AUTH_TYPE", "cert")];
    assert!(
        find("as://a/c", &kind)
            .unwrap_err()
            .to_string()
            .contains("expected managed_identity or default")
    );
}

#[test]
fn without_signatures_nothing_is_looked_for() {
    let settings = StoreSettings { anonymous: true, ..StoreSettings::default() };
    let found = credentials(&StoreUrl::parse("s3://b").unwrap(), &settings, &read).unwrap();
    assert_eq!(found.options["aws_skip_signature"], "true");
    assert!(found.source.contains("--store-anonymous"));
}

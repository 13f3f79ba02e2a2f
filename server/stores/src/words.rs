//! What a store, the network or the disk has said, as an operator is told it: in one line, without secrets, and with
//! what to do about it.

use std::{fmt::Display, path::Path};

use crate::error::StoreError;

impl StoreError {
    pub(super) fn cache(doing: &'static str, path: &Path, reason: impl Display) -> StoreError {
        let path = path.display().to_string();
        StoreError::Cache { doing, path, reason: reason.to_string() }
    }
}

/// What stands in for a secret.
const HIDDEN: &str = "***";

/// A text of the store's or the network's, in one line of bearable length, with every secret hidden.
pub(super) fn redacted(text: &str, secrets: &[String]) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // What is very short would be found everywhere, and guards nothing.
    for secret in secrets.iter().filter(|it| 4 <= it.len()) {
        text = text.replace(&**secret, HIDDEN);
    }
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

/// What to do about it, by what was said; empty where that is not known.
pub(super) fn hint(said: &str) -> &'static str {
    /// Of several signs the first counts: a refusal may name the place that it came from.
    const SIGNS: [(&[&str], &str); 8] = [
        (
            &["169.254.169.254", "169.254.170.2", "metadata.google.internal"],
            "; no credentials were found but those of the machine, which has none: set them in the environment, \
             or --store-anonymous where anyone may read",
        ),
        (
            &["NoSuchBucket", "ContainerNotFound", "bucket does not exist"],
            "; see that the name of the bucket is right, and the region or endpoint",
        ),
        (
            &[
                "InvalidAccessKeyId",
                "SignatureDoesNotMatch",
                "AuthenticationFailed",
                "AuthorizationFailure",
                "401 Unauthorized",
            ],
            "; the store does not know these credentials: see that they are those of this store",
        ),
        (&["ExpiredToken", "TokenRefreshRequired"], "; the credentials have expired: renew them"),
        (
            &["AccessDenied", "403 Forbidden", "privileges"],
            "; these credentials must be allowed to list the bucket and to read its objects (on S3: \
             s3:ListBucket and s3:GetObject)",
        ),
        (
            &["PermanentRedirect", "AuthorizationHeaderMalformed", "redirect without LOCATION"],
            "; set AWS_DEFAULT_REGION to the bucket's region",
        ),
        (
            &["certificate", "UnknownIssuer"],
            "; for a certificate of your own, name its authority's file in SSL_CERT_FILE",
        ),
        (
            &["error sending request", "connect", "dns", "timed out", "no answer"],
            "; see that the endpoint is right and can be reached from here (HTTPS_PROXY, NO_PROXY, firewall)",
        ),
    ];
    let sign = SIGNS.iter().find(|(words, _)| words.iter().any(|it| said.contains(it)));
    sign.map_or("", |(_, hint)| hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_long_texts_are_cut() {
        let secrets = ["hunter2".to_owned(), "a".to_owned()];
        assert_eq!(redacted("said\n  hunter2 again", &secrets), "said *** again");
        assert!(redacted(&"x".repeat(5000), &[]).len() < 700);
    }

    #[test]
    fn a_hint_goes_with_what_was_said() {
        assert!(hint("<Code>NoSuchBucket</Code> 404").contains("name of the bucket"));
        assert!(
            hint("Error performing PUT http://169.254.169.254/latest").contains("--store-anon")
        );
        assert!(hint("403 <Code>InvalidAccessKeyId</Code>").contains("does not know"));
        assert!(hint("403 <Code>AccessDenied</Code>").contains("s3:ListBucket"));
        assert!(hint("status code: 401 Unauthorized: ").contains("does not know"));
        assert!(hint("status code: 403 Forbidden: ").contains("s3:ListBucket"));
        assert_eq!(hint("something else"), "");
    }

    #[test]
    fn digits_of_a_duration_are_no_status() {
        let said = "Error performing GET in 687.269401ms: error sending request";
        assert!(hint(said).contains("can be reached"), "{}", hint(said));
        assert!(hint("error sending request to 10.0.0.1:44036").contains("can be reached"));
    }
}

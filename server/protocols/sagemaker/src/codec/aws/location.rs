//! Where an object lies in S3: a bucket and a key that can also be a path below a directory. Pure.

use std::fmt;

/// What an address of an object looks like.
const FORMS: &str = "s3://<bucket>/<key>, or the https address of an object in S3, as \
                     https://<bucket>.s3.<region>.amazonaws.com/<key>";

/// A text that is no address of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {FORMS}, given '{given}'")]
pub struct NoLocation {
    given: String,
}

/// An object in S3. Neither the bucket nor any part of the key between slashes is empty, `.` or `..`, or has control
/// characters: joined to a directory they never lead out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    bucket: String,
    key: String,
}

impl Location {
    /// The object of that key in a bucket; `None` where one of them is not as the type says.
    pub fn new(bucket: &str, key: &str) -> Option<Location> {
        let clean = |it: &str| {
            !["", ".", ".."].contains(&it) && !it.chars().any(|it| it.is_control() || it == '\\')
        };
        let is_name = |it: char| it.is_ascii_alphanumeric() || ".-_".contains(it);
        let good = clean(bucket) && bucket.chars().all(is_name) && key.split('/').all(clean);
        good.then(|| Location { bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// Reads an address.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Location, NoLocation> {
        let found = match text.split_once("://") {
            Some(("s3", rest)) => {
                rest.split_once('/').and_then(|(bucket, key)| Location::new(bucket, key))
            }
            Some(("https", rest)) => of_s3(rest),
            _ => None,
        };
        found.ok_or_else(|| NoLocation { given: text.to_owned() })
    }

    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The key; its parts are separated by slashes.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Does it lie in that bucket, below that path? Below the empty path lies all of a bucket.
    pub fn is_below(&self, bucket: &str, path: &str) -> bool {
        let rest = self.key.strip_prefix(path).filter(|_| self.bucket == bucket);
        rest.is_some_and(|it| path.is_empty() || it.starts_with('/'))
    }

    /// An object beside this one whose name has that at its end.
    pub fn with_suffix(&self, suffix: &str) -> Location {
        Location { bucket: self.bucket.clone(), key: format!("{}{suffix}", self.key) }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// `<bucket>.s3.<region>.amazonaws.com/<key>` or `s3.<region>.amazonaws.com/<bucket>/<key>`, percent-encoded; no other
/// host is one of S3.
fn of_s3(rest: &str) -> Option<Location> {
    let (host, path) = rest.split_once('/')?;
    // What is behind a question mark would be a signature: it is not this server's to use.
    if path.contains(['?', '#']) {
        return None;
    }
    let service = host.strip_suffix(".amazonaws.com")?;
    let is_s3 = |it: &str| match it.strip_prefix("s3") {
        Some("") => true,
        Some(it) => it.strip_prefix(['.', '-']).is_some_and(|region| !region.contains('.')),
        None => false,
    };
    let path = decoded(path)?;
    if is_s3(service) {
        let (bucket, key) = path.split_once('/')?;
        return Location::new(bucket, key);
    }
    // A bucket's name may have dots, a region has none; and `s3` stands before the region, if there is one.
    let at = service.rfind(".s3").filter(|&at| is_s3(&service[at + 1..]))?;
    Location::new(&service[..at], &path)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|it| char::from(it).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        decoded.push((high * 16 + low) as u8);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, bucket: &str, key: &str) {
        let location = Location::parse(text).unwrap();
        assert_eq!((location.bucket(), location.key()), (bucket, key));
    }

    #[test]
    fn an_object_has_several_addresses() {
        check("s3://b/k", "b", "k");
        check("s3://my.b-1/a b/c%20d", "my.b-1", "a b/c%20d");
        check("https://b.s3.amazonaws.com/k", "b", "k");
        check("https://b.s3.eu-west-1.amazonaws.com/a/c%20d", "b", "a/c d");
        check("https://my.b.s3-eu-west-1.amazonaws.com/k", "my.b", "k");
        check("https://s3.eu-west-1.amazonaws.com/b/a/k", "b", "a/k");
        check("https://s3-eu-west-1.amazonaws.com/b/k", "b", "k");
        assert_eq!(Location::parse("s3://b/a/k").unwrap().to_string(), "s3://b/a/k");
    }

    #[test]
    fn what_lies_below_a_path_is_in_its_bucket_and_directory() {
        let location = Location::new("b", "in/a/k").unwrap();
        for path in ["", "in", "in/a"] {
            assert!(location.is_below("b", path), "{path}");
        }
        for (bucket, path) in [("c", ""), ("b", "i"), ("b", "in/a/k"), ("b", "other")] {
            assert!(!location.is_below(bucket, path), "{bucket}/{path}");
        }
    }

    #[test]
    fn no_address_leads_out_of_a_directory_or_to_another_host() {
        let wrong = [
            "",
            "s3://b",
            "s3://b/",
            "s3:///k",
            "s3://../k",
            "s3://b/../k",
            "s3://b/a/../../k",
            "s3://b//k",
            "s3://b/k/",
            "s3://b/./k",
            "s3://b/a\\..\\k",
            "s3://b/a\nk",
            "s3://b/a\0",
            "s3://b c/k",
            "/etc/passwd",
            "file:///etc/passwd",
            "http://b.s3.amazonaws.com/k",
            "http://169.254.169.254/latest/meta-data",
            "https://169.254.169.254/latest/meta-data",
            "https://localhost/s3.amazonaws.com/k",
            "https://b.s3.amazonaws.com.evil.org/k",
            "https://evil.org/b.s3.amazonaws.com/k",
            "https://user@b.s3.amazonaws.com/k",
            "https://b.s3.amazonaws.com:8080/k",
            "https://s3evil.amazonaws.com/b/k",
            "https://execute-api.eu-west-1.amazonaws.com/b/k",
            "https://b.s3.eu-west-1.amazonaws.com/%2e%2e/k",
            "https://b.s3.eu-west-1.amazonaws.com/..%2fk",
            "https://b.s3.eu-west-1.amazonaws.com/k?X-Amz-Signature=x",
            "https://b.s3.eu-west-1.amazonaws.com/%zz",
        ];
        for text in wrong {
            let expected = Location::parse(text).unwrap_err().to_string();
            assert!(expected.contains("s3://<bucket>/<key>"), "{text}");
        }
    }
}

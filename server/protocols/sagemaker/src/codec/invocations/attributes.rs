//! What clients of the TensorFlow Serving container say in `X-Amzn-SageMaker-Custom-Attributes`: model, version,
//! method. Anything else in that header is between them and others.

use formats::{number::Excerpt, tfs::Method};
use inference::error::Error;

/// The attributes of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// `tfs-model-name`.
    pub model: Option<String>,
    /// `tfs-model-version`.
    pub version: Option<u64>,
    /// `tfs-method`.
    pub method: Method,
}

impl Default for Attributes {
    fn default() -> Self {
        Attributes { model: None, version: None, method: Method::Predict }
    }
}

impl Attributes {
    /// The attributes in the value of the header. Of several with one name the last counts.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a name, a version or a method that cannot be one, which it names.
    pub fn read(header: &str) -> Result<Attributes, Error> {
        let mut attributes = Attributes::default();
        let pairs = header.split(',').filter_map(|it| it.trim_ascii().split_once('='));
        for (key, value) in pairs {
            match key {
                "tfs-model-name" => {
                    let expected = "letters, digits, '.', '_' and '-', the first a letter or digit";
                    let name = is_name(value).then(|| value.to_owned());
                    attributes.model = Some(name.ok_or_else(|| wrong(key, value, expected))?);
                }
                "tfs-model-version" => {
                    let digits = value.bytes().all(|it| it.is_ascii_digit());
                    let version = value.parse().ok().filter(|_| digits);
                    let version = version.ok_or_else(|| wrong(key, value, "a whole number"))?;
                    attributes.version = Some(version);
                }
                "tfs-method" => {
                    attributes.method = match value {
                        "predict" => Method::Predict,
                        "classify" => Method::Classify,
                        "regress" => Method::Regress,
                        _ => return Err(wrong(key, value, "predict, classify or regress")),
                    };
                }
                _ => {}
            }
        }
        Ok(attributes)
    }
}

fn wrong(key: &str, value: &str, expected: &str) -> Error {
    let value = Excerpt(value);
    Error::InvalidRequest(format!(
        "X-Amzn-SageMaker-Custom-Attributes: expected {expected} for {key}, given '{value}'"
    ))
}

/// At most 255 characters that need no quotes anywhere.
fn is_name(text: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
    let first = text.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric());
    first && text.len() <= 255 && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, model: Option<&str>, version: Option<u64>, method: Method) {
        let model = model.map(str::to_owned);
        assert_eq!(Attributes::read(header), Ok(Attributes { model, version, method }));
    }

    #[test]
    fn the_last_of_each_attribute_counts_and_others_are_not_looked_at() {
        check("", None, None, Method::Predict);
        check("trace=7,tfs-model-name=half", Some("half"), None, Method::Predict);
        check("tfs-model-version=007, tfs-method=regress", None, Some(7), Method::Regress);
        check(
            "tfs-method=classify,tfs-model-name=a,tfs-model-name=b.1",
            Some("b.1"),
            None,
            Method::Classify,
        );
        check("tfs-model-names=x/y,tfs-method,=,a==b", None, None, Method::Predict);
    }

    #[test]
    fn what_cannot_be_a_name_a_version_or_a_method_is_named() {
        let refused = |header: &str, part: &str| {
            let error = Attributes::read(header).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let long = format!("tfs-model-name={}", "x".repeat(256));
        for header in ["tfs-model-name=", "tfs-model-name=a/b", "tfs-model-name=.a", &long] {
            refused(header, "for tfs-model-name, given '");
        }
        refused("tfs-model-name=a=b", "given 'a=b'");
        for version in ["", "+1", "1.0", "x", "99999999999999999999"] {
            refused(&format!("tfs-model-version={version}"), "a whole number");
        }
        refused("tfs-method=train", "predict, classify or regress for tfs-method, given 'train'");
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_it_panic(text in ".*", value in "[0-9a-z.=, ]*") {
            let _ = Attributes::read(&text);
            let _ = Attributes::read(&format!("tfs-model-name={value},tfs-model-version={value}"));
        }
    }
}

//! Requests that need a header of a certain value, as Triton's `--http-restricted-api` has it. Pure.

use super::{Categories, Category, Secret, UnknownCategory};

/// What a restriction is written like.
const FORM: &str = "<category>[,<category>..]:<header>=<value>";

/// What was expected of a text that is no restriction. It does not hold the value, which is a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestrictionError {
    /// It has another form.
    #[error("{FORM}")]
    Form,
    /// One of its categories is none.
    #[error("{FORM}: {0}")]
    Category(#[from] UnknownCategory),
    /// No header has that name.
    #[error("{FORM}: '{0}' cannot be the name of a header")]
    Header(String),
    /// No header has such a value.
    #[error("{FORM}, with a value that is not empty and that a header can have")]
    Value,
}

/// `<category>[,<category>]:<key>=<value>`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restriction {
    /// Which requests.
    pub categories: Categories,
    /// The header that they need, in lower case.
    pub key: String,
    /// Its value.
    pub value: Secret,
}

impl Restriction {
    /// Reads a setting's text.
    ///
    /// # Errors
    /// What is expected. The text does not hold the value, which is a secret.
    pub fn parse(text: &str) -> Result<Restriction, RestrictionError> {
        let parts = text.split_once(':').and_then(|(names, rest)| {
            let (key, value) = rest.split_once('=')?;
            Some((names, key.trim(), value))
        });
        let (names, key, value) = parts.ok_or(RestrictionError::Form)?;
        let categories = Categories::parse(names)?;
        // What a header's name may be made of.
        let is_token = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
        if key.is_empty() || !key.bytes().all(is_token) {
            return Err(RestrictionError::Header(key.to_owned()));
        }
        let is_value =
            |it: u8| it == b' ' || it == b'\t' || it.is_ascii_graphic() || !it.is_ascii();
        if value.is_empty() || value.trim() != value || !value.bytes().all(is_value) {
            return Err(RestrictionError::Value);
        }
        let value = Secret::new(value.as_bytes());
        Ok(Restriction { categories, key: key.to_ascii_lowercase(), value })
    }
}

/// The first category that is in two of these groups: it would need two headers, which cannot be meant.
pub fn overlap(restrictions: &[Restriction]) -> Option<Category> {
    restrictions.iter().enumerate().find_map(|(at, first)| {
        let others = restrictions.iter().skip(at + 1);
        others.filter_map(|it| it.categories.common(first.categories)).next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restriction_is_categories_a_header_and_a_value() {
        let it = Restriction::parse("model-repository,shared-memory:X-Admin-Key=a=b:c").unwrap();
        assert_eq!(it.key, "x-admin-key");
        assert!(it.value.is(b"a=b:c"));
        assert!(it.categories.contains(Category::SharedMemory));
        assert!(!it.categories.contains(Category::Health));
    }

    #[test]
    fn what_is_none_is_refused_without_showing_the_value() {
        for wrong in [
            "",
            "health",
            "health:",
            "health:key",
            "health:=hush",
            "health:a b=hush",
            ":k=hush",
            "nothing:k=hush",
            "health,:k=hush",
            "health:k=",
            "health:k= hush",
            "health:k=hush\u{7f}",
        ] {
            let error = Restriction::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("<header>=<value>"), "{wrong}: {error}");
            assert!(!error.contains("hush"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_category_may_be_in_one_group_only() {
        let all = |texts: &[&str]| -> Vec<Restriction> {
            texts.iter().map(|it| Restriction::parse(it).unwrap()).collect()
        };
        assert_eq!(overlap(&all(&["health,trace:a=b", "logging:c=d"])), None);
        let twice = all(&["health:a=b", "logging:a=b", "trace,health:c=d"]);
        assert_eq!(overlap(&twice), Some(Category::Health));
    }
}

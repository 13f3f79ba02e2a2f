//! A text that is compared and never shown. Pure.

use std::fmt;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

/// The digest of a secret text. How long a comparison takes does not depend on where texts differ: both are
/// hashed, and the digests compared to their ends.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The secret that `text` is.
    pub fn new(text: &[u8]) -> Secret {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(digest(&SHA256, text).as_ref()) {
            *to = *from;
        }
        Secret(bytes)
    }

    /// Is it that text?
    pub fn is(&self, given: &[u8]) -> bool {
        self.is_same(&Secret::new(given))
    }

    /// Are they the same?
    pub fn is_same(&self, other: &Secret) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_text_is_the_same_secret() {
        let secret = Secret::new(b"abc");
        assert!(secret.is(b"abc"));
        for other in ["", "ab", "abcd", "abC", "abc "] {
            assert!(!secret.is(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}

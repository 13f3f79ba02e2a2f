//! Strings as the bytes of a tensor.

use bytes::Bytes;

use crate::shape::SizeMismatch;

/// The byte strings of a BYTES tensor.
#[derive(Debug, Clone)]
pub struct Strings<'a> {
    segments: std::slice::Iter<'a, Bytes>,
    rest: &'a [u8],
}

impl<'a> Strings<'a> {
    /// The strings in these segments, whose length prefixes have been checked.
    pub(crate) fn new(segments: &'a [Bytes]) -> Strings<'a> {
        Strings { segments: segments.iter(), rest: &[] }
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while self.rest.is_empty() {
            self.rest = self.segments.next()?;
        }
        let (element, rest) = split_string(self.rest).expect("checked when the tensor was made");
        self.rest = rest;
        Some(element)
    }
}

/// Strings as a BYTES tensor holds them: each a 4-byte little-endian length, then its bytes.
///
/// # Panics
/// When one string has 4 GiB or more.
pub fn encode_strings<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Bytes {
    let mut data = Vec::new();
    for string in strings {
        let string = string.as_ref();
        let length = u32::try_from(string.len()).expect("a string below 4 GiB");
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(string);
    }
    data.into()
}

/// The first string of `data` and what follows it; `None` when the length prefix points past the end.
fn split_string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = data.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*prefix)).ok()?;
    rest.split_at_checked(length)
}

/// The number of strings in `data`.
///
/// # Errors
/// [`SizeMismatch::Prefix`] for a length prefix that points past the end.
pub(crate) fn count_strings(data: &[u8]) -> Result<usize, SizeMismatch> {
    let (mut rest, mut element) = (data, 0);
    while !rest.is_empty() {
        let offset = data.len() - rest.len();
        let (_, after) = split_string(rest).ok_or(SizeMismatch::Prefix {
            element,
            offset,
            given: data.len(),
        })?;
        (rest, element) = (after, element + 1);
    }
    Ok(element)
}

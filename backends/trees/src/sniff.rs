//! What a file is by its first bytes. Pure.

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON of XGBoost.
    XgboostJson,
    /// UBJSON of XGBoost.
    XgboostUbj,
    /// Text of LightGBM.
    Lightgbm,
}

/// First bytes that tell the formats apart.
pub const BEGIN: usize = 4 << 10;

/// The format of a file that begins with these bytes, [`BEGIN`] of them or all.
pub fn sniff(begin: &[u8]) -> Option<FileFormat> {
    if begin.starts_with(b"tree\n") || begin.starts_with(b"tree\r\n") {
        return Some(FileFormat::Lightgbm);
    }
    let inner = begin.strip_prefix(b"{")?;
    // Of UBJSON a length comes first; of a snapshot of memory, the model is in the field `Model`.
    let keys: [&[u8]; 4] = [b"learner", b"version", b"Config", b"Model"];
    if matches!(inner.first(), Some(b'L' | b'l' | b'I' | b'i' | b'U' | b'#' | b'$')) {
        let near = &inner[..inner.len().min(32)];
        return keys.iter().any(|it| holds(near, it)).then_some(FileFormat::XgboostUbj);
    }
    let text = inner.trim_ascii_start();
    let quoted = text.strip_prefix(b"\"")?;
    let is_key = |key: &&[u8]| quoted.strip_prefix(*key).is_some_and(|it| it.starts_with(b"\""));
    let is_model = holds(text, b"\"learner\"") || holds(text, b"\"gradient_booster\"");
    (keys.iter().any(is_key) && is_model).then_some(FileFormat::XgboostJson)
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|it| it == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_first_bytes() {
        let json = Some(FileFormat::XgboostJson);
        let ubj = Some(FileFormat::XgboostUbj);
        for (begin, expect) in [
            (b"{\"learner\":{\"attributes\"".as_slice(), json),
            (b"{\n  \"version\": [1,2,3], \"learner\": {", json),
            (b"{\"Config\": {\"learner\": {}}", json),
            (b"{L\0\0\0\0\0\0\0\x07learner{", ubj),
            (b"{i\x07learner{", ubj),
            (b"tree\nversion=v4\n", Some(FileFormat::Lightgbm)),
            (b"trees\n", None),
            (b"{\"version\": 1}", None),
            (b"{\"name\":\"tree\"", None),
            (b"{\"model_type\": \"bert\"}", None),
            (b"{}", None),
            (b"{", None),
            (b"", None),
            (b"[1]", None),
        ] {
            assert_eq!(sniff(begin), expect, "{}", String::from_utf8_lossy(begin));
        }
    }
}

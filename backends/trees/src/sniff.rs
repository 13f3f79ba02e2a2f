//! What a file is by its first bytes. Pure.

use crate::{inflate::Packing, treelite::is_checkpoint, xgboost::legacy::is_legacy, xz};

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// JSON of XGBoost.
    XgboostJson,
    /// UBJSON of XGBoost.
    XgboostUbj,
    /// The binary format of XGBoost up to 3.0, or a snapshot of memory with one in it.
    XgboostLegacy,
    /// Text of LightGBM.
    Lightgbm,
    /// A checkpoint of treelite.
    Treelite,
    /// A pickle of any object, which joblib may have written.
    Pickle,
    /// An archive of skops.
    Skops,
    /// Compressed as joblib can.
    Packed(Packing),
}

/// First bytes that tell the formats apart.
pub const BEGIN: usize = 4 << 10;

/// The format of a file that begins with these bytes, [`BEGIN`] of them or all.
pub fn sniff(begin: &[u8]) -> Option<FileFormat> {
    match begin {
        [0x80, 2..=5, ..] => return Some(FileFormat::Pickle),
        // Protocols 0 and 1 have no head. Objects of old protocols begin with this call.
        _ if begin.starts_with(b"ccopy_reg\n_reconstructor\n") => return Some(FileFormat::Pickle),
        [0x1f, 0x8b, 8, ..] => return Some(FileFormat::Packed(Packing::Gzip)),
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => return Some(FileFormat::Packed(Packing::Zlib)),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => return Some(FileFormat::Packed(Packing::Bzip2)),
        // The usual properties, and a dictionary of whole KiB.
        [0x5d, 0, 0, ..] => return Some(FileFormat::Packed(Packing::Lzma)),
        [0x04, 0x22, 0x4d, 0x18, ..] => return Some(FileFormat::Packed(Packing::Lz4)),
        _ if begin.starts_with(xz::MAGIC) => return Some(FileFormat::Packed(Packing::Xz)),
        _ if begin.starts_with(b"tree\n") || begin.starts_with(b"tree\r\n") => {
            return Some(FileFormat::Lightgbm);
        }
        _ if is_skops(begin) => return Some(FileFormat::Skops),
        _ if is_checkpoint(begin) => return Some(FileFormat::Treelite),
        _ if is_legacy(begin) => return Some(FileFormat::XgboostLegacy),
        _ => {}
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

/// Is the first entry of an archive one of skops? Arrays have numbers for names there.
fn is_skops(begin: &[u8]) -> bool {
    const HEADER: usize = 30;
    let Some((header, rest)) = begin.split_at_checked(HEADER) else { return false };
    let length = usize::from(u16::from_le_bytes([header[26], header[27]]));
    let Some(name) = rest.get(..length).filter(|_| header.starts_with(b"PK\x03\x04")) else {
        return false;
    };
    let digits = name.strip_suffix(b".npy").unwrap_or_default();
    name == b"schema.json" || !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// What has packed a file that begins so, where that is nothing that is read.
pub fn packed_otherwise(begin: &[u8]) -> Option<&'static str> {
    const HEADS: [(&[u8], &str); 1] = [(b"\x28\xb5\x2f\xfd", "Zstandard")];
    HEADS.iter().find(|(head, _)| begin.starts_with(head)).map(|it| it.1)
}

/// Is it JSON of LightGBM's `dump_model`, which lacks what its readers need?
pub fn is_lightgbm_dump(begin: &[u8]) -> bool {
    let signs: Vec<u8> = begin.iter().copied().filter(|it| !it.is_ascii_whitespace()).collect();
    signs.starts_with(br#"{"name":"tree","version":"#)
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
            (b"\x80\x04\x95", Some(FileFormat::Pickle)),
            (b"ccopy_reg\n_reconstructor\np0\n", Some(FileFormat::Pickle)),
            (b"\x80\x06", None),
            (b"tree\nversion=v4\n", Some(FileFormat::Lightgbm)),
            (b"tree", None),
            (b"\x78\x5e\0", Some(FileFormat::Packed(Packing::Zlib))),
            (b"\x1f\x8b\x08\0", Some(FileFormat::Packed(Packing::Gzip))),
            (b"BZh91AY", Some(FileFormat::Packed(Packing::Bzip2))),
            (b"\x5d\0\0\x80\0", Some(FileFormat::Packed(Packing::Lzma))),
            (b"\xfd7zXZ\0", Some(FileFormat::Packed(Packing::Xz))),
            (b"\x04\x22\x4d\x18", Some(FileFormat::Packed(Packing::Lz4))),
            (b"BZh", None),
            (b"\x04\0\0\0\x08\0\0\0\x01\0\0\0\x02\x02", Some(FileFormat::Treelite)),
            (b"\x02\0\0\0\x04\0\0\0\0\0\0\0\x03\x03", Some(FileFormat::Treelite)),
            (b"\x04\0\0\0\x08\0\0\0\x01\0\0\0\x00\x02", None),
            (b"CONFIG-offset:\0", Some(FileFormat::XgboostLegacy)),
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

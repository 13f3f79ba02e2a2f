//! What a file is, by its bytes and not by its name, and the line that makes a model of it that can be served. Pure.

mod describe;

/// Both ends of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'a> {
    /// Its first bytes, [`BEGIN`] of them or all.
    pub(crate) begin: &'a [u8],
    /// Its last bytes, [`END`] of them or all.
    pub(crate) end: &'a [u8],
    /// Bytes of the whole file.
    pub(crate) length: u64,
}

/// As much of the beginning as tells the formats apart.
pub(crate) const BEGIN: u64 = 4 << 10;

/// As much of the end as holds the list of most zip archives.
pub(crate) const END: u64 = 64 << 10;

/// A kind of file that is met where a model should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Empty,
    Zeros,
    LfsPointer,
    Page,
    /// What an object store answers with in the place of a file.
    XmlError,
    Pmml,
    OpenVino,
    Xml,
    /// It ends before what it says of its own length, if it says that.
    Truncated {
        what: &'static str,
        length: u64,
        needs: Option<u64>,
    },
    Onnx,
    TorchScript,
    StateDict,
    TorchExport,
    TorchServe,
    Safetensors,
    Keras,
    Hdf5,
    Tflite,
    Gguf,
    SavedModel,
    SavedModelText,
    FrozenGraph,
    SklearnPickle,
    XgboostPickle,
    LightgbmPickle,
    TorchPickle,
    Pickle,
    CompressedPickle,
    Skops,
    Xgboost,
    Lightgbm,
    LightgbmDump,
    Catboost,
    TensorRt,
    Numpy,
    Gzip,
    Tar,
    Zip,
}

/// What the file is; `None` where its bytes do not say.
pub(crate) fn recognise(sample: Sample<'_>) -> Option<Content> {
    let Sample { begin, length, .. } = sample;
    let starts = |magic: &[u8]| begin.starts_with(magic);
    let holds = |text: &str| holds(begin, text);
    Some(match begin {
        _ if length == 0 => Content::Empty,
        _ if begin.iter().all(|it| *it == 0) => Content::Zeros,
        _ if starts(b"version https://git-lfs") => Content::LfsPointer,
        _ if starts(b"PK\x03\x04") => archive(sample),
        _ if starts(b"\x89HDF\r\n\x1a\n") => Content::Hdf5,
        _ if starts(b"GGUF") => Content::Gguf,
        _ if begin.get(4..8) == Some(b"TFL3") => Content::Tflite,
        _ if starts(b"CBM1") => Content::Catboost,
        _ if starts(b"ftrt") || starts(b"ptrt") => Content::TensorRt,
        _ if starts(b"tree\nversion=") => Content::Lightgbm,
        _ if starts(b"\x93NUMPY") => Content::Numpy,
        _ if starts(b"\x1f\x8b") => Content::Gzip,
        _ if begin.get(257..262) == Some(b"ustar") => Content::Tar,
        [0x80, 2..=5, ..] => pickle(begin),
        // Of zlib, in which joblib writes what it compresses.
        [0x78, 0x01 | 0x5E | 0x9C | 0xDA, ..] => Content::CompressedPickle,
        // The schema of a SavedModel has version 1; the first of ONNX that is met is 3.
        [0x08, 0x01, 0x12, ..] => Content::SavedModel,
        _ if starts(b"saved_model_schema_version:") => Content::SavedModelText,
        [0x08, 2..=32, 0x12 | 0x1A | 0x22 | 0x28 | 0x32 | 0x3A | 0x42, ..] => onnx(begin, length),
        [0x0A, ..] if holds("Placeholder") || holds("\x12\x05Const") => Content::FrozenGraph,
        _ if starts(b"binf") || holds("\"learner\"") || holds("learner{") || holds("learnerL") => {
            Content::Xgboost
        }
        _ if is_lightgbm_dump(begin) => Content::LightgbmDump,
        _ => return safetensors(begin, length).or_else(|| page(begin)),
    })
}

/// An archive, by the names in the list at its end.
fn archive(Sample { end, length, .. }: Sample<'_>) -> Content {
    let what = "a zip archive, as torch.save and torch.jit.save write them,";
    if !holds(end, "PK\x05\x06") {
        return Content::Truncated { what, length, needs: None };
    }
    let has = |name: &str| holds(end, name);
    match () {
        () if has("/code/") && has("/constants.pkl") => Content::TorchScript,
        () if has("archive_format") || has("serialized_exported_program.json") => {
            Content::TorchExport
        }
        () if has("MAR-INF/") => Content::TorchServe,
        () if has("model.weights.h5") => Content::Keras,
        () if has("/data.pkl") => Content::StateDict,
        () if has("schema.json") => Content::Skops,
        () if has(".npy") => Content::Numpy,
        () => Content::Zip,
    }
}

/// Whose objects a pickle holds, by the names of their modules.
fn pickle(begin: &[u8]) -> Content {
    let holds = |name: &str| holds(begin, name);
    match () {
        // The number that torch.save wrote first, before it wrote archives.
        () if begin.starts_with(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19") => {
            Content::TorchPickle
        }
        () if holds("xgboost.") => Content::XgboostPickle,
        () if holds("lightgbm.") => Content::LightgbmPickle,
        () if holds("sklearn.") || holds("joblib.") => Content::SklearnPickle,
        () if holds("torch.") || holds("torch\n") => Content::TorchPickle,
        () => Content::Pickle,
    }
}

/// An ONNX model, of which all fields must be there. The graph is one of the first.
fn onnx(begin: &[u8], length: u64) -> Content {
    let mut at = 0;
    while let Some((tag, next)) = varint(begin, at) {
        let Some((number, next)) = (match tag & 7 {
            0 => varint(begin, next).map(|(_, next)| (0, next)),
            2 => varint(begin, next),
            _ => None,
        }) else {
            break;
        };
        let end = (next as u64).saturating_add(number);
        if end > length {
            return Content::Truncated { what: "an ONNX model", length, needs: Some(end) };
        }
        let Ok(end) = usize::try_from(end) else { break };
        at = end;
    }
    Content::Onnx
}

/// The number of protobuf that begins there, and what follows it.
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (i, byte) in bytes.get(at..)?.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, at + i + 1));
        }
    }
    None
}

/// A header in JSON after its length, then the tensors where it says.
fn safetensors(begin: &[u8], length: u64) -> Option<Content> {
    let header = u64::from_le_bytes(begin.get(..8)?.try_into().ok()?);
    let is_one = begin.get(8..10) == Some(b"{\"") && header < 100 << 20;
    is_one.then(|| match header.saturating_add(8) {
        needs if length < needs => {
            Content::Truncated { what: "a safetensors file", length, needs: Some(needs) }
        }
        _ => Content::Safetensors,
    })
}

fn page(begin: &[u8]) -> Option<Content> {
    let text = begin.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(begin).trim_ascii_start();
    let text = text[..text.len().min(16)].to_ascii_lowercase();
    let starts = |it: &str| text.starts_with(it.as_bytes());
    match () {
        () if starts("<!doctype html") || starts("<html") || starts("<head") => Some(Content::Page),
        () if starts("<?xml") || starts("<error>") || starts("<pmml") || starts("<net ") => {
            Some(xml(begin))
        }
        () => None,
    }
}

/// An XML text, by its outermost element.
fn xml(begin: &[u8]) -> Content {
    let text = String::from_utf8_lossy(begin).to_ascii_lowercase();
    // Declarations and comments come first.
    let elements = text.match_indices('<').map(|(at, _)| &text[at + 1..]);
    let mut names = elements.filter(|it| it.starts_with(|it: char| it.is_ascii_alphabetic()));
    let name = names.next().unwrap_or_default();
    match name.split(|it: char| !it.is_ascii_alphanumeric()).next() {
        Some("error") => Content::XmlError,
        Some("pmml") => Content::Pmml,
        Some("net") => Content::OpenVino,
        _ => Content::Xml,
    }
}

/// Is it the JSON of LightGBM's `dump_model`?
fn is_lightgbm_dump(begin: &[u8]) -> bool {
    let signs: Vec<u8> = begin.iter().copied().filter(|it| !it.is_ascii_whitespace()).collect();
    signs.starts_with(br#"{"name":"tree","version":"#)
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|it| it == text.as_bytes())
}

#[cfg(test)]
mod tests;

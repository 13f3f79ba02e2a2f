//! Media types on `/invocations`: which decoder a `Content-Type` names, and which encoder an `Accept`
//! header picks among those that can carry the reply.

use std::{collections::BTreeSet, fmt};

use crate::medium;
use inference::error::Error;

/// Triton's type for KServe v2 with raw tensors behind the JSON part, without its parameter.
const BINARY: &str = "application/vnd.sagemaker-triton.binary+json";
/// The only form of it that Triton takes: no blanks, one parameter.
const BINARY_PREFIX: &str = "application/vnd.sagemaker-triton.binary+json;json-header-size=";

/// The format of the bytes of a request or a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// One JSON document (or, in a request, several).
    Json,
    /// One JSON document per row, under one of several names.
    JsonLines(LinesName),
    /// RFC 4180, one line per row.
    Csv,
    /// One array in NumPy's file format.
    Npy,
    /// Several of them, or a sparse matrix, in one archive; of requests only.
    Npz,
    /// Rows of `index:value`; of requests only.
    Libsvm,
    /// Records of AWS's algorithms in RecordIO frames.
    RecordIo,
    /// KServe v2 with raw tensors behind the JSON part.
    Binary,
}

/// The names under which JSON lines travel. A reply repeats the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinesName {
    JsonLines,
    Ndjson,
    Jsons,
}

impl Media {
    /// Every format, in the order in which error texts list them.
    pub const ALL: [Media; 10] = [
        Media::Json,
        Media::JsonLines(LinesName::JsonLines),
        Media::JsonLines(LinesName::Ndjson),
        Media::JsonLines(LinesName::Jsons),
        Media::Csv,
        Media::Npy,
        Media::Npz,
        Media::Libsvm,
        Media::RecordIo,
        Media::Binary,
    ];

    /// The media type, without parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::JsonLines(LinesName::JsonLines) => "application/jsonlines",
            Media::JsonLines(LinesName::Ndjson) => "application/x-ndjson",
            Media::JsonLines(LinesName::Jsons) => "application/jsons",
            Media::Csv => "text/csv",
            Media::Npy => "application/x-npy",
            Media::Npz => "application/x-npz",
            Media::Libsvm => "text/libsvm",
            Media::RecordIo => "application/x-recordio-protobuf",
            Media::Binary => BINARY,
        }
    }

    fn from_name(name: &str) -> Option<Media> {
        let own = |it: &Media| it.name().eq_ignore_ascii_case(name);
        let others =
            [("text/x-libsvm", Media::Libsvm), ("libsvm", Media::Libsvm), ("csv", Media::Csv)];
        let other = || others.into_iter().find(|it| it.0.eq_ignore_ascii_case(name));
        Media::ALL.into_iter().find(own).or_else(|| other().map(|it| it.1))
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a `Content-Type` says of the body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Declared {
    /// Nothing of use: missing, empty, `*/*`, octets, or a form, which no body is. The content decides.
    #[default]
    Nothing,
    /// That format; not [`Media::Binary`].
    As(Media),
    /// A text: one element of a model that takes texts; else the content decides.
    Text,
    /// An image or a sound: a file whose bytes are one element of a BYTES input.
    File,
    /// KServe v2 whose first `header` bytes are JSON.
    Binary {
        /// Bytes of JSON at the start of the body; not yet compared with its length.
        header: usize,
    },
    /// A type that no decoder takes.
    Unknown,
    /// The binary type in another than its one exact form.
    Malformed,
}

impl Declared {
    /// Bytes of JSON in front of raw tensors, where the type says so: known before the body is.
    pub fn json_length(self) -> Option<usize> {
        match self {
            Declared::Binary { header } => Some(header),
            _ => None,
        }
    }

    /// May bodies of this type leave out most elements of their tensors? So may those without a type.
    pub fn may_be_sparse(self) -> bool {
        matches!(
            self,
            Declared::Nothing
                | Declared::Text
                | Declared::As(Media::Libsvm | Media::RecordIo | Media::Npz)
        )
    }
}

/// What this `Content-Type` says. Case and parameters do not matter, save those of the binary type.
pub fn declared(content_type: Option<&str>) -> Declared {
    let content_type = content_type.unwrap_or_default().trim();
    let name = essence(content_type);
    if name.eq_ignore_ascii_case(BINARY) {
        let header = content_type.strip_prefix(BINARY_PREFIX).and_then(decimal);
        return header.map_or(Declared::Malformed, |header| Declared::Binary { header });
    }
    // curl sends the last one by default.
    let silent = [
        "",
        "*/*",
        "application/octet-stream",
        "binary/octet-stream",
        "application/x-www-form-urlencoded",
    ];
    if silent.iter().any(|it| it.eq_ignore_ascii_case(name)) {
        return Declared::Nothing;
    }
    match Media::from_name(name) {
        Some(media) => Declared::As(media),
        None if medium::of_type(name).is_some() => Declared::File,
        None if TEXTS.iter().any(|it| it.eq_ignore_ascii_case(name)) => Declared::Text,
        None => Declared::Unknown,
    }
}

/// Types of a text without any form.
const TEXTS: [&str; 2] = ["text/plain", "application/x-text"];

/// The value of a type's parameter of that name, the first where there are several.
pub fn parameter<'a>(content_type: &'a str, name: &str) -> Option<&'a str> {
    let parameters = content_type.split(';').skip(1).filter_map(|it| it.split_once('='));
    let mut said = parameters.filter(|(it, _)| it.trim().eq_ignore_ascii_case(name));
    said.next().map(|(_, value)| value.trim().trim_matches('"'))
}

/// Does a type of CSV say whether there is a first record of names, by the parameter `header` of RFC 4180?
pub fn csv_header(content_type: &str) -> Option<bool> {
    match parameter(content_type, "header")? {
        it if it.eq_ignore_ascii_case("present") => Some(true),
        it if it.eq_ignore_ascii_case("absent") => Some(false),
        _ => None,
    }
}

/// The binary type of a reply whose first `header` bytes are JSON.
pub fn binary_type(header: usize) -> String {
    format!("{BINARY_PREFIX}{header}")
}

/// The error for the binary type in another form.
pub fn malformed(content_type: &str) -> Error {
    Error::InvalidRequest(format!(
        "content type '{}': expected exactly '{BINARY_PREFIX}<bytes of JSON>'",
        content_type.trim()
    ))
}

/// The error for a content type without a decoder.
pub fn unsupported(content_type: &str) -> Error {
    Error::UnsupportedMediaType(format!(
        "content type '{}' is not supported; supported: {}",
        essence(content_type),
        supported()
    ))
}

/// The content types that there are decoders for, for an error.
pub fn supported() -> String {
    format!("{}, text/plain, image/*, audio/*", list(&Media::ALL))
}

/// Which of the `offered` formats a client gets. `usual` is the media type of its request, and one of them.
///
/// The entries of `accept` are tried from the highest weight to the lowest, equal ones in their order;
/// the first that is offered wins. No entry, or one that is `*/*`, means `default` where it is offered,
/// else `usual`.
///
/// # Errors
/// [`Error::NotAcceptable`], which lists what is offered, when no entry is.
pub fn choose(
    accept: Option<&str>,
    default: Option<&str>,
    usual: Media,
    offered: &[Media],
) -> Result<Media, Error> {
    let accept = accept.unwrap_or_default();
    let entries = entries(accept);
    let offers = |media: Media| offered.contains(&media);
    let preferred = || {
        let default = default.and_then(|it| Media::from_name(essence(it)));
        default.filter(|&it| offers(it)).unwrap_or(usual)
    };
    if entries.is_empty() {
        return Ok(preferred());
    }
    let refused = |media: Media| {
        entries.iter().any(|it| it.weight == 0 && it.name.eq_ignore_ascii_case(media.name()))
    };
    for entry in entries.iter().filter(|it| it.weight > 0) {
        let exact = Media::from_name(entry.name).filter(|&it| offers(it));
        // A range is met by what the client would get without the header, else by the first that fits.
        let found = exact.or_else(|| {
            let mut candidates = [preferred()].into_iter().chain(offered.iter().copied());
            candidates.find(|&it| in_range(it, entry.name) && !refused(it))
        });
        if let Some(media) = found {
            return Ok(media);
        }
    }
    Err(Error::NotAcceptable(format!(
        "none of the types in 'Accept: {accept}' can carry this reply; offered: {}",
        list(offered)
    )))
}

/// The outputs that a client names by the parameter `output` of the types that it accepts, each once; where it accepts
/// any type and names none, those that `default` names.
pub fn outputs<'a>(accept: Option<&'a str>, default: Option<&'a str>) -> Vec<&'a str> {
    let accept = accept.unwrap_or_default();
    let named = named_outputs(accept);
    let takes_any = || entries(accept).iter().all(|it| it.name == "*/*");
    match default {
        Some(default) if named.is_empty() && takes_any() => named_outputs(default),
        _ => named,
    }
}

/// Does a client that takes JSON ask for all that there is, as clients of JumpStart's models do: by
/// `application/json;verbose`? Where it takes any type, `default` says.
pub fn is_verbose(accept: Option<&str>, default: Option<&str>) -> bool {
    let accept = accept.unwrap_or_default();
    let takes_any = entries(accept).iter().all(|it| it.name == "*/*");
    let types = if takes_any { default.unwrap_or_default() } else { accept };
    types.split(',').any(|it| {
        let is_json = essence(it).eq_ignore_ascii_case(Media::Json.name());
        is_json && it.split(';').skip(1).any(|it| it.trim().eq_ignore_ascii_case("verbose"))
    })
}

/// Does a client ask for lines as they are made, by `application/jsonlines;stream=true` or another name of lines?
pub fn wants_lines_early(accept: Option<&str>) -> bool {
    accept.unwrap_or_default().split(',').any(|it| {
        let is_lines = matches!(Media::from_name(essence(it)), Some(Media::JsonLines(_)));
        let pairs = it.split(';').skip(1).filter_map(|it| it.split_once('='));
        let mut pairs = pairs.map(|(name, value)| (name.trim(), value.trim()));
        let is_said = |(name, value): (&str, &str)| {
            name.eq_ignore_ascii_case("stream") && value.eq_ignore_ascii_case("true")
        };
        is_lines && pairs.any(is_said)
    })
}

fn named_outputs(types: &str) -> Vec<&str> {
    let parameters = types.split(',').flat_map(|it| it.split(';').skip(1));
    let pairs = parameters.filter_map(|it| it.split_once('='));
    let outputs = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("output"));
    let mut seen = BTreeSet::new();
    let names = outputs.map(|(_, value)| value.trim().trim_matches('"'));
    names.filter(|it| seen.insert(*it)).collect()
}

/// One entry of an `Accept` header.
struct AcceptEntry<'a> {
    name: &'a str,
    /// Thousandths.
    weight: u32,
}

/// The entries that name something, heaviest first, equal ones in their order.
fn entries(accept: &str) -> Vec<AcceptEntry<'_>> {
    let named = accept.split(',').filter(|it| !essence(it).is_empty());
    let mut entries: Vec<AcceptEntry<'_>> =
        named.map(|it| AcceptEntry { name: essence(it), weight: weight(it) }).collect();
    entries.sort_by_key(|it| std::cmp::Reverse(it.weight));
    entries
}

/// The `q` parameter in thousandths. One that cannot be read weighs as much as none: 1.
fn weight(entry: &str) -> u32 {
    let parameters = entry.split(';').skip(1).filter_map(|it| it.split_once('='));
    let mut weights = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    let weight = weights.next().and_then(|(_, value)| value.trim().parse::<f32>().ok());
    // NaN is not in the range either.
    weight.filter(|it| (0.0..=1.0).contains(it)).map_or(1000, |it| (it * 1000.0).round() as u32)
}

/// Is the format inside a range such as `text/*`? An exact name is no range.
fn in_range(media: Media, range: &str) -> bool {
    match range.strip_suffix("/*") {
        Some("*") => true,
        Some(kind) => {
            let (own, _) = media.name().split_once('/').unwrap_or_default();
            own.eq_ignore_ascii_case(kind)
        }
        None => false,
    }
}

/// The type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// A number of decimal digits only: `usize::from_str` would also take a plus sign.
fn decimal(text: &str) -> Option<usize> {
    text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn list(media: &[Media]) -> String {
    media.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: Media = Media::JsonLines(LinesName::JsonLines);

    #[test]
    fn json_may_be_asked_for_in_full() {
        for (accept, default, expected) in [
            (Some("application/json;verbose"), None, true),
            (Some("application/json; Verbose;n_predictions=5"), None, true),
            (Some("application/json"), Some("application/json;verbose"), false),
            (Some("*/*"), Some("application/json;verbose"), true),
            (None, Some("application/json;verbose"), true),
            (Some("text/csv;verbose"), None, false),
            (Some("application/json;mode=verbose"), None, false),
        ] {
            assert_eq!(is_verbose(accept, default), expected, "{accept:?}");
        }
    }

    #[track_caller]
    fn check_type(content_type: &str, expected: Declared) {
        assert_eq!(declared(Some(content_type)), expected);
    }

    #[track_caller]
    fn check_accept(accept: &str, default: Option<&str>, expected: Option<Media>) {
        let offered = [Media::Json, LINES, Media::Csv];
        let chosen = choose(Some(accept), default, Media::Json, &offered);
        assert_eq!(chosen.ok(), expected, "{accept}");
    }

    #[test]
    fn parameters_and_case_of_a_content_type_do_not_matter() {
        check_type("Application/JSON; charset=utf-8", Declared::As(Media::Json));
        check_type(" text/csv ;header=absent", Declared::As(Media::Csv));
        check_type("application/x-ndjson", Declared::As(Media::JsonLines(LinesName::Ndjson)));
        check_type("image/png", Declared::File);
        check_type("Audio/ogg", Declared::File);
        check_type("application/x-image", Declared::File);
        check_type("imagery/png", Declared::Unknown);
        check_type("CSV", Declared::As(Media::Csv));
        check_type("libsvm", Declared::As(Media::Libsvm));
        check_type("text/plain; charset=utf-8", Declared::Text);
        check_type("application/x-text", Declared::Text);
        check_type("text/html", Declared::Unknown);
    }

    #[test]
    fn a_type_of_csv_may_say_whether_there_is_a_header() {
        assert_eq!(csv_header("text/csv; header=present"), Some(true));
        assert_eq!(csv_header("text/csv;charset=utf-8; Header=\"Absent\""), Some(false));
        assert_eq!(csv_header("text/csv; header=perhaps"), None);
        assert_eq!(csv_header("text/csv"), None);
    }

    #[test]
    fn types_that_say_nothing_leave_it_to_the_content() {
        let form = "application/x-www-form-urlencoded";
        for silent in ["", " ", "*/*", "application/octet-stream", "Binary/Octet-Stream; a=b", form]
        {
            check_type(silent, Declared::Nothing);
        }
        assert_eq!(declared(None), Declared::Nothing);
    }

    #[test]
    fn the_binary_type_has_one_exact_form() {
        check_type(
            "application/vnd.sagemaker-triton.binary+json;json-header-size=17",
            Declared::Binary { header: 17 },
        );
        for wrong in ["", "; json-header-size=1", ";json-header-size=+1", ";json-header-size="] {
            check_type(&format!("{BINARY}{wrong}"), Declared::Malformed);
        }
    }

    #[test]
    fn an_unsupported_type_is_named_beside_the_supported_ones() {
        let text = unsupported("a/b").to_string();
        assert!(text.contains("'a/b'") && text.contains("text/csv"), "{text}");
    }

    #[test]
    fn the_heaviest_offered_type_wins() {
        check_accept("text/csv;q=0.5, application/jsonlines;q=0.9", None, Some(LINES));
        check_accept("image/png, text/csv;q=0.1", None, Some(Media::Csv));
        check_accept("text/csv, application/json", None, Some(Media::Csv));
        check_accept("TEXT/CSV; header=absent", None, Some(Media::Csv));
    }

    #[test]
    fn without_a_wish_the_default_and_then_the_usual_type_decide() {
        check_accept("", None, Some(Media::Json));
        check_accept("*/*", Some("text/csv"), Some(Media::Csv));
        check_accept("", Some("text/csv; charset=utf-8"), Some(Media::Csv));
        check_accept("", Some("application/x-npy"), Some(Media::Json));
        check_accept("application/json", Some("text/csv"), Some(Media::Json));
    }

    #[test]
    fn outputs_are_named_by_a_parameter_of_the_type() {
        let check = |accept, default, expected: &[&str]| {
            assert_eq!(outputs(Some(accept), default), expected, "{accept}");
        };
        check("text/csv; output=a", None, &["a"]);
        check(
            "text/csv;q=0.5;OUTPUT=\"a b\";output=c, application/json;output=c",
            None,
            &["a b", "c"],
        );
        check("", Some("text/csv; output=a"), &["a"]);
        check("*/*", Some("text/csv; output=a"), &["a"]);
        check("*/*;output=b", Some("text/csv; output=a"), &["b"]);
        check("application/json", Some("text/csv; output=a"), &[]);
    }

    #[test]
    fn lines_come_early_where_their_type_says_so() {
        let check = |accept, expected| assert_eq!(wants_lines_early(Some(accept)), expected);
        check("application/jsonlines;stream=true", true);
        check("text/csv, application/x-ndjson ; q=0.5; Stream = TRUE", true);
        check("application/jsonlines", false);
        check("application/jsonlines;stream=false", false);
        check("application/json;stream=true", false);
    }

    #[test]
    fn a_range_takes_what_is_in_it_and_nothing_of_weight_zero() {
        check_accept("text/*", None, Some(Media::Csv));
        check_accept("application/*", Some("text/csv"), Some(Media::Json));
        check_accept("application/json;q=0, */*", None, Some(LINES));
        check_accept("text/csv;q=0", None, None);
    }

    #[test]
    fn a_type_that_is_not_offered_is_refused_with_the_offered_ones() {
        check_accept("image/png", None, None);
        let error = choose(Some("image/png"), None, Media::Json, &[Media::Json]).unwrap_err();
        let text = "none of the types in 'Accept: image/png' can carry this reply; \
                    offered: application/json";
        assert_eq!(error, Error::NotAcceptable(text.to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_it_panic(text in ".*") {
            let _ = declared(Some(&text));
            let _ = outputs(Some(&text), Some(&text));
            let _ = choose(Some(&text), Some(&text), Media::Json, &[Media::Json]);
        }
    }
}

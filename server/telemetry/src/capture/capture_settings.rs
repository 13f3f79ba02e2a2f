//! Data capture: which invocations are written down, and where: `--data-capture-*`.

use std::path::PathBuf;

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("data-capture-dir", "", "Folder for captured requests and replies, in the form of SageMaker's data capture: requests to /invocations, and texts to the addresses of other servers. Each is a line of JSON in <model>/AllTraffic/<yyyy>/<mm>/<dd>/<hh>/<file>.jsonl. Default: nothing is captured").named("DIR"),
    Flag::value("data-capture-percent", "100", "How many of a hundred invocations are captured, chosen by their ids").named("PERCENT"),
    Flag::boolean("data-capture-input", "true", "Capture requests"),
    Flag::boolean("data-capture-output", "true", "Capture replies"),
    Flag::value("data-capture-csv-types", "text/csv", "Media types, with commas between them, whose bodies are captured as CSV text").named("TYPES"),
    Flag::value("data-capture-json-types", "application/json", "Media types whose bodies are captured as JSON text; all others are captured in base64").named("TYPES"),
    Flag::value("data-capture-body-bytes", "256KiB", "What is longer is cut off there, and the line says so").named("BYTES"),
    Flag::value("data-capture-file-bytes", "64MiB", "A file that is as long gets no further lines; nor does one whose hour has passed").named("BYTES"),
];

/// Which invocations are captured. Source: SageMaker's `DataCaptureConfig`.
#[derive(Debug, Clone, PartialEq)]
pub struct CaptureSettings {
    /// `--data-capture-dir`: the folder above those of models and hours.
    pub dir: PathBuf,
    /// `--data-capture-percent`: how many of a hundred invocations, 0 to 100.
    pub percent: f64,
    /// `--data-capture-input`: are requests captured?
    pub input: bool,
    /// `--data-capture-output`: are replies?
    pub output: bool,
    /// `--data-capture-csv-types`: media types, in lower case, whose bodies are shown as CSV text.
    pub csv_types: Vec<String>,
    /// `--data-capture-json-types`: the same for JSON.
    pub json_types: Vec<String>,
    /// `--data-capture-body-bytes`: longest part of a body that is captured.
    pub body_bytes: usize,
    /// `--data-capture-file-bytes`: a file that has become as long gets no further lines.
    pub file_bytes: u64,
}

/// As many as the platform lets its users name.
const MOST_TYPES: usize = 10;

/// Reads it; `None` where nothing is captured.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Option<CaptureSettings> {
    let dir = sources.read("data-capture-dir", value::path, problems);
    let percent = sources.read("data-capture-percent", percent, problems).unwrap_or(100.0);
    let mut switch = |name| sources.read(name, value::boolean, &mut *problems).unwrap_or(true);
    let (input, output) = (switch("data-capture-input"), switch("data-capture-output"));
    let types = |name, default: &str, problems: &mut Vec<String>| {
        sources.read(name, media_types, problems).unwrap_or_else(|| vec![default.to_owned()])
    };
    let csv_types = types("data-capture-csv-types", "text/csv", problems);
    let json_types = types("data-capture-json-types", "application/json", problems);
    let mut bytes = |name| sources.read(name, value::bytes_from_one, &mut *problems);
    let body_bytes = bytes("data-capture-body-bytes").unwrap_or(256 << 10);
    let file_bytes = bytes("data-capture-file-bytes").unwrap_or(64 << 20);
    let body_bytes = usize::try_from(body_bytes).unwrap_or(usize::MAX);
    let dir = dir.filter(|_| input || output)?;
    Some(CaptureSettings {
        dir,
        percent,
        input,
        output,
        csv_types,
        json_types,
        body_bytes,
        file_bytes,
    })
}

fn percent(text: &str) -> Parse<f64> {
    let number = text.parse().ok().filter(|it| (0.0..=100.0).contains(it));
    number.ok_or_else(|| "a number from 0 to 100".to_owned())
}

fn media_types(text: &str) -> Parse<Vec<String>> {
    let expected =
        || format!("at most {MOST_TYPES} media types as text/csv, with commas between them");
    let types =
        text.split(',').map(|it| value::media_type(it.trim()).map(|it| it.to_ascii_lowercase()));
    let types: Vec<String> = types.collect::<Result<_, _>>().map_err(|_| expected())?;
    if types.len() <= MOST_TYPES { Ok(types) } else { Err(expected()) }
}

//! Data capture: settings.

use super::{Setting, value};

const SECTION: &str = "Data capture";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "data-capture-dir", "", "Folder below which requests to /invocations and their replies are written as SageMaker's data capture has them, one line of JSON each: <model>/AllTraffic/<yyyy>/<mm>/<dd>/<hh>/<file>.jsonl. Default: nothing is captured"),
    value(SECTION, "data-capture-percent", "100", "How many of a hundred invocations are captured, chosen by their ids"),
    value(SECTION, "data-capture-input", "true", "Capture requests"),
    value(SECTION, "data-capture-output", "true", "Capture replies"),
    value(SECTION, "data-capture-csv-types", "text/csv", "Media types, with commas between them, whose bodies are captured as CSV text"),
    value(SECTION, "data-capture-json-types", "application/json", "Media types whose bodies are captured as JSON text; all others are captured in base64"),
    value(SECTION, "data-capture-body-bytes", "256KiB", "What is longer is cut off there, and the line says so"),
    value(SECTION, "data-capture-file-bytes", "64MiB", "A file that is as long gets no further lines; nor does one whose hour has passed"),
];

//! Bodies of every length and shape, for tests that measure the memory that decoding takes.

use super::model;
use inference::signature::Signature;

/// Lengths below and above that from which separators are counted.
pub const LENGTHS: [usize; 3] = [40, 1_000, LONG];

/// Bounds above this are by separators.
pub const LOOSE: usize = 256 << 10;

/// A length above that.
pub const LONG: usize = 40_000;

/// Units of which lists are made.
pub const UNITS: [&str; 9] =
    ["0,", "true,", "\"\",", "\"\\u0041\",", "[],", "{},", "[0],", "-1,", "NaN,"];

/// `unit` up to a length, between `open` and `close`.
pub fn repeated(open: &str, unit: &str, close: &str, length: usize) -> String {
    let units = length / unit.len() + 1;
    let list = unit.repeat(units);
    format!("{open}{}{close}", list.strip_suffix(',').unwrap_or(&list))
}

/// Keys that differ, with values, up to a length.
pub fn keys(length: usize) -> String {
    let mut out = String::new();
    for at in 0.. {
        if length < out.len() {
            break;
        }
        out.push_str(&format!("{}\"{at:x}\":0", if at == 0 { "" } else { "," }));
    }
    out
}

/// Signatures of models that take any number of rows.
pub fn signatures() -> Vec<Signature> {
    ["x FP32 [-1]", "x INT64 [-1]", "x BOOL [-1]", "x BYTES [-1]", "x FP64 [3]", "x UINT8 []"]
        .into_iter()
        .map(|port| model(1 << 20, &[port], &["y FP32 [2]"]))
        .chain([model(0, &["x FP64 [-1,-1]"], &[]), model(8, &["x BYTES []", "p? FP32 [1]"], &[])])
        .chain([named(2), named(40)])
        .collect()
}

/// A model whose only input has so many columns, with names as those of [`keys`].
pub fn named(columns: usize) -> Signature {
    let mut signature = model(1 << 20, &[&format!("y FP64 [{columns}]")], &[]);
    signature.inputs[0].labels = (0..columns).map(|it| format!("{it:x}")).collect();
    signature
}

/// Each signature with short bodies, and one of numbers and one of strings with long ones.
pub fn cases() -> Vec<(Signature, usize)> {
    let long = ["x INT64 [-1]", "x BYTES [-1]"].map(|port| model(1 << 20, &[port], &[]));
    let short = signatures().into_iter().flat_map(|it| [(it.clone(), 40), (it, 1_000)]);
    short.chain(long.map(|it| (it, LONG))).collect()
}

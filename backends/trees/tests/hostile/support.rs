//! Loading a file under bounds.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use allocation_counter::measure;
use backend_trees::{
    error::FormatError,
    forest::document::Document,
    forest::{
        document::Transform,
        layout::{Extras, lay_out, lay_out_with},
        packed::Forest,
        shap::Scratch,
        sum::Rows,
    },
    read::read_all,
};
use serde_json::Value;

/// Memory besides three times the file.
const ALLOWANCE: u64 = 16 << 20;
/// Of a thread that loads.
const STACK: usize = 256 << 10;
/// How long the refusal of a file may take. Debug builds are many times slower.
const MOST_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 3000 } else { 100 });

pub fn fixture(path: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/forests");
    std::fs::read(folder.join(path)).expect("a fixture")
}

/// A model of XGBoost as JSON.
pub fn model(name: &str) -> Value {
    serde_json::from_slice(&fixture(&format!("xgboost-3.4.1/{name}.json"))).expect("JSON")
}

/// The error of a load, if it is one.
pub fn load(bytes: &[u8]) -> Result<(), String> {
    forest(bytes).map(drop)
}

/// The last forest that a file becomes, of which most have one.
pub fn forest(bytes: &[u8]) -> Result<Forest, String> {
    let laid = |it: Vec<Document>| {
        it.into_iter().map(lay_out).try_fold(None, |_, it| it.map(|it| Some(it.forest)))
    };
    let none = || FormatError::new("no forest");
    let last = read_all(bytes, None).and_then(laid).and_then(|it| it.ok_or_else(none));
    last.map_err(|it| it.to_string())
}

/// Sends rows through a forest: of nothing that is known, of zeros, and of large numbers.
pub fn walk(forest: &Forest) {
    let values = [f64::NAN, 0.0, f64::INFINITY, -1e30];
    let rows: Vec<f64> = values.iter().flat_map(|it| vec![*it; forest.features]).collect();
    let singles: Vec<f32> = rows.iter().map(|it| *it as f32).collect();
    let rows = match forest.takes_single() {
        true => Rows::Single(&singles),
        false => Rows::Double(&rows),
    };
    match forest.transform {
        Transform::Single(transform) => {
            let mut sums = vec![0f32; values.len() * forest.sums()];
            forest.sums_of(rows, &mut sums);
            sums.chunks_mut(forest.sums()).for_each(|it| transform.apply(it));
        }
        Transform::Double(transform) => {
            let mut sums = vec![0f64; values.len() * forest.sums()];
            forest.sums_of(rows, &mut sums);
            let mut probabilities = Vec::new();
            for row in sums.chunks_mut(forest.sums()) {
                transform.apply(row);
                let calibration = forest.calibration.iter();
                calibration.for_each(|it| it.extend(row.iter().copied(), &mut probabilities));
            }
        }
    }
}

/// What features contribute to rows, and which leaves rows reach, where the file can tell.
pub fn explain(bytes: &[u8]) {
    let extras = Extras { leaves: true, contributions: true };
    let last = |mut it: Vec<Document>| it.pop().ok_or_else(|| FormatError::new("no forest"));
    let laid = read_all(bytes, None).and_then(last).and_then(|it| lay_out_with(it, extras));
    let Ok(forest) = laid.map(|it| it.forest) else { return };
    let mut scratch = Scratch::default();
    let mut into = vec![0.0; forest.sums() * (forest.features + 1)];
    let mut leaves = vec![0; forest.trees.len()];
    for value in [f64::NAN, 0.0, f64::INFINITY, -1e30] {
        let double = vec![value; forest.features];
        let single = vec![value as f32; forest.features];
        let row = match forest.takes_single() {
            true => Rows::Single(&single),
            false => Rows::Double(&double),
        };
        forest.explain(row, &mut scratch, &mut into);
        forest.leaves_of(row, &mut leaves);
    }
}

/// Loads a file on a small stack.
///
/// # Panics
/// Where the load panics, takes too much memory, or too long.
#[track_caller]
pub fn bounded(bytes: Vec<u8>) -> Result<(), String> {
    let length = bytes.len() as u64;
    let run = move || {
        let begin = Instant::now();
        let mut result = None;
        let memory = measure(|| result = Some(load(&bytes))).bytes_max;
        (result.expect("it has run"), memory, begin.elapsed())
    };
    let thread = thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread");
    let (result, memory, took) = thread.join().expect("no panic");
    let most = 3 * length + ALLOWANCE;
    assert!(memory <= most, "{memory} bytes for {length}, {result:?}");
    assert!(took < MOST_TIME, "{took:?}, {result:?}");
    result
}

/// The file is refused with a text that has this part.
#[track_caller]
pub fn refused(bytes: Vec<u8>, expect: &str) {
    match bounded(bytes) {
        Ok(()) => panic!("it is loaded, expected: {expect}"),
        Err(error) => assert!(error.contains(expect), "{error:?}, expected: {expect}"),
    }
}

//! Fixtures, and the way from a document to its answers.

use std::{collections::BTreeMap, path::PathBuf};

use backend_trees::{
    error::FormatError,
    forest::{
        document::{Document, Rounding, Transform},
        layout::lay_out,
        packed::Forest,
        sum::Rows,
    },
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

/// The folder of one library and version.
pub fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/forests").join(name)
}

/// The files of a folder that have one of these endings, with the names of their models.
pub fn files(name: &str, endings: &[&str]) -> Vec<(String, PathBuf)> {
    let entries = folder(name).read_dir().expect("the folder of a library");
    let mut files: Vec<_> = entries
        .map(|it| it.expect("an entry").path())
        .filter(|it| it.extension().is_some_and(|it| endings.iter().any(|ending| it == *ending)))
        .map(|it| {
            let file = it.file_name().expect("a name").to_string_lossy().into_owned();
            (file.split('.').next().expect("a stem").to_owned(), it)
        })
        .collect();
    files.sort();
    files
}

/// `expected.json` of a folder.
pub struct Expected {
    rows: Value,
    models: BTreeMap<String, Value>,
}

impl Expected {
    pub fn read(name: &str) -> Expected {
        let text = std::fs::read(folder(name).join("expected.json")).expect("expectations");
        let mut models: BTreeMap<String, Value> =
            serde_json::from_slice(&text).expect("an object of models");
        Expected { rows: models.remove("rows").expect("rows"), models }
    }

    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    pub fn of(&self, model: &str) -> &Value {
        self.models.get(model).unwrap_or_else(|| panic!("{model} is not expected"))
    }

    /// The rows that a model was asked, as many as it answered.
    pub fn rows(&self, model: &str, answers: &Value) -> Vec<f64> {
        let rows = self.of(model).get("rows").unwrap_or(&self.rows);
        let width = rows["shape"][1].as_u64().expect("columns") as usize;
        let count = answers["shape"][0].as_u64().expect("rows") as usize;
        let mut rows = numbers(rows);
        rows.truncate(count * width);
        rows
    }
}

/// The numbers of a tensor. Those of 32 bits become the same of 64.
pub fn numbers(tensor: &Value) -> Vec<f64> {
    let raw = BASE64_STANDARD.decode(tensor["raw"].as_str().expect("raw")).expect("base64");
    match tensor["datatype"].as_str() {
        Some("FP32") => {
            let (raw, _) = raw.as_chunks::<4>();
            raw.iter().map(|it| f64::from(f32::from_le_bytes(*it))).collect()
        }
        Some("FP64") => {
            let (raw, _) = raw.as_chunks::<8>();
            raw.iter().map(|it| f64::from_le_bytes(*it)).collect()
        }
        other => panic!("datatype {other:?}"),
    }
}

/// A document's sums and predictions of some rows, in 64 bits whatever it computes in.
pub fn answers(document: Document, rows: &[f64]) -> Result<(Vec<f64>, Vec<f64>), FormatError> {
    let forest = lay_out(document)?.forest;
    let rounded: Vec<f64> = match forest.rounding {
        Rounding::Single => rows.iter().map(|it| f64::from(*it as f32)).collect(),
        Rounding::Double => rows.to_vec(),
    };
    let rows = &rounded[..];
    let count = rows.len() / forest.features;
    let singles: Vec<f32> = rows.iter().map(|it| *it as f32).collect();
    Ok(match forest.transform {
        Transform::Single(transform) => {
            let mut sums = vec![0f32; count * forest.sums()];
            forest.sums_of(typed(&forest, rows, &singles), &mut sums);
            let mut predictions = Vec::new();
            for row in sums.clone().chunks_mut(forest.sums()) {
                transform.apply(row);
                predictions.extend(row[..forest.width()].iter().map(|it| f64::from(*it)));
            }
            (sums.into_iter().map(f64::from).collect(), predictions)
        }
        Transform::Double(transform) => {
            let mut sums = vec![0f64; count * forest.sums()];
            forest.sums_of(typed(&forest, rows, &singles), &mut sums);
            let mut predictions = Vec::new();
            for row in sums.clone().chunks_mut(forest.sums()) {
                transform.apply(row);
                predictions.extend(&row[..forest.width()]);
            }
            (sums, predictions)
        }
    })
}

fn typed<'a>(forest: &Forest, rows: &'a [f64], singles: &'a [f32]) -> Rows<'a> {
    match forest.takes_single() {
        true => Rows::Single(singles),
        false => Rows::Double(rows),
    }
}

/// How the bits of the first number that differs are; `None` where all are equal.
pub fn difference(found: &[f64], expected: &[f64]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} numbers, expected {}", found.len(), expected.len()));
    }
    let differ = |(found, expected): &(&f64, &f64)| {
        found.to_bits() != expected.to_bits() && !(found.is_nan() && expected.is_nan())
    };
    let pairs = || found.iter().zip(expected);
    let count = pairs().filter(differ).count();
    let (at, (found, expected)) = pairs().enumerate().find(|(_, it)| differ(it))?;
    Some(format!("{count} differ, the first at {at}: {found:e}, expected {expected:e}"))
}

//! Whole configurations, completed: what becomes of them, and every way in which they are refused.

mod completion;
mod fitting;
mod refusals;
mod sequences;

use std::{fs, path::Path};

use backend::DataType;

use super::*;
use crate::config::{
    choose::{VersionFiles, choose},
    engines::usual,
    pbtxt::ConfigReader,
};

const FULL: &str = "input { name: 'pixels' data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }
                    output { name: 'scores' data_type: TYPE_FP32 dims: [ 1000 ] }";

/// `-1` is a free dimension.
fn tensor(name: &str, dtype: DataType, dims: &[i64]) -> TensorSpec {
    let dims = dims.iter().map(|&it| usize::try_from(it).ok()).collect();
    TensorSpec { name: name.into(), dtype, dims, any_rank: false, optional: false }
}

fn model(inputs: &[TensorSpec], outputs: &[TensorSpec]) -> ModelSpec {
    ModelSpec { inputs: inputs.to_vec(), outputs: outputs.to_vec(), ..ModelSpec::default() }
}

/// An image classifier that can batch.
fn classifier() -> ModelSpec {
    model(
        &[tensor("pixels", DataType::Fp32, &[-1, 3, 224, 224])],
        &[tensor("scores", DataType::Fp32, &[-1, 1000])],
    )
}

fn completed(
    name: &str,
    text: &str,
    spec: Option<&ModelSpec>,
    defaults: &Defaults,
) -> Result<Completed, ConfigErrors> {
    let raw = ConfigReader::default().parse_text("config.pbtxt", text).unwrap();
    let files = ["model.onnx".to_owned()];
    let found =
        VersionFiles { model: name, directory: Path::new("/repository/m/1"), files: &files };
    let choice = choose(Some(&raw), found, &usual(), Completion::On)?;
    complete(Some(&raw), name, &choice, &usual(), spec, defaults)
}

/// Refused with exactly these problems, for a model that can batch.
#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    refused_for(&classifier(), text, expected);
}

#[track_caller]
fn refused_for(spec: &ModelSpec, text: &str, expected: &[&str]) {
    let errors = completed("m", text, Some(spec), &Defaults::default()).unwrap_err();
    assert_eq!(errors.model, "m");
    assert_eq!(errors.problems, expected);
}

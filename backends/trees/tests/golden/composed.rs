//! Estimators of several libraries within each other: pipelines, searches and calibrated classifiers, asked as a server
//! asks them.

use std::path::Path;

use backend::{
    Backend, BackendError, Batch, DataType, Device, ModelSource, NamedTensor, Shape, Stop, Tensor,
};
use backend_trees::Trees;
use serde_json::Value;

use crate::support::{Expected, difference, files, numbers};

/// How far an answer may be from scikit-learn's. XGBoost's and LightGBM's are equal.
const WITHIN: f64 = 1e-12;

/// What each output of a model is for these rows.
fn ask(path: &Path, rows: &[f64], count: usize) -> Result<Vec<NamedTensor>, BackendError> {
    let model = Trees.load(&ModelSource::new("m", path))?;
    let spec = model.spec().expect("a spec");
    let shape = Shape::new(&[count, rows.len() / count]);
    let tensor = match spec.inputs[0].dtype {
        DataType::Fp32 => Tensor::from_vec(shape, rows.iter().map(|it| *it as f32).collect()),
        _ => Tensor::from_vec(shape, rows.to_vec()),
    };
    let tensor = tensor.expect("rows");
    let inputs = [NamedTensor { name: spec.inputs[0].name.clone(), tensor }];
    let outputs: Vec<_> = spec.outputs.iter().map(|it| it.name.clone()).collect();
    let stop = Stop::new();
    let batch =
        Batch { inputs: &inputs, outputs: &outputs, rows: count, stop: &stop, signature: 0 };
    model.instantiate(Device::Cpu)?.execute(&batch)
}

/// The numbers of an answer, of 32 or of 64 bits.
fn floats(tensor: &Tensor) -> Vec<f64> {
    match tensor.as_slice_of::<f32>() {
        Some(singles) if tensor.dtype() == DataType::Fp32 => {
            singles.iter().map(|it| f64::from(*it)).collect()
        }
        _ => tensor.as_slice_of::<f64>().expect("FP32 or FP64").to_vec(),
    }
}

fn labels(tensor: &Tensor) -> Vec<Value> {
    match tensor.dtype() {
        DataType::Bytes => {
            tensor.strings().map(|it| String::from_utf8_lossy(it).into_owned().into()).collect()
        }
        _ => tensor.as_slice_of::<i64>().expect("INT64").iter().map(|it| (*it).into()).collect(),
    }
}

fn wrong(expected: &Expected, model: &str, path: &Path) -> Option<String> {
    let of_model = expected.of(model);
    let outputs = &of_model["outputs"];
    let rows = expected.rows(model, outputs);
    let count = outputs["shape"][0].as_u64()? as usize;
    let answers = match ask(path, &rows, count) {
        Ok(answers) => answers,
        Err(error) => return Some(error.to_string()),
    };
    let (found, library) = (floats(&answers.last()?.tensor), numbers(outputs));
    let is_single = outputs["datatype"] == "FP32";
    let is_booster = ["xgb", "lgbm"].iter().any(|it| model.starts_with(it));
    let is_calibrated = ["sigmoid", "isotonic"].iter().any(|it| model.contains(it));
    // Where XGBoost predicts in place, it adds and takes away the base of each tree of dart, which rounds.
    let is_rounded = model == "xgb_scaled_dart";
    if is_booster && !is_calibrated && !is_rounded {
        if is_single != (answers.last()?.tensor.dtype() == DataType::Fp32) {
            return Some("answers of another type".to_owned());
        }
        if let Some(difference) = difference(&found, &library) {
            return Some(difference);
        }
    }
    let within = if is_rounded { f64::from(f32::EPSILON) } else { WITHIN };
    let is_far = |(a, b): &(&f64, &f64)| {
        a.is_nan() || b.is_nan() || within * b.abs().max(1.0) < (*a - *b).abs()
    };
    if found.len() != library.len() {
        return Some(format!("{} numbers, expected {}", found.len(), library.len()));
    }
    if let Some((at, (a, b))) = found.iter().zip(&library).enumerate().find(|(_, it)| is_far(it)) {
        return Some(format!("{a:?} at {at}, expected {b:?}"));
    }
    let expected = of_model.get("labels")?.as_array()?;
    let found = labels(&answers[0].tensor);
    (answers[0].name.as_ref() != "label" || found != *expected)
        .then(|| format!("{}: {found:?}, expected {expected:?}", answers[0].name))
}

#[test]
fn golden_composed() {
    let mut problems = Vec::new();
    for (version, least) in [("1.1.3", 43), ("1.9.1", 45)] {
        let folder = format!("../composed/{version}");
        let expected = Expected::read(&folder);
        let files = files(&folder, &["joblib", "pkl"]);
        assert!(least <= files.len(), "{} files of {version}", files.len());
        for (model, path) in files {
            let problem = wrong(&expected, &model, &path);
            problems.extend(problem.map(|it| format!("{}: {it}", path.display())));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

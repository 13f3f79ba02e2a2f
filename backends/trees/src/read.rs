//! The bytes of a file become a document, whatever their format. Pure.

use crate::{
    error::FormatError,
    forest::document::Document,
    inflate::inflate,
    lightgbm,
    pickle::{self, value::Pickle},
    sklearn,
    sniff::{BEGIN, FileFormat, is_lightgbm_dump, packed_otherwise, sniff},
    treelite,
    xgboost::{self, pickled},
};

/// Reads a file of any format that holds one forest. `objective` takes the place of the objective of a file of XGBoost.
///
/// # Errors
/// What is wrong, and where; the file holds several forests.
pub fn read(bytes: &[u8], objective: Option<&str>) -> Result<Document, FormatError> {
    let mut all = read_all(bytes, objective)?;
    match (all.pop(), all.len()) {
        (Some(only), 0) => Ok(only),
        _ => Err(FormatError::new("it holds several forests, expected one")),
    }
}

/// Reads a file of any format: one forest, or several that are one model, whose answers are averaged.
///
/// # Errors
/// What is wrong, and where.
pub fn read_all(bytes: &[u8], objective: Option<&str>) -> Result<Vec<Document>, FormatError> {
    let alone = |it| vec![it];
    match format_of(bytes) {
        Some(FileFormat::Lightgbm) => lightgbm::read(bytes).map(alone),
        Some(FileFormat::Treelite) => treelite::read(bytes).map(alone),
        Some(FileFormat::Skops) => sklearn::from_skops(bytes),
        Some(FileFormat::Pickle) => from_pickle(&pickle::read(bytes)?, objective),
        Some(FileFormat::Packed(packing)) => {
            let inflated = inflate(bytes, packing)?;
            match format_of(&inflated) {
                Some(FileFormat::Pickle) => from_pickle(&pickle::read(&inflated)?, objective),
                _ => Err(FormatError::new("there is no pickle of joblib in this compressed file")),
            }
        }
        Some(
            FileFormat::XgboostJson | FileFormat::XgboostUbj | FileFormat::XgboostLegacy,
        ) => xgboost::read(bytes)?.into_document(objective).map(alone),
        None => Err(FormatError::new(match packed_otherwise(bytes) {
            Some(method) => format!(
                "it is packed by {method}, which is none of joblib's methods: joblib.dump(model, path, compress=0)"
            ),
            None if is_lightgbm_dump(begin_of(bytes)) => "this is JSON of LightGBM's dump_model: save the model with \
                                                          save_model('model.txt')"
                .to_owned(),
            None => "this is no tree model by its first bytes: expected a file that XGBoost's or LightGBM's save_model \
                     wrote, a pickle of a model of XGBoost or scikit-learn, a file of skops, or a checkpoint of \
                     treelite"
                .to_owned(),
        })),
    }
}

/// Does the file hold an object of Python's, whatever that is?
pub fn is_of_python(bytes: &[u8]) -> bool {
    let formats = [Some(FileFormat::Pickle), Some(FileFormat::Skops)];
    formats.contains(&format_of(bytes)) || matches!(format_of(bytes), Some(FileFormat::Packed(_)))
}

fn format_of(bytes: &[u8]) -> Option<FileFormat> {
    sniff(begin_of(bytes))
}

fn begin_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(BEGIN)]
}

fn from_pickle(pickle: &Pickle, objective: Option<&str>) -> Result<Vec<Document>, FormatError> {
    if !pickled::is_pickled(pickle) {
        let class = pickle.class(pickle.root());
        let packages = ["sklearn.", "lightgbm."];
        let is_of_these = |module: &str| packages.iter().any(|it| module.starts_with(it));
        return match class.is_some_and(|(module, _)| is_of_these(module)) {
            true => sklearn::from_pickle(pickle, "pickle"),
            false => Err(refusal(pickle)),
        };
    }
    let found = pickled::find(pickle)?;
    let mut learner = xgboost::read(&found.model)?;
    for (name, value) in found.attributes {
        learner.attributes.insert(name.to_owned(), value);
    }
    learner.is_of_estimator = found.is_estimator;
    let mut document = learner.into_document(objective)?;
    document.missing = found.missing;
    document.is_pickled_booster = !found.is_estimator;
    Ok(vec![document])
}

/// What a pickle of something else is, and how to get a file that is read.
fn refusal(pickle: &Pickle) -> FormatError {
    let root = pickle.root();
    let Some((module, name)) = pickle.class(root).or_else(|| pickle.global(root)) else {
        return FormatError::new(
            "this pickle holds no model, but plain values: save the fitted model itself",
        );
    };
    let advice = match module.split('.').next() {
        Some("catboost") => "save it with model.save_model('model.onnx', format='onnx')",
        _ => {
            "only models of XGBoost, LightGBM and scikit-learn are read from pickles, and nothing of a pickle is ever run"
        }
    };
    FormatError::new(format!("this is a pickle of {module}.{name}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(file: &[u8], expect: &str) {
        let error = read(file, None).expect_err("it is read").to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn a_pickle_of_something_else_is_refused_by_name() {
        refused(
            b"\x80\x04cposix\nsystem\n(X\x02\0\0\0lstR.",
            "this is a pickle of posix.system: only models",
        );
        refused(
            b"\x80\x04clightgbm.sklearn\nLGBMClassifier\n)\x81.",
            "LGBMClassifier has no _Booster: it was not fitted",
        );
        let expect = "it holds sklearn.svm._classes.SVC; of scikit-learn trees";
        refused(b"\x80\x04csklearn.svm._classes\nSVC\n)\x81.", expect);
        refused(b"\x80\x04}.", "this pickle holds no model");
    }

    #[test]
    fn a_booster_that_brings_a_call_along_is_refused() {
        let file = b"\x80\x04cxgboost.core\nBooster\n)\x81}X\x01\0\0\0xcposix\nsystem\n(X\x02\0\0\0lstRsb.";
        refused(file, "would call posix.system");
        refused(b"\x80\x04cxgboost.core\nBooster\n)\x81}b.", "holds no model: it was not trained");
        refused(
            b"\x80\x04cxgboost.core\nBooster\n)\x81}X\x06\0\0\0handleC\x03abcsb.",
            "the model in this pickle is of no format of XGBoost's",
        );
        // A pickle within a pickle is none of its formats.
        refused(
            b"\x80\x04cxgboost.core\nBooster\n)\x81}X\x06\0\0\0handleC\x05\x80\x04}..sb.",
            "the model in this pickle is of no format of XGBoost's",
        );
    }

    #[test]
    fn what_cannot_be_unpacked_is_refused_by_name() {
        refused(b"\x28\xb5\x2f\xfd", "packed by Zstandard");
        refused(b"BZh91AY", "it cannot be inflated");
        refused(b"\xfd7zXZ\0", "the xz file ends too early");
        refused(b"\x04\x22\x4d\x18", "it cannot be inflated");
        refused(b"{\"name\": \"tree\", \"version\": \"v4\"}", "save_model('model.txt')");
        refused(b"<html>", "this is no tree model by its first bytes");
    }
}

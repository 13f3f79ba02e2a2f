//! What XGBoost's container lets its operators choose: what replies say, and how.

use std::sync::Arc;

use crate::codec::xgboost::{OutputKey, XgboostCsv, XgboostOptions};
use configuration::{Flag, Sources, value::Parse};
use formats::libsvm::IndexBase;

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("sagemaker-inference-output", "", "What replies in XGBoost's dialect say of each prediction, with commas between: predicted_label, labels, probability, probabilities, raw_score, raw_scores, predicted_score. Default: the prediction").named("KEYS"),
    Flag::value("xgboost-csv", "lines", "Predictions in a CSV reply in XGBoost's dialect: lines, or joined by commas as from images before 2022").named("FORMAT"),
    Flag::value("libsvm-index-base", "auto", "Index of the first column in libsvm bodies: 0, 1, or auto for 1 where a body has no index 0").named("INDEX"),
];

/// Reads them.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> XgboostOptions {
    let output = sources.read("sagemaker-inference-output", output, problems);
    XgboostOptions {
        output: output.unwrap_or_default(),
        csv: sources.read("xgboost-csv", csv, problems).unwrap_or_default(),
        index_base: sources.read("libsvm-index-base", index_base, problems).unwrap_or_default(),
    }
}

/// Names of keys, in any case of letters, with commas between them.
fn output(text: &str) -> Parse<Arc<[OutputKey]>> {
    let key = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        OutputKey::ALL.into_iter().find(|it| it.name() == name)
    };
    let keys: Option<Vec<OutputKey>> = text.split(',').map(key).collect();
    let distinct = |keys: &Vec<OutputKey>| {
        let first = |key| keys.iter().position(|it| it == key);
        keys.iter().enumerate().all(|(at, key)| first(key) == Some(at))
    };
    keys.filter(distinct).map(Arc::from).ok_or_else(|| {
        let names = OutputKey::ALL.map(OutputKey::name).join(", ");
        format!("keys with commas between them, none twice, out of {names}")
    })
}

fn csv(text: &str) -> Parse<XgboostCsv> {
    match text {
        "lines" => Ok(XgboostCsv::Lines),
        "joined" => Ok(XgboostCsv::Joined),
        _ => Err("lines or joined".to_owned()),
    }
}

fn index_base(text: &str) -> Parse<IndexBase> {
    match text {
        "auto" => Ok(IndexBase::Auto),
        "0" => Ok(IndexBase::Zero),
        "1" => Ok(IndexBase::One),
        _ => Err("auto, 0 or 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_none_comes_twice() {
        let keys = output("Probabilities, predicted_label").unwrap();
        assert_eq!(*keys, [OutputKey::Probabilities, OutputKey::PredictedLabel]);
        for wrong in ["", "labels,", "label", "labels,labels"] {
            let allowed = output(wrong).unwrap_err();
            assert!(allowed.ends_with("raw_score, raw_scores, predicted_score"), "{wrong}");
        }
    }
}

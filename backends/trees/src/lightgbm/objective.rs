//! LightGBM's objectives: from raw scores to predictions. Pure.

use crate::{error::FormatError, forest::double::Transform};

/// What the header says of the objective.
#[derive(Debug, PartialEq)]
pub(super) struct Objective {
    /// Its name; empty where there is none.
    pub(super) name: String,
    /// From raw scores to predictions.
    pub(super) transform: Transform,
    /// Does it tell two classes apart?
    pub(super) is_binary: bool,
}

/// Reads a text such as `binary sigmoid:1`. An empty one is that of a model with an objective of its user's own.
pub(super) fn read(text: &str) -> Result<Objective, FormatError> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let scale = || match text.split_whitespace().find_map(|it| it.strip_prefix("sigmoid:")) {
        None => Ok(1.0),
        Some(given) => {
            given.parse().ok().filter(|it: &f64| 0.0 < *it && it.is_finite()).ok_or_else(|| {
                FormatError::new(format!("objective {text:?}: sigmoid is not a number above 0"))
            })
        }
    };
    let transform = match name {
        "binary" | "multiclassova" => Transform::Logistic { scale: scale()? },
        // Until 2.3 they had shorter names in files.
        "cross_entropy" | "xentropy" => Transform::Logistic { scale: 1.0 },
        "multiclass" => Transform::Softmax,
        "poisson" | "gamma" | "tweedie" => Transform::Exponential,
        "cross_entropy_lambda" | "xentlambda" => Transform::LogOnePlusExponential,
        "regression" if words.any(|it| it == "sqrt") => Transform::SignedSquare,
        "" | "custom" | "regression" | "regression_l1" | "huber" | "fair" | "quantile" | "mape"
        | "lambdarank" | "rank_xendcg" => Transform::Identity,
        _ => return Err(FormatError::new(format!("objective {name:?} of LightGBM is not known"))),
    };
    Ok(Objective { name: name.to_owned(), transform, is_binary: name == "binary" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_objectives_are_heeded() {
        let transform = |text| read(text).map(|it| it.transform);
        assert_eq!(transform("binary sigmoid:0.7"), Ok(Transform::Logistic { scale: 0.7 }));
        assert_eq!(transform("regression sqrt"), Ok(Transform::SignedSquare));
        for (old, name) in [("xentropy", "cross_entropy"), ("xentlambda", "cross_entropy_lambda")] {
            assert_eq!(transform(old), Ok(transform(name).unwrap()));
        }
        assert_eq!(transform("regression"), Ok(Transform::Identity));
        assert_eq!(transform(""), Ok(Transform::Identity));
        for wrong in ["binary sigmoid:0", "binary sigmoid:x", "multiclassova sigmoid:NaN", "other"]
        {
            assert!(transform(wrong).is_err(), "{wrong}");
        }
    }
}

//! What an XGBoost model was trained for, which says what its predictions are, and what can be said of them.

use super::options::OutputKey;
use inference::error::Error;

/// The families of XGBoost's objectives that differ in their predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// A number: `reg:*`, `count:*`, `rank:*`, `survival:*`.
    Regression,
    /// The probability of class 1: `binary:logistic`.
    Logistic,
    /// The score of class 1 before it is a probability: `binary:logitraw`.
    LogitRaw,
    /// Class 0 or 1: `binary:hinge`.
    Hinge,
    /// A class: `multi:softmax`.
    Softmax,
    /// The probability of each class: `multi:softprob`.
    Softprob,
}

/// The model parameter that names it.
pub const PARAMETER: &str = "xgboost_objective";

/// The model parameter with the number of classes.
pub const CLASSES: &str = "num_class";

/// The model parameter with the number of labels, targets or quantiles.
pub const TARGETS: &str = "num_target";

/// The model parameter that is there where the model is a `Booster` in a pickle.
pub const PICKLED: &str = "xgboost_pickled";

impl Objective {
    /// The objective that the text of a model's parameter names.
    ///
    /// # Errors
    /// When XGBoost has no such objective.
    pub fn from_name(name: &str) -> Result<Objective, Error> {
        let (family, _) = name.split_once(':').unwrap_or_default();
        Ok(match name {
            "binary:logistic" => Objective::Logistic,
            "binary:logitraw" => Objective::LogitRaw,
            "binary:hinge" => Objective::Hinge,
            "multi:softmax" => Objective::Softmax,
            "multi:softprob" => Objective::Softprob,
            _ if ["reg", "count", "rank", "survival"].contains(&family) => Objective::Regression,
            _ => {
                return Err(Error::Internal(format!(
                    "model parameter {PARAMETER}: expected reg:*, count:*, rank:*, survival:*, \
                     binary:logistic, binary:logitraw, binary:hinge, multi:softmax or multi:softprob, \
                     given '{name}'"
                )));
            }
        })
    }

    /// Can this be said of its predictions? As the container has it.
    pub fn knows(self, key: OutputKey) -> bool {
        let scores = [
            OutputKey::PredictedLabel,
            OutputKey::Labels,
            OutputKey::RawScore,
            OutputKey::RawScores,
        ];
        match self {
            Objective::Regression => key == OutputKey::PredictedScore,
            Objective::Logistic | Objective::Softprob => key != OutputKey::PredictedScore,
            Objective::LogitRaw | Objective::Hinge | Objective::Softmax => scores.contains(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_known_by_xgboosts_names() {
        for (name, objective) in [
            ("reg:squarederror", Objective::Regression),
            ("count:poisson", Objective::Regression),
            ("binary:logistic", Objective::Logistic),
            ("multi:softprob", Objective::Softprob),
        ] {
            assert_eq!(Objective::from_name(name), Ok(objective));
        }
        let error = Objective::from_name("softmax").unwrap_err().to_string();
        assert!(
            error.contains("model parameter xgboost_objective") && error.ends_with("'softmax'")
        );
    }

    #[test]
    fn each_objective_knows_the_keys_of_the_container() {
        let known = |objective: Objective| {
            OutputKey::ALL
                .into_iter()
                .filter(|it| objective.knows(*it))
                .map(OutputKey::name)
                .collect::<Vec<_>>()
        };
        let scores = ["predicted_label", "labels", "raw_score", "raw_scores"];
        assert_eq!(known(Objective::Regression), ["predicted_score"]);
        assert_eq!(known(Objective::Softmax), scores);
        assert_eq!(known(Objective::Logistic).len(), 6);
    }
}

//! What can be chosen of bodies and replies in XGBoost's dialect.

use std::sync::Arc;

use formats::libsvm::IndexBase;

/// What is chosen of bodies and replies in XGBoost's dialect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XgboostOptions {
    /// `--sagemaker-inference-output`: what replies say of each prediction, in this order; empty for the prediction.
    pub output: Arc<[OutputKey]>,
    /// `--xgboost-csv`: how predictions stand in a CSV reply.
    pub csv: XgboostCsv,
    /// `--libsvm-index-base`: which index is that of the first column.
    pub index_base: IndexBase,
}

/// Where the predictions of a CSV reply stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum XgboostCsv {
    /// Each on a line.
    #[default]
    Lines,
    /// All on one line without an end, as from images before spring 2022.
    Joined,
}

/// What can be said of a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKey {
    /// The class that is predicted.
    PredictedLabel,
    /// All classes.
    Labels,
    /// The probability of the class that is predicted; of two classes, of class 1.
    Probability,
    /// The probability of each class.
    Probabilities,
    /// What the model says of that class.
    RawScore,
    /// What it says of each.
    RawScores,
    /// The number that is predicted.
    PredictedScore,
}

impl OutputKey {
    /// Every key, in the order in which they are listed.
    pub const ALL: [OutputKey; 7] = [
        OutputKey::PredictedLabel,
        OutputKey::Labels,
        OutputKey::Probability,
        OutputKey::Probabilities,
        OutputKey::RawScore,
        OutputKey::RawScores,
        OutputKey::PredictedScore,
    ];

    /// Its name in settings and replies.
    pub fn name(self) -> &'static str {
        match self {
            OutputKey::PredictedLabel => "predicted_label",
            OutputKey::Labels => "labels",
            OutputKey::Probability => "probability",
            OutputKey::Probabilities => "probabilities",
            OutputKey::RawScore => "raw_score",
            OutputKey::RawScores => "raw_scores",
            OutputKey::PredictedScore => "predicted_score",
        }
    }
}

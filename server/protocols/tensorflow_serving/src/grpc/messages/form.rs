//! The forms of responses of TensorFlow Serving's calls.

use formats::tfs::Results;

/// The form of the response.
pub enum Form {
    /// `PredictResponse`.
    Predict,
    /// `ClassificationResponse` or `RegressionResponse`.
    One(Results),
    /// `MultiInferenceResponse`, a result for each task.
    Many(Vec<Results>),
}

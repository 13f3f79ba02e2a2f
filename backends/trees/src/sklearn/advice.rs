//! What to do with an estimator that is not served.

/// With splits by categories. skl2onnx takes their categories for thresholds.
pub(super) const CATEGORIES: &str = "categories are not read from scikit-learn's files, and skl2onnx does not convert \
    them; train on encoded columns (OneHotEncoder, without categorical_features), or train LightGBM or XGBoost, whose \
    categories are served, and save with save_model";

//! `docs/sagemaker.md`: everything in the contracts of SageMaker and of the containers that run there has one row.

use super::tables;

const DOCUMENT: &str = "docs/sagemaker.md";

/// The headings, each above one table.
const HEADINGS: &[&str] = &[
    "A local SageMaker runtime",
    "Bodies and replies",
    "Data capture",
    "Hosting",
    "Metrics",
    "Multi-model endpoints",
    "Sessions and streaming",
    "TensorFlow Serving",
    "XGBoost",
];

#[test]
fn every_row_has_a_state_and_a_test_that_exists() {
    tables::check_rows(DOCUMENT, HEADINGS);
}

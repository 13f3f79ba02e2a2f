//! `docs/reference/sagemaker.md`: everything in the contracts of SageMaker and of the containers that run there has
//! one row, and in `sagemaker.tests` the tests that hold it.

use configuration::compat::sagemaker::VariableState;
use muster::config::sagemaker_variables;

use super::tables::{self, IGNORED, WORKS};

const DOCUMENT: &str = "docs/reference/sagemaker.md";

/// The tests of each row.
const TESTS: &str = "tests/kserve/compatibility/sagemaker.tests";

const VARIABLES: &str = "Environment variables";

/// What the note of a variable says by which a dialect is chosen, and nothing else.
const TELLS: &str = "No setting of its own; tells whose container is meant";

/// The headings, each above one table.
const HEADINGS: &[&str] = &[
    "A local SageMaker runtime",
    "Bodies and replies",
    "Data capture",
    "Environment variables",
    "Hosting",
    "Metrics",
    "Multi-model endpoints",
    "Sessions and streaming",
    "TensorFlow Serving",
    "TensorFlow Serving's operators",
    "XGBoost",
];

#[test]
fn every_row_has_a_test_that_exists() {
    tables::check_rows(DOCUMENT, TESTS, HEADINGS);
}

#[test]
fn every_variable_has_a_row() {
    let variables = sagemaker_variables();
    tables::check_complete(DOCUMENT, VARIABLES, variables.iter().map(|it| it.0.clone()));
    for row in tables::table(DOCUMENT, VARIABLES) {
        let variable = variables.iter().find(|it| it.0 == row.item).unwrap();
        let state = match variable.1 {
            VariableState::Works => WORKS,
            VariableState::Tells | VariableState::WithoutEffect => IGNORED,
        };
        assert_eq!(row.state, state, "{}", row.item);
        let tells = row.note.contains(TELLS);
        assert_eq!(tells, variable.1 == VariableState::Tells, "{}: {}", row.item, row.note);
    }
}

//! Files of XGBoost, and what XGBoost answers.

use backend_trees::{forest::document::Document, read::read};
use serde_json::Value;

use crate::support::{Expected, answers, difference, files, folder, numbers};

/// How the answers of a document differ, if they do.
fn differences(document: &Document, expected: &Expected, model: &str) -> Vec<String> {
    let of_model = expected.of(model);
    let mut found = Vec::new();
    let mut compare = |document: Document, name: &str, is_margin: bool| {
        let Some(tensor) = of_model.get(name) else {
            return found.push(format!("no {name} are expected"));
        };
        let mut rows = expected.rows(model, tensor);
        // The server makes NaN of such numbers before it asks the forest.
        rows.iter_mut().filter(|it| Some(**it) == document.missing).for_each(|it| *it = f64::NAN);
        let (margins, predictions) = match answers(document, &rows) {
            Ok(answers) => answers,
            Err(error) => return found.push(error.to_string()),
        };
        let given = if is_margin { margins } else { predictions };
        let expected = numbers(tensor);
        let problem = match of_model.get("within").and_then(Value::as_f64) {
            Some(within) => far(&given, &expected, within),
            None => difference(&given, &expected),
        };
        found.extend(problem.map(|it| format!("{name}: {it}")));
    };
    compare(document.clone(), "margins", true);
    compare(document.clone(), "predictions", false);
    if of_model.get("best").is_some() {
        let round = document.best_round.expect("the best round");
        let mut best = document.clone();
        best.trees.truncate(best.rounds[round + 1]);
        best.rounds.clear();
        compare(best, "best", true);
    }
    found
}

/// The first number that is not near enough.
fn far(found: &[f64], expected: &[f64], within: f64) -> Option<String> {
    let is_far = |(found, expected): &(&f64, &f64)| {
        within * expected.abs().max(1.0) < (*found - *expected).abs()
    };
    let (at, it) = found.iter().zip(expected).enumerate().find(|(_, it)| is_far(it))?;
    Some(format!("{at}: {it:?}"))
}

/// Each file of a folder with such an ending, of which there are so many or more.
fn check(name: &str, endings: &[&str], least: usize) -> Vec<String> {
    let expected = Expected::read(name);
    let mut files = files(name, endings);
    files.retain(|(model, _)| model != "expected" && model != "contributions");
    assert!(least <= files.len(), "{name} has {} files", files.len());
    let mut found = Vec::new();
    for (model, path) in files {
        let bytes = std::fs::read(&path).expect("a fixture");
        let problems = match read(&bytes, None) {
            Ok(document) => differences(&document, &expected, &model),
            Err(error) => vec![error.to_string()],
        };
        found.extend(problems.iter().map(|it| format!("{}: {it}", path.display())));
    }
    found
}

/// Kinds of models besides single trees of numbers for one output: categories, leaves of vectors, several outputs,
/// other boosters, rankings, forests, and columns of data frames.
const KINDS: [&str; 18] = [
    "categories_one_hot",
    "categories_sets",
    "vectors",
    "vectors_softprob",
    "targets",
    "labels",
    "dart",
    "dart_softprob",
    "gblinear",
    "gblinear_softprob",
    "quantile",
    "quantiles",
    "expectiles",
    "expectiles_equal",
    "pairwise",
    "map",
    "forest",
    "frame",
];

#[test]
fn golden_kinds() {
    let expected = Expected::read("xgboost-3.4.1");
    for kind in KINDS {
        for ending in ["json", "ubj"] {
            let path = folder("xgboost-3.4.1").join(format!("{kind}.{ending}"));
            let bytes =
                std::fs::read(&path).unwrap_or_else(|it| panic!("{}: {it}", path.display()));
            let document = read(&bytes, None).unwrap_or_else(|it| panic!("{kind}.{ending}: {it}"));
            let found = differences(&document, &expected, kind);
            assert!(found.is_empty(), "{kind}.{ending}: {}", found.join("; "));
        }
    }
}

#[test]
fn golden_xgboost() {
    let mut found = check("xgboost-0.90", &["bin", "pkl"], 46);
    found.extend(check("xgboost-1.2.1", &["json", "bin", "pkl"], 75));
    let endings = ["json", "ubj", "bin", "pkl", "joblib"];
    found.extend(check("xgboost-1.7.6", &endings, 95));
    found.extend(check("xgboost-3.2.0", &endings, 75));
    found.extend(check("xgboost-3.4.1", &endings, 85));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn pickles_say_what_they_mean_by_missing_and_where_training_stopped() {
    let document = |version: &str, file: &str| {
        let path = folder(&format!("xgboost-{version}")).join(file);
        read(&std::fs::read(path).expect("a fixture"), None).expect("a model")
    };
    for version in ["1.7.6", "3.2.0"] {
        assert_eq!(document(version, "classifier_missing.joblib").missing, Some(-999.0));
        assert_eq!(document(version, "classifier_missing.zlib.joblib").missing, Some(-999.0));
        assert_eq!(document(version, "classifier.pkl").missing, None);
    }
    for version in ["0.90", "1.2.1", "1.7.6"] {
        let document = document(version, "early.pkl");
        assert_eq!((document.best_round, document.best_trees), (Some(7), Some(8)), "{version}");
    }
}

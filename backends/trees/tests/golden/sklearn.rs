//! Estimators of scikit-learn in archives of skops, files of joblib, and pickles.

use backend_trees::read::read;

use crate::support::{Expected, answers, files, folder, numbers};

/// How far an answer may be from scikit-learn's.
const WITHIN: f64 = 1e-12;

/// What is not served, and a part of the text that says so.
const REFUSED: [(&str, &str); 5] = [
    ("svc", "sklearn.svm._classes.SVC"),
    // A forest of one tree that is referred to ten thousand times.
    ("shared", "the trees have more nodes than the file has bytes for"),
    (
        "hist_gradient_boosting_categories",
        "it was trained with categories: categories are not read",
    ),
    (
        "categories",
        "a split by categories: categories are not read from scikit-learn's files, and skl2onnx does not",
    ),
    ("several_targets", "train one for each target, or convert it to ONNX, with skl2onnx"),
];

fn far(found: &[f64], expected: &[f64]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} numbers, expected {}", found.len(), expected.len()));
    }
    let is_far = |(a, b): &(&f64, &f64)| WITHIN * b.abs().max(1.0) < (*a - *b).abs();
    let (at, it) = found.iter().zip(expected).enumerate().find(|(_, it)| is_far(it))?;
    Some(format!("the answer at {at}: {it:?}"))
}

fn wrong(expected: &Expected, model: &str, bytes: &[u8]) -> Option<String> {
    let document = read(bytes, None);
    if let Some((_, text)) = REFUSED.iter().find(|it| it.0 == model) {
        let error = document.err().map(|it| it.to_string()).unwrap_or_default();
        return (!error.contains(text)).then_some(format!("expected {text:?}, found {error:?}"));
    }
    let of_model = expected.of(model);
    let tensor = &of_model["outputs"];
    let rows = expected.rows(model, tensor);
    let (sums, predictions) = match document.and_then(|it| answers(it, &rows)) {
        Ok(answers) => answers,
        Err(error) => return Some(error.to_string()),
    };
    if !matches!(model, "isolation_forest" | "isolation") {
        return far(&predictions, &numbers(tensor));
    }
    // The library's `predict`, and its scores of the sums.
    let labels: Vec<f64> =
        of_model["labels"].as_array()?.iter().filter_map(serde_json::Value::as_f64).collect();
    let scores: Vec<f64> = sums.iter().map(|it| -(-it).exp2()).collect();
    far(&predictions, &labels).or_else(|| far(&scores, &numbers(tensor)))
}

/// Folders, and how many files are in each at least.
fn check(folders: &[(String, usize)]) {
    let mut problems = Vec::new();
    for (folder, least) in folders {
        let (folder, least) = (&**folder, *least);
        let version = folder;
        let expected = Expected::read(folder);
        let files = files(folder, &["skops", "joblib", "pkl"]);
        assert!(least <= files.len(), "{} files of {version}", files.len());
        for (model, path) in files {
            let bytes = std::fs::read(&path).expect("a file");
            let problem = wrong(&expected, &model, &bytes);
            problems.extend(problem.map(|it| format!("{}: {it}", path.display())));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn golden_sklearn() {
    check(&[("sklearn-1.3.2".to_owned(), 17), ("sklearn-1.9.1".to_owned(), 40)]);
}

#[test]
fn golden_sklearn_of_every_minor_version() {
    let versions = [
        ("0.22.2.post1", 18),
        ("0.23.2", 13),
        ("0.24.2", 13),
        ("1.0.2", 13),
        ("1.1.3", 16),
        ("1.2.2", 19),
        ("1.3.2", 19),
        ("1.4.2", 19),
        ("1.5.2", 19),
        ("1.6.1", 19),
        ("1.7.2", 19),
        ("1.8.0", 19),
        ("1.9.1", 25),
    ];
    check(&versions.map(|(version, least)| (format!("../sklearn/{version}"), least)));
}

#[test]
fn classes_are_those_of_the_file_where_they_are_whole_numbers_or_truths() {
    for ending in ["skops", "joblib"] {
        let of = |model: &str| {
            let path = folder("sklearn-1.9.1").join(format!("{model}.{ending}"));
            let bytes = std::fs::read(path).expect("a fixture");
            read(&bytes, None).expect("a model").class_numbers
        };
        assert_eq!(of("random_forest"), [0, 1, 2]);
        assert_eq!(of("gradient_boosting_binary"), [0, 1]);
        assert_eq!(of("tree"), Vec::<i64>::new());
        assert_eq!(of("random_forest_regressor"), Vec::<i64>::new());
    }
}

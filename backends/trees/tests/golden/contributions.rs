//! What features contribute to the sums of rows, and the leaves that rows reach, as XGBoost and LightGBM tell them.

use backend_trees::{
    forest::{
        document::{Library, Rounding},
        layout::{Extras, lay_out_with},
        shap::Scratch,
        sum::Rows,
    },
    read::read,
};
use serde_json::Value;

use crate::support::{folder, numbers};

/// How far a contribution may be from the library's, which XGBoost computes in 32 bits.
const WITHIN: f64 = 1e-4;

/// What is wrong with a file's contributions and leaves.
fn wrong(name: &str, file: &str, all_rows: &Value, expected: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let bytes = std::fs::read(folder(name).join(file)).expect("a file");
    let document = read(&bytes, None).expect(file);
    let library = document.origin.library;
    let extras = Extras { leaves: true, contributions: true };
    let forest = lay_out_with(document, extras).expect(file).forest;
    let rows: Vec<f64> = numbers(expected.get("rows").unwrap_or(all_rows));
    let rows: Vec<f64> = match forest.rounding {
        Rounding::Single => rows.iter().map(|it| f64::from(*it as f32)).collect(),
        Rounding::Double => rows,
    };
    let singles: Vec<f32> = rows.iter().map(|it| *it as f32).collect();
    let typed = match forest.takes_single() {
        true => Rows::Single(&singles),
        false => Rows::Double(&rows),
    };
    let (features, sums) = (forest.features, forest.sums());
    let count = rows.len() / features;
    let within = if library == Library::Lightgbm { 1e-9 } else { WITHIN };
    let expected_numbers = numbers(&expected["contributions"]);
    let of_row = sums * (features + 1);
    assert_eq!(expected_numbers.len(), count * of_row, "{file}");
    let mut totals = vec![0_f64; count * sums];
    forest.sums_of(typed, &mut totals);
    let mut leaves = vec![0; count * forest.trees.len()];
    forest.leaves_of(typed, &mut leaves);
    let (mut scratch, mut found) = (Scratch::default(), vec![0.0; of_row]);
    for row in 0..count {
        forest.explain(typed.slice(row * features, features), &mut scratch, &mut found);
        let expected = &expected_numbers[row * of_row..(row + 1) * of_row];
        let far = |(a, b): &(&f64, &f64)| within * (1.0 + b.abs()) < (*a - *b).abs();
        if let Some(it) = found.iter().zip(expected).find(far) {
            problems.push(format!("{name}/{file}, row {row}: {it:?}"));
        }
        for (contributions, total) in found.chunks(features + 1).zip(&totals[row * sums..]) {
            let sum: f64 = contributions.iter().sum();
            if WITHIN * (1.0 + total.abs()) < (sum - total).abs() {
                problems
                    .push(format!("{name}/{file}, row {row}: they add up to {sum}, not {total}"));
            }
        }
    }
    let of_library: Vec<i32> = expected["leaves"]
        .as_array()
        .expect("rows")
        .iter()
        .flat_map(|it| {
            it.as_array().expect("leaves").iter().map(|it| it.as_i64().expect("a number") as i32)
        })
        .collect();
    if leaves != of_library {
        problems.push(format!("{name}/{file}: other leaves"));
    }
    problems
}

#[test]
fn shap_is_that_of_the_libraries() {
    let mut problems = Vec::new();
    for (name, least) in [("xgboost-3.2.0", 11), ("xgboost-1.7.6", 2), ("lightgbm-4.7.0", 9)] {
        let text = std::fs::read(folder(name).join("contributions.json")).expect("expectations");
        let Value::Object(mut files) = serde_json::from_slice(&text).expect("JSON") else {
            panic!("an object of files");
        };
        let rows = files.remove("rows").expect("rows");
        assert!(least <= files.len(), "{} files of {name}", files.len());
        problems.extend(files.iter().flat_map(|(file, it)| wrong(name, file, &rows, it)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn shap_of_other_libraries_adds_up_to_the_sums() {
    for path in [
        "sklearn-1.9.1/gradient_boosting_regressor.joblib",
        "sklearn-1.9.1/random_forest_regressor.joblib",
        "sklearn-1.9.1/pipeline_range.skops",
        "sklearn-1.9.1/hist_gradient_boosting.joblib",
        "sklearn-1.3.2/isolation_forest.joblib",
        "treelite-3.9.1/lightgbm_multiclass.tl",
        "treelite-4.8.1/xgboost_softprob.tl",
    ] {
        let path = folder(path);
        let document = read(&std::fs::read(&path).expect("a file"), None).expect("a model");
        let extras = Extras { leaves: false, contributions: true };
        let forest = lay_out_with(document, extras).expect("explained").forest;
        let row: Vec<f64> = (0..forest.features).map(|it| it as f64 / 3.0 - 1.0).collect();
        let single: Vec<f32> = row.iter().map(|it| *it as f32).collect();
        let typed = match forest.takes_single() {
            true => Rows::Single(&single),
            false => Rows::Double(&row),
        };
        let mut sums = vec![0_f64; forest.sums()];
        forest.sums_of(typed, &mut sums);
        let mut found = vec![0.0; forest.sums() * (forest.features + 1)];
        forest.explain(typed, &mut Scratch::default(), &mut found);
        assert!(found.iter().filter(|it| **it != 0.0).count() > forest.sums(), "{path:?}");
        for (contributions, sum) in found.chunks(forest.features + 1).zip(sums) {
            let total: f64 = contributions.iter().sum();
            assert!((total - sum).abs() < 1e-6, "{path:?}: {total}, the sum is {sum}");
        }
    }
}

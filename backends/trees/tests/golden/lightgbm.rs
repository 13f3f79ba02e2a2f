//! LightGBM's text files: raw scores and predictions have the bits of the library's.

use backend_trees::lightgbm::read;

use crate::support::{Expected, answers, difference, files, numbers};

#[test]
fn golden_lightgbm() {
    let version = "lightgbm-4.7.0";
    let expected = Expected::read(version);
    let files = files(version, &["txt"]);
    assert_eq!(files.len(), expected.models().count());
    let mut wrong = Vec::new();
    for (model, path) in files {
        let document = read(&std::fs::read(path).expect("a file")).expect(&model);
        let expect = expected.of(&model);
        let is_average = document.average_over.is_some();
        let rows = expected.rows(&model, &expect["margins"]);
        let (sums, predictions) = answers(document, &rows).expect(&model);
        for (what, found) in [("margins", sums), ("predictions", predictions)] {
            // The library's raw scores of a random forest are sums, not yet divided.
            if is_average && what == "margins" {
                continue;
            }
            if let Some(difference) = difference(&found, &numbers(&expect[what])) {
                wrong.push(format!("{model}, {what}: {difference}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

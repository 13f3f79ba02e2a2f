//! Checkpoints of treelite: sums and predictions have the bits of the library's evaluator.

use backend_trees::read::read;

use crate::support::{Expected, answers, difference, files, numbers};

#[test]
fn golden_treelite() {
    let mut wrong = Vec::new();
    for (version, least) in [("3.9.1", 18), ("4.8.1", 21)] {
        let folder = format!("treelite-{version}");
        let expected = Expected::read(&folder);
        let files = files(&folder, &["tl"]);
        assert!(least <= files.len(), "{} files of {version}", files.len());
        for (model, path) in files {
            let document = read(&std::fs::read(path).expect("a file"), None).expect(&model);
            let expect = expected.of(&model);
            let rows = expected.rows(&model, &expect["margins"]);
            let (sums, predictions) = answers(document, &rows).expect(&model);
            for (what, found) in [("margins", sums), ("predictions", predictions)] {
                let Some(tensor) = expect.get(what) else { continue };
                if let Some(difference) = difference(&found, &numbers(tensor)) {
                    wrong.push(format!("{version}, {model}, {what}: {difference}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Hundreds of forests that a platform loads and unloads in one process: what they hold, and that it comes back.

use std::fmt::Write as _;

use serde_json::json;

use crate::support::{Client, Process, Repository, measures::resident};

/// Models of the fleet, and how often all of them come and go.
const MODELS: usize = 300;
const ROUNDS: usize = 3;

/// A file of LightGBM with a hundred trees of 64 leaves and 30 features, half a megabyte.
fn forest(seed: usize) -> String {
    const SPLITS: i64 = 63;
    let list =
        |of: &dyn Fn(i64) -> String, count: i64| (0..count).map(of).collect::<Vec<_>>().join(" ");
    let names = list(&|it| format!("Column_{it}"), 30);
    let infos = list(&|_| "[0:1]".to_owned(), 30);
    let mut text = format!(
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=29\n\
         objective=regression\nfeature_names={names}\nfeature_infos={infos}\ntree_sizes=1\n\n"
    );
    // The children of a split, and below the last ones leaves.
    let child = |it: i64| if it < SPLITS { it } else { SPLITS - 1 - it };
    for tree in 0..100_i64 {
        let value =
            |it: i64| format!("{:.17}", ((it * 37 + tree + seed as i64) % 101) as f64 / 103.0);
        let fields: [(&str, String); 12] = [
            ("num_leaves", "64".to_owned()),
            ("num_cat", "0".to_owned()),
            ("split_feature", list(&|it| ((it * 7 + tree) % 30).to_string(), SPLITS)),
            ("split_gain", list(&|_| "1".to_owned(), SPLITS)),
            ("threshold", list(&value, SPLITS)),
            ("decision_type", list(&|_| "2".to_owned(), SPLITS)),
            ("left_child", list(&|it| child(2 * it + 1).to_string(), SPLITS)),
            ("right_child", list(&|it| child(2 * it + 2).to_string(), SPLITS)),
            ("leaf_value", list(&value, SPLITS + 1)),
            ("leaf_count", list(&|_| "1".to_owned(), SPLITS + 1)),
            ("internal_count", list(&|_| "2".to_owned(), SPLITS)),
            ("shrinkage", "1".to_owned()),
        ];
        let _ = writeln!(text, "Tree={tree}");
        for (key, value) in fields {
            let _ = writeln!(text, "{key}={value}");
        }
        text.push('\n');
    }
    text + "end of trees\n"
}

#[test]
#[ignore = "900 loads, and memory that other tests would not leave alone"]
fn hundreds_of_forests_come_and_go_in_flat_memory() {
    let models = (0..MODELS).fold(Repository::new(), |it, number| {
        it.file(&format!("m{number}/model/model.txt"), forest(number))
    });
    let root = format!("--sagemaker-models-root={}", models.at(""));
    let mut flags = vec!["--sagemaker-multi-model=true".to_owned(), root];
    flags.extend(["http", "grpc", "sagemaker", "metrics"].map(|it| format!("--{it}-port=0")));
    let flags: Vec<&str> = flags.iter().map(|it| &**it).collect();
    let mut process = Process::command(&flags, &[]);
    process.wait_ready();
    let mut client = Client::connect(process.address("sagemaker"));
    let row = format!("{}\n", vec!["0.5"; 30].join(","));
    let mut round = || {
        let before = resident(&process);
        for number in 0..MODELS {
            let url = models.at(&format!("m{number}/model"));
            let body = json!({"model_name": format!("m{number}"), "url": url}).to_string();
            let headers = [("content-type", "application/json")];
            client.request("POST", "/models", &headers, Some(body.as_bytes())).expect(200);
            let headers = [("content-type", "text/csv")];
            client.post(&format!("/models/m{number}/invoke"), &headers, &row).expect(200);
        }
        let loaded = resident(&process);
        for number in 0..MODELS {
            client.request("DELETE", &format!("/models/m{number}"), &[], None).expect(200);
        }
        let after = resident(&process);
        println!("MiB before {before}, loaded {loaded}, after {after}");
        (before, loaded, after)
    };
    let rounds: Vec<(i64, i64, i64)> = (0..ROUNDS).map(|_| round()).collect();
    for (before, loaded, _) in &rounds {
        assert!(loaded - before <= MODELS as i64, "more than 1 MiB each: {rounds:?}");
    }
    let (first, last) = (rounds[0], rounds[ROUNDS - 1]);
    assert!(last.1 <= first.1 + 15 && last.2 <= first.2 + 15, "it grows: {rounds:?}");
}

//! Requests that a SavedModel brings along, run before it serves.

use serde_json::json;

use crate::support::{
    Page, Repository, root,
    savedmodels::{FIXTURES, post, serve_those},
};

/// The records of `make_savedmodels.py`.
fn records(name: &str) -> Vec<u8> {
    std::fs::read(root(&format!("{FIXTURES}/warmup/{name}"))).unwrap()
}

/// Models that count, each with its records.
fn counters(of: &[(&str, Vec<u8>)]) -> Repository {
    of.iter().fold(Repository::new(), |it, (name, records)| {
        let file = format!("{name}/1/assets.extra/tf_serving_warmup_requests");
        it.copy(name, &format!("{FIXTURES}/counter")).file(&file, records)
    })
}

#[test]
fn the_requests_of_a_warm_up_file_run_before_the_model_serves() {
    let models = || counters(&[("three", records("three")), ("none", Vec::new())]);
    let count = |flags: &[&str], model: &str| {
        let (mut process, _repository) = serve_those(models(), flags)?;
        let path = format!("/v1/models/{model}:predict");
        Some(post(&mut process.client(), &path, &json!({"inputs": 1}))["outputs"].clone())
    };
    let Some(counted) = count(&[], "three") else { return };
    // Those of the file add 13.
    assert_eq!(counted, 14);
    assert_eq!(count(&[], "none").unwrap(), 1);
    assert_eq!(count(&["--tensorflow-warmup-iterations=2"], "three").unwrap(), 27);
    assert_eq!(count(&["--tensorflow-warmup=false"], "three").unwrap(), 1);
}

#[test]
fn the_requests_of_a_warm_up_file_are_counted() {
    let models = counters(&[("three", records("three")), ("none", Vec::new())]);
    let Some((mut process, _repository)) = serve_those(models, &["--tfs-metrics=true"]) else {
        return;
    };
    let text = process.client().get("/monitoring/prometheus/metrics").expect(200).text();
    let page = Page::parse(&text);
    let labels = "{model_path=\"three/1\",status=\"OK\"}";
    let value =
        |name: &str| page.value(&format!(":tensorflow:serving:model_warmup_{name}{labels}"));
    assert_eq!((value("records_read"), value("latency_count")), (3.0, 1.0));
    assert!(0.0 < value("latency_sum"));
    assert!(!text.contains("model_path=\"none/1\",status"), "{text}");
}

#[test]
fn a_warm_up_file_that_is_damaged_too_long_or_fails_is_a_load_error_with_the_record() {
    let three = records("three");
    let mut damaged = three.clone();
    // The last byte of a record is its checksum's.
    *damaged.last_mut().unwrap() ^= 1;
    let cut = three[..three.len() - 5].to_vec();
    let models = counters(&[
        ("damaged", damaged),
        ("cut", cut),
        ("many", three.repeat(334)),
        ("wrong", records("wrong")),
        ("three", records("three")),
    ]);
    let flags = ["--strict-readiness=false"];
    let Some((mut process, _repository)) = serve_those(models, &flags) else { return };
    for (model, parts) in [
        ("damaged", ["record 3", "checksum"]),
        ("cut", ["record 3", "cut off"]),
        ("many", ["more than 1000", "tf_serving_warmup_requests"]),
        ("wrong", ["record 2", "'by'"]),
    ] {
        let path = format!("/v2/models/{model}/ready");
        let error = process.client().get(&path).error(503);
        assert!(parts.iter().all(|it| error.contains(it)), "{model}: {error}");
    }
}

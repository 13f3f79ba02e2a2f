//! Vectors of sentences and of tokens.

use backend_steps::{Input, Parameters, Pipeline, Ranked, Reply, RowOutput, Step};
use inference::task::Task;
use serde_json::Value;

use crate::fixture::{Fixture, assert_near, numbers, output, tensor};

const FOLDERS: [&str; 19] = [
    "st-2",
    "st-5",
    "st-6",
    "st-older-name",
    "pool-cls",
    "pool-max",
    "pool-mean",
    "pool-mean-sqrt-len-tokens",
    "pool-weightedmean",
    "pool-lasttoken",
    "pool-several",
    "pool-booleans",
    "unnormalised",
    "prompted",
    "dense",
    "dense-gelu",
    "dense-old",
    "dense-projected",
    "lower-case",
];

fn parameters(request: &Value, task: Task) -> Parameters {
    let mut parameters = Parameters::default();
    for (name, value) in request["parameters"].as_object().into_iter().flatten() {
        parameters.set(task, name, value).unwrap();
    }
    parameters
}

fn texts(inputs: &Value) -> Vec<&str> {
    match inputs {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().map(|it| it.as_str().unwrap()).collect(),
        other => panic!("{other}"),
    }
}

/// The vector of each text of a case against the rows of the reference's tensor.
fn check_vectors(pipeline: &Pipeline, case: &Value, rows: &[Value], name: &str) {
    let name = format!("{name}, {}", case["case"]);
    let task = Task::SentenceEmbedding;
    let parameters = parameters(&case["request"], task);
    let (dims, expected) = tensor(&case["reply"]);
    let texts = texts(&case["request"]["inputs"]);
    assert_eq!((texts.len(), texts.len()), (rows.len(), dims[0]), "{name}");
    for ((text, row), expected) in texts.iter().zip(rows).zip(expected.chunks(dims[1])) {
        let prepared = pipeline.prepare(task, &Input::Text(text), &parameters).unwrap();
        let ids = prepared.rows[0].inputs[0].tensor.as_slice_of::<i64>().unwrap();
        assert_eq!(ids, numbers(&row["ids"]), "{name}: {text}");
        let outputs = [output("token_embeddings", &row["token_embeddings"])];
        let reduced = pipeline.reduce(&prepared.rows[0].work, &outputs).unwrap();
        let reply = pipeline.finish(prepared.context, vec![reduced]).unwrap();
        let Reply::Embedding(vector) = reply else { panic!("{name}: no vector") };
        assert_eq!(vector.len(), expected.len(), "{name}");
        for (given, expected) in vector.iter().zip(expected) {
            assert_near(*given, f64::from(*expected), &name);
        }
    }
}

/// A case of similarity, whose sentences are those of `rows`.
fn check_similarities(pipeline: &Pipeline, case: &Value, rows: &Value) {
    let inputs = &case["request"]["inputs"];
    let others = texts(&inputs["sentences"]);
    let input = Input::Sentences(inputs["source_sentence"].as_str().unwrap(), &others);
    let task = Task::SentenceSimilarity;
    let prepared = pipeline.prepare(task, &input, &Parameters::default()).unwrap();
    let mut reduced = Vec::new();
    for (row, expected) in prepared.rows.iter().zip(rows.as_array().unwrap()) {
        let ids = row.inputs[0].tensor.as_slice_of::<i64>().unwrap();
        assert_eq!(ids, numbers(&expected["ids"]));
        let outputs = [output("token_embeddings", &expected["token_embeddings"])];
        reduced.push(pipeline.reduce(&row.work, &outputs).unwrap());
    }
    let reply = pipeline.finish(prepared.context, reduced).unwrap();
    let Reply::Similarities(scores) = reply else { panic!("{reply:?}") };
    let expected = case["reply"].as_array().unwrap();
    assert_eq!(scores.len(), expected.len());
    for (score, expected) in scores.iter().zip(expected) {
        assert_near(*score, expected.as_f64().unwrap(), "similarity");
    }
}

#[test]
fn sentence_vectors_are_those_of_sentence_transformers() {
    let mut checked = 0;
    for name in FOLDERS {
        let fixture = Fixture::new(name);
        let pipeline = fixture.open("token_embeddings", &[None, None, Some(32)]);
        // A case that changes nothing before the graph has the rows of the first.
        let first = &fixture.cases[0]["rows"];
        for case in &fixture.cases {
            if case["task"] == "sentence-similarity" {
                check_similarities(&pipeline, case, first);
                continue;
            }
            let rows = case.get("rows").unwrap_or(first).as_array().unwrap();
            check_vectors(&pipeline, case, rows, name);
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn a_ranking_of_an_embedder_is_by_its_vectors() {
    let fixture = Fixture::new("st-6");
    let pipeline = fixture.open("sentence_embedding", &[None, Some(2)]);
    assert!(pipeline.ranks_by_vectors());
    let texts = ["b", "a"];
    let input = Input::Ranking("a", &texts);
    let prepared = pipeline.prepare(Task::Rerank, &input, &Parameters::default()).unwrap();
    let vectors = [vec![1.0, 0.0], vec![0.0, 1.0], vec![2.0, 0.0]];
    let rows = prepared.rows.iter().zip(vectors).map(|(row, vector)| {
        let name = "sentence_embedding";
        let output = RowOutput { name, dims: vec![2], values: vector.into() };
        pipeline.reduce(&row.work, &[output]).unwrap()
    });
    let rows = rows.collect();
    let Reply::Ranking(ranking) = pipeline.finish(prepared.context, rows).unwrap() else {
        panic!("no ranking");
    };
    assert_eq!(ranking, [Ranked { index: 1, score: 1.0 }, Ranked { index: 0, score: 0.0 }]);
}

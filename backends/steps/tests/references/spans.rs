//! Entities, answers, masks, candidate labels, sparse vectors and vectors of tokens.

use backend_steps::{
    Dir, Folder, Input, Overrides, Parameters, Pipeline, Reply, RowError, RowOutput, Step,
};
use inference::task::Task;
use serde_json::Value;

use crate::{
    bank::{Bank, parameters},
    fixture::{Fixture, assert_near, open, tensor},
};

const VOCABULARY: &[Option<usize>] = &[None, None, None];

/// Runs each case of one input, and each member of those with a list. Gives how many were compared.
fn check(
    fixture: &Fixture,
    pipeline: &Pipeline,
    (task, outputs): (Task, &[&str]),
    compare: impl Fn(Reply, &Value, &str),
) -> usize {
    let bank = Bank::new(fixture, outputs);
    let mut compared = 0;
    for case in &fixture.cases {
        let name = case["case"].as_str().unwrap();
        let request = &case["request"];
        let Ok(given) = parameters(request, task) else {
            assert!(case.get("refused").is_some(), "{name}");
            continue;
        };
        let members: Vec<(&Value, &Value)> = match &request["inputs"] {
            Value::Array(inputs) if inputs.len() > 1 || task != Task::FillMask => {
                let replies = case["reply"].as_array();
                let refused = || inputs.iter().map(|it| (it, &Value::Null)).collect();
                replies.map_or_else(refused, |it| inputs.iter().zip(it).collect())
            }
            Value::Array(inputs) => vec![(&inputs[0], &case["reply"])],
            one => vec![(one, &case["reply"])],
        };
        let mut refusals = 0;
        for (inputs, expected) in members {
            match run(&bank, pipeline, task, (inputs, request), &given) {
                Ok(Some(reply)) if case.get("refused").is_none() => {
                    compare(reply, expected, name);
                    compared += 1;
                }
                Ok(_) => {}
                Err(error) => {
                    assert!(case.get("refused").is_some(), "{name}: {error}");
                    refusals += 1;
                }
            }
        }
        assert!(case.get("refused").is_none() || refusals > 0, "{name}");
    }
    compared
}

fn run(
    bank: &Bank,
    pipeline: &Pipeline,
    task: Task,
    (inputs, request): (&Value, &Value),
    given: &Parameters,
) -> Result<Option<Reply>, RowError> {
    let labels: Vec<&str> = match &request["parameters"]["candidate_labels"] {
        Value::Array(labels) => labels.iter().map(|it| it.as_str().unwrap()).collect(),
        Value::String(labels) => {
            labels.split(',').map(str::trim).filter(|it| !it.is_empty()).collect()
        }
        _ => Vec::new(),
    };
    let input = match (inputs, task) {
        (Value::String(text), Task::ZeroShotClassification) => Input::Candidates(text, &labels),
        (Value::String(text), _) => Input::Text(text),
        (inputs, _) => match (inputs["question"].as_str(), inputs["context"].as_str()) {
            (Some(question), Some(context)) => Input::Pair(question, context),
            // Lists of questions are several inputs.
            _ => return Ok(None),
        },
    };
    bank.run(pipeline, task, &input, given)
}

fn number(value: &Value, key: &str) -> usize {
    value[key].as_u64().unwrap() as usize
}

#[test]
fn entities_are_grouped_as_by_the_pipeline() {
    for name in ["ner", "ner-bpe"] {
        let fixture = Fixture::new(name);
        let pipeline = fixture.open("logits", VOCABULARY);
        let of = (Task::TokenClassification, ["logits"].as_slice());
        let compared = check(&fixture, &pipeline, of, |reply, expected, case| {
            let Reply::Entities(entities) = reply else { panic!("{case}: {reply:?}") };
            let expected = expected.as_array().unwrap();
            assert_eq!(entities.len(), expected.len(), "{name}, {case}: {entities:?}");
            for (given, expected) in entities.iter().zip(expected) {
                let key = if given.index.is_some() { "entity" } else { "entity_group" };
                assert_eq!(&*given.label, expected[key].as_str().unwrap(), "{name}, {case}");
                assert_eq!(given.word, expected["word"].as_str().unwrap(), "{name}, {case}");
                let place = (number(expected, "start"), number(expected, "end"));
                assert_eq!((given.start, given.end), place, "{name}, {case}");
                let index = expected["index"].as_u64().map(|it| it as usize);
                assert_eq!(given.index, index, "{name}, {case}");
                assert_near(given.score, expected["score"].as_f64().unwrap(), case);
            }
        });
        assert!(compared > 40, "{name}: {compared}");
    }
}

#[test]
fn answers_are_those_of_4_57() {
    for name in ["question-answering", "question-answering-left"] {
        check_answers(name);
    }
}

fn check_answers(name: &str) {
    let fixture = Fixture::new(name);
    let folder = Folder::read(&Dir::alone(fixture.dir()), &Overrides::default()).unwrap();
    let pair: &[Option<usize>] = &[None, None];
    let pipeline = open(&folder, &[("start_logits", pair), ("end_logits", pair)]);
    let of = (Task::QuestionAnswering, ["start_logits", "end_logits"].as_slice());
    let compared = check(&fixture, &pipeline, of, |reply, expected, case| {
        let Reply::Answers(answers) = reply else { panic!("{case}: {reply:?}") };
        let expected = match expected {
            Value::Array(answers) => answers.iter().collect(),
            one => vec![one],
        };
        // Spans that are no answers have the score 0. Which of them the reference gives is a matter of its sort.
        let answers: Vec<_> = answers.into_iter().filter(|it| it.score > 0.0).collect();
        let expected: Vec<&Value> =
            expected.into_iter().filter(|it| it["score"].as_f64() > Some(0.0)).collect();
        assert_eq!(answers.len(), expected.len(), "{name}, {case}: {answers:?}");
        for (given, expected) in answers.iter().zip(expected) {
            assert_eq!(given.answer, expected["answer"].as_str().unwrap(), "{name}, {case}");
            let place = (number(expected, "start"), number(expected, "end"));
            assert_eq!((given.start, given.end), place, "{name}, {case}");
            assert_near(given.score, expected["score"].as_f64().unwrap(), case);
        }
    });
    assert!(compared > 3, "{name}: {compared}");
}

#[test]
fn masks_are_filled_as_by_the_pipeline() {
    for name in ["fill-mask", "fill-mask-bpe"] {
        let fixture = Fixture::new(name);
        let pipeline = fixture.open("logits", VOCABULARY);
        let of = (Task::FillMask, ["logits"].as_slice());
        let compared = check(&fixture, &pipeline, of, |reply, expected, case| {
            let Reply::Fills(masks) = reply else { panic!("{case}: {reply:?}") };
            let expected = match masks.len() {
                1 => vec![expected.clone()],
                _ => expected.as_array().unwrap().clone(),
            };
            assert_eq!(masks.len(), expected.len(), "{name}, {case}");
            for (given, expected) in masks.iter().zip(&expected) {
                let expected = expected.as_array().unwrap();
                assert_eq!(given.len(), expected.len(), "{name}, {case}");
                for (given, expected) in given.iter().zip(expected) {
                    assert_eq!(given.token as usize, number(expected, "token"), "{name}, {case}");
                    let texts = (&*given.token_str, &*given.sequence);
                    let text = |key: &str| expected[key].as_str().unwrap();
                    assert_eq!(texts, (text("token_str"), text("sequence")), "{name}, {case}");
                    assert_near(given.score, expected["score"].as_f64().unwrap(), case);
                }
            }
        });
        assert!(compared > 8, "{name}: {compared}");
    }
}

#[test]
fn candidates_are_ranked_as_by_the_pipeline() {
    for name in ["zero-shot", "zero-shot-first"] {
        let fixture = Fixture::new(name);
        let pipeline = fixture.open("logits", &[None, Some(3)]);
        let of = (Task::ZeroShotClassification, ["logits"].as_slice());
        let compared = check(&fixture, &pipeline, of, |reply, expected, case| {
            let Reply::Candidates(labels) = reply else { panic!("{case}: {reply:?}") };
            let list = |key: &str| expected[key].as_array().unwrap();
            assert_eq!(labels.len(), list("labels").len(), "{name}, {case}");
            for (at, label) in labels.iter().enumerate() {
                let place = list("labels").iter().position(|it| it == &*label.label).unwrap();
                assert_near(label.score, list("scores")[place].as_f64().unwrap(), case);
                // Where several labels have the same score their order is that of an unstable sort.
                let is_tied = labels.iter().filter(|it| it.score == label.score).count() > 1;
                assert!(is_tied || place == at, "{name}, {case}: {}", label.label);
            }
        });
        assert!(compared > 3, "{name}: {compared}");
    }
}

#[test]
fn sparse_vectors_are_those_of_sentence_transformers() {
    for name in ["splade-max", "splade-sum"] {
        let fixture = Fixture::new(name);
        let pipeline = fixture.open("logits", VOCABULARY);
        let of = (Task::SparseEmbedding, ["logits"].as_slice());
        let compared = check(&fixture, &pipeline, of, |reply, expected, case| {
            let Reply::Sparse(entries) = reply else { panic!("{case}: {reply:?}") };
            let expected = expected.as_array().unwrap();
            assert_eq!(entries.len(), expected.len(), "{name}, {case}");
            for (given, expected) in entries.iter().zip(expected) {
                assert_eq!(given.index as usize, number(expected, "index"), "{name}, {case}");
                assert_near(given.value, expected["value"].as_f64().unwrap(), case);
            }
        });
        assert!(compared >= 2, "{name}: {compared}");
    }
}

#[test]
fn vectors_of_tokens_are_those_of_the_pipeline() {
    let fixture = Fixture::new("features");
    let pipeline = fixture.open("last_hidden_state", &[None, None, Some(32)]);
    let task = Task::FeatureExtraction;
    let single = fixture.cases.iter().filter(|it| it["request"]["inputs"].is_string());
    for case in single.clone() {
        let (dims, expected) = tensor(&case["reply"]);
        if dims[1] > pipeline.text().unwrap().max_tokens() {
            continue; // Made before the folder had its limit.
        }
        let given = parameters(&case["request"], task).unwrap();
        let input = Input::Text(case["request"]["inputs"].as_str().unwrap());
        let prepared = pipeline.prepare(task, &input, &given).unwrap();
        let row = &prepared.rows[0];
        assert_eq!(vec![1, row.tokens, 32], dims, "{}", case["case"]);
        let name = "last_hidden_state";
        let output = RowOutput { name, dims: dims[1..].to_vec(), values: (&expected).into() };
        let reduced = pipeline.reduce(&row.work, &[output]).unwrap();
        let reply = pipeline.finish(prepared.context, vec![reduced]).unwrap();
        let Reply::Features(features) = reply else { panic!("{reply:?}") };
        assert_eq!((features.tokens, features.width), (dims[1], 32));
        assert_eq!(features.values, expected);
    }
    assert!(single.count() > 2);
}

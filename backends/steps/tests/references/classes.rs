//! Classes of a text, and rankings.

use backend_steps::{Input, Parameters, Pipeline, Reply, RowError, Step, TopK};
use inference::task::Task;
use serde_json::Value;

use crate::fixture::{Fixture, assert_near, numbers, output};

/// The texts of a request: one or several, each alone or a pair.
fn inputs(inputs: &Value) -> Vec<Input<'_>> {
    match inputs {
        Value::String(text) => vec![Input::Text(text)],
        Value::Array(items) => items.iter().flat_map(self::inputs).collect(),
        Value::Object(keys) => {
            let text = |key: &str| keys[key].as_str().unwrap();
            vec![Input::Pair(text("text"), text("text_pair"))]
        }
        other => panic!("{other}"),
    }
}

fn parameters(request: &Value, task: Task) -> Parameters {
    let mut parameters = Parameters::default();
    for (name, value) in request["parameters"].as_object().into_iter().flatten() {
        parameters.set(task, name, value).unwrap();
    }
    parameters
}

/// Prepares, compares the tokens of each row with the reference's, and finishes with the reference's logits.
fn run(
    pipeline: &Pipeline,
    task: Task,
    input: &Input<'_>,
    parameters: &Parameters,
    rows: &[Value],
) -> Result<Reply, RowError> {
    let prepared = pipeline.prepare(task, input, parameters)?;
    assert_eq!(prepared.rows.len(), rows.len());
    let mut reduced = Vec::new();
    for (row, expected) in prepared.rows.iter().zip(rows) {
        let given = |name: &str| {
            let found = row.inputs.iter().find(|it| &*it.name == name).unwrap();
            found.tensor.as_slice_of::<i64>().unwrap().to_vec()
        };
        assert_eq!(given("input_ids"), numbers(&expected["ids"]), "{expected}");
        assert_eq!(given("token_type_ids"), numbers(&expected["type_ids"]), "{expected}");
        assert!(given("attention_mask").iter().all(|it| *it == 1));
        let outputs = [output("logits", &expected["logits"])];
        reduced.push(pipeline.reduce(&row.work, &outputs)?);
    }
    pipeline.finish(prepared.context, reduced)
}

/// The replies of a case as the list of one for each input, whatever form the pipeline gives them.
fn replies(reply: &Value, count: usize) -> Vec<Vec<Value>> {
    let list = |it: &Value| match it {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    };
    match (reply, count) {
        (Value::Array(items), 1) if !items[0].is_array() => vec![items.clone()],
        (Value::Array(items), _) => items.iter().map(list).collect(),
        (one, _) => vec![list(one)],
    }
}

/// A case of text classification.
fn check_case(pipeline: &Pipeline, case: &Value) {
    let name = case["case"].as_str().unwrap();
    let (task, request) = (Task::TextClassification, &case["request"]);
    let parameters = parameters(request, task);
    let inputs = inputs(&request["inputs"]);
    if let Some(refused) = case.get("refused") {
        let error = pipeline.prepare(task, &inputs[0], &parameters).unwrap_err();
        match (refused.get("tokens"), &error) {
            (Some(tokens), RowError::TooManyTokens { given, allowed }) => {
                assert_eq!(tokens.as_u64(), Some(*given as u64), "{name}");
                assert_eq!(refused["limit"].as_u64(), Some(*allowed as u64), "{name}");
            }
            (None, RowError::Truncation(_)) => {}
            _ => panic!("{name}: {error}"),
        }
        return;
    }
    let rows = case["rows"].as_array().unwrap();
    let expected = replies(&case["reply"], inputs.len());
    assert_eq!((inputs.len(), inputs.len()), (rows.len(), expected.len()), "{name}");
    for ((input, row), expected) in inputs.iter().zip(rows.chunks(1)).zip(expected) {
        let Reply::Labels(labels) = run(pipeline, task, input, &parameters, row).unwrap() else {
            panic!("{name}: no labels");
        };
        let names: Vec<&str> = labels.iter().map(|it| &*it.label).collect();
        let expected_names: Vec<&str> =
            expected.iter().map(|it| it["label"].as_str().unwrap()).collect();
        assert_eq!(names, expected_names, "{name}");
        for (label, expected) in labels.iter().zip(&expected) {
            assert_near(label.score, expected["score"].as_f64().unwrap(), name);
        }
    }
}

#[test]
fn classes_are_those_of_the_pipeline() {
    for name in ["sst2", "multi-label", "regression", "exported", "roberta"] {
        let fixture = Fixture::new(name);
        let pipeline = fixture.open("logits", &[None, None]);
        let mut checked = 0;
        for case in &fixture.cases {
            check_case(&pipeline, case);
            checked += 1;
        }
        assert!(checked > 30, "{name}");
    }
}

#[test]
fn rankings_are_those_of_the_cross_encoder() {
    for name in ["rerank", "rerank-identity", "rerank-legacy", "rerank-silent"] {
        let fixture = Fixture::new(name);
        let pipeline = fixture.open("logits", &[None, Some(1)]);
        assert_eq!(pipeline.tasks(), [Task::Rerank, Task::TextClassification]);
        let case = |name: &str| fixture.cases.iter().find(|it| it["case"] == name).unwrap();
        let mut rows = case("predict")["rows"].as_array().unwrap().clone();
        let request = &case("predict")["request"]["inputs"];
        let texts: Vec<&str> =
            request["texts"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        // A row that was made alone has no second text where that is empty. In a batch, as rankings are made, it has.
        let empty = texts.iter().position(|it| it.is_empty()).unwrap();
        rows.remove(empty);
        let texts: Vec<&str> = texts.into_iter().filter(|it| !it.is_empty()).collect();
        let input = Input::Ranking(request["query"].as_str().unwrap(), &texts);
        for (case, raw_scores) in
            [(case("predict"), None), (case("sigmoid"), Some(false)), (case("raw"), Some(true))]
        {
            let parameters = Parameters { raw_scores, ..Parameters::default() };
            let reply = run(&pipeline, Task::Rerank, &input, &parameters, &rows).unwrap();
            let Reply::Ranking(ranking) = reply else { panic!("no ranking") };
            let expected = case["reply"].as_array().unwrap().iter();
            let place = |it: &Value| it["index"].as_u64().unwrap() as usize;
            let expected: Vec<&Value> = expected.filter(|it| place(it) != empty).collect();
            assert_eq!(ranking.len(), expected.len());
            for (ranked, expected) in ranking.iter().zip(expected) {
                let index = place(expected) - usize::from(place(expected) > empty);
                assert_eq!(ranked.index, index, "{name}");
                assert_near(ranked.score, expected["score"].as_f64().unwrap(), name);
            }
        }
        check_case(&pipeline, case("pipeline"));
    }
}

#[test]
fn a_text_of_a_ranking_is_cut_by_its_own_tokens() {
    let fixture = Fixture::new("rerank");
    let pipeline = fixture.open("logits", &[None, Some(1)]);
    let ids = |text: &str, max_tokens_per_text: Option<usize>| {
        let parameters = Parameters { max_tokens_per_text, ..Parameters::default() };
        let texts = [text];
        let input = Input::Ranking("Where?", &texts);
        let prepared = pipeline.prepare(Task::Rerank, &input, &parameters).unwrap();
        prepared.rows[0].inputs[0].tensor.as_slice_of::<i64>().unwrap().to_vec()
    };
    let (query, whole) = (ids("", None), ids("Ada lives in London.", None));
    assert_eq!(ids("Ada lives in London.", Some(99)), whole);
    let cut = ids("Ada lives in London.", Some(3));
    assert_eq!(cut.len(), query.len() + 3);
    assert_eq!(cut[..cut.len() - 1], whole[..cut.len() - 1]);
    assert_eq!(ids("Ada lives in London.", Some(0)), query);
}

#[test]
fn a_text_of_a_list_that_cannot_be_taken_is_named_by_its_place() {
    let fixture = Fixture::new("rerank");
    let pipeline = fixture.open("logits", &[None, Some(1)]);
    let long = "Ada lives in London. ".repeat(200);
    let error = |texts: &[&str]| {
        let parameters = Parameters { truncate: Some(false), ..Parameters::default() };
        let input = Input::Ranking("Where?", texts);
        pipeline.prepare(Task::Rerank, &input, &parameters).unwrap_err().to_string()
    };
    assert!(error(&["Ada", &long, "Ada"]).starts_with("text 2: the input has "));
    assert!(error(&[&long]).starts_with("the input has "));
}

#[test]
fn raw_scores_of_a_classifier_are_its_logits() {
    let fixture = Fixture::new("sst2");
    let pipeline = fixture.open("logits", &[None, None]);
    let scores = |raw_scores| {
        let parameters = Parameters { raw_scores, top_k: TopK::All, ..Parameters::default() };
        let is_one = |it: &&Value| it["rows"].is_array() && it["request"]["inputs"].is_string();
        let case = fixture.cases.iter().find(is_one).unwrap();
        let rows = &case["rows"].as_array().unwrap()[..1];
        let input = inputs(&case["request"]["inputs"])[0];
        let task = Task::TextClassification;
        match run(&pipeline, task, &input, &parameters, rows).unwrap() {
            Reply::Labels(labels) => labels.iter().map(|it| it.score).collect::<Vec<f32>>(),
            other => panic!("{other:?}"),
        }
    };
    let (raw, usual) = (scores(Some(true)), scores(Some(false)));
    let sum: f32 = raw.iter().map(|it| it.exp()).sum();
    for (logit, score) in raw.iter().zip(usual) {
        assert!((logit.exp() / sum - score).abs() < 1e-5, "{raw:?}");
    }
}

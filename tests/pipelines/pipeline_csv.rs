//! Texts as CSV, with and without names of columns, in no dialect: they are answered as a list in JSON is, and as CSV
//! under the keys of the answers.

use serde_json::{Value, json};

use crate::support::{Client, Server, Start, pipelines::repository};

const CSV: &str = "text/csv";
const JSON: &str = "application/json";

/// What the model says of that body, of one type, as another.
#[track_caller]
fn ask(server: &Server, model: &str, [content_type, accept]: [&str; 2], body: &str) -> String {
    let mut headers =
        vec![("content-type", content_type), ("x-amzn-sagemaker-target-model", model)];
    if !accept.is_empty() {
        headers.push(("accept", accept));
    }
    let reply =
        Client::connect(server.sagemaker()).post("/invocations", &headers, body).expect(200);
    let expected = if accept.is_empty() { CSV } else { accept };
    assert_eq!(reply.header("content-type"), Some(expected), "{body}");
    reply.text()
}

/// That a table is answered as these inputs are in JSON, and as CSV with the same values in lines under these keys.
#[track_caller]
fn check(server: &Server, model: &str, table: &str, inputs: &Value, keys: &str) {
    let body = json!({"inputs": inputs}).to_string();
    let listed = ask(server, model, [JSON, JSON], &body);
    assert_eq!(ask(server, model, [CSV, JSON], table), listed, "{model}: {table}");
    let lines = ask(server, model, [CSV, CSV], table);
    assert_eq!(lines, ask(server, model, [CSV, ""], table));
    assert_eq!(lines, ask(server, model, [JSON, CSV], &body));
    let (head, lines) = lines.split_once('\n').unwrap();
    assert_eq!(head, keys, "{model}: {table}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let mut records = Vec::new();
    for (row, said) in listed.as_array().unwrap().iter().enumerate() {
        let numbered = head.starts_with("row,").then(|| json!(row));
        let said = said.as_array().map_or(std::slice::from_ref(said), Vec::as_slice);
        for record in said {
            let values = record.as_object().unwrap().values().cloned();
            records.push(numbered.iter().cloned().chain(values).collect::<Vec<_>>());
        }
    }
    let lines: Vec<Vec<String>> = lines.lines().map(fields).collect();
    assert!(!lines.is_empty());
    let is_line = |(line, record): (&Vec<String>, &Vec<Value>)| {
        line.len() == record.len()
            && line.iter().zip(record).all(|(field, value)| is_field(field, value))
    };
    let all = lines.len() == records.len() && lines.iter().zip(&records).all(is_line);
    assert!(all, "{model}: {table}\ngiven {lines:?}\nexpected {records:?}");
}

/// Is that value written in the field? The reader of JSON here may be off by the last digit.
fn is_field(field: &str, value: &Value) -> bool {
    match value.as_f64() {
        Some(number) => field.parse().is_ok_and(|it: f64| (it - number).abs() < 1e-12),
        None => value == field,
    }
}

/// The fields of a line; quoted ones hold no quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    for it in line.chars() {
        match it {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            it => fields.last_mut().unwrap().push(it),
        }
    }
    fields
}

#[test]
fn texts_are_classified_with_or_without_the_name_of_their_column() {
    let server = Server::start(&repository(&["sst2"]), &[]);
    let lines = "I am super happy right now.\n\"What a sad, sad day!\"\n";
    let texts = json!(["I am super happy right now.", "What a sad, sad day!"]);
    // As spreadsheets and other programs write it: behind a mark or an empty line, and in quotes.
    for before in ["", "\u{feff}", "\n", "\u{feff}\r\n"] {
        for head in ["", "inputs\n", "text\n", "\"inputs\"\n", "\"text\"\r\n"] {
            check(&server, "sst2", &format!("{before}{head}{lines}"), &texts, "label,score");
        }
    }
    check(&server, "sst2", "so happy", &json!(["so happy"]), "label,score");
    let pairs = json!([{"text": "so happy", "text_pair": "so sad"}]);
    check(&server, "sst2", "so happy,so sad\n", &pairs, "label,score");
    check(&server, "sst2", "text_pair,text\nso sad,so happy\n", &pairs, "label,score");
}

#[test]
fn a_question_and_its_context_are_columns() {
    let server = Server::start(&repository(&["question-answering"]), &[]);
    let (question, context) = ("Where does Ada live?", "Ada, they say, lives in London.");
    let one = json!({"question": question, "context": context});
    let line = format!("{question},\"{context}\"\n");
    let keys = "score,start,end,answer";
    let model = "question-answering";
    check(&server, model, &format!("question,context\n{line}"), &json!([one]), keys);
    check(&server, model, &format!("question,context\n{line}{line}"), &json!([one, one]), keys);
    check(&server, model, &line, &json!([one]), keys);
}

#[test]
fn entities_are_lines_under_their_keys() {
    let server = Server::start(&repository(&["ner"]), &[]);
    let text = "Ada Lovelace lives in London.";
    let keys = "entity,score,index,word,start,end";
    check(&server, "ner", text, &json!([text]), keys);
    let two = format!("inputs\n{text}\n{text}\n");
    check(&server, "ner", &two, &json!([text, text]), &format!("row,{keys}"));
}

#[test]
fn a_batch_job_gets_lines_without_names_for_lines_without_names() {
    let server = Start::new(&repository(&["sst2"])).variable("SAGEMAKER_BATCH", "True").run();
    let named = ask(&server, "sst2", [CSV, CSV], "inputs\nso happy\nso sad\n");
    let (head, lines) = named.split_once('\n').unwrap();
    assert_eq!((head, lines.lines().count()), ("label,score", 2));
    let bare = ask(&server, "sst2", [CSV, CSV], "so happy\nso sad\n");
    let labels = |lines: &str| lines.lines().map(|it| fields(it).remove(0)).collect::<Vec<_>>();
    assert_eq!(labels(&bare), labels(lines));
}

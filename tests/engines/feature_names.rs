//! Columns by the names that a file of trees has for its features: tables, CSV with a header, JSON objects.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::{Client, Repository, Server, Start, root};

const FORESTS: &str = "tests/fixtures/forests";

/// What the file `names.ubj` calls its features.
const NAMES: [&str; 8] = ["age", "income ≥", "a b", "quote\"", "x4", "x5", "x6", "x7"];

/// Rows without infinity, and what XGBoost predicts for each.
fn rows() -> (Vec<Vec<f32>>, Vec<f32>) {
    let text = std::fs::read(root(FORESTS).join("xgboost-3.4.1/expected.json")).unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    let numbers = |tensor: &Value| -> Vec<f32> {
        let raw = STANDARD.decode(tensor["raw"].as_str().unwrap()).unwrap();
        raw.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
    };
    let rows = numbers(all["names"].get("rows").unwrap_or(&all["rows"]));
    let predictions = numbers(&all["names"]["predictions"]);
    let kept = rows.chunks(8).zip(predictions);
    kept.filter(|(row, _)| row.iter().all(|it| !it.is_infinite()))
        .map(|(row, prediction)| (row.to_vec(), prediction))
        .unzip()
}

fn repository() -> Repository {
    Repository::new().copy("m/1/xgboost.ubj", &format!("{FORESTS}/xgboost-3.4.1/names.ubj"))
}

/// The columns of a table, in another order than the model's.
const ORDER: [usize; 8] = [7, 2, 0, 5, 1, 3, 6, 4];

fn cell(value: f32) -> Value {
    if value.is_nan() { Value::Null } else { json!(value) }
}

fn ask(server: &Server, content_type: &str, body: impl AsRef<[u8]>) -> crate::support::Reply {
    let headers = [("content-type", content_type), ("accept", "application/json")];
    Client::connect(server.sagemaker()).post("/invocations", &headers, body)
}

/// All numbers of a reply, whatever they are in.
fn numbers(reply: &Value) -> Vec<f32> {
    match reply {
        Value::Number(it) => vec![it.as_f64().unwrap() as f32],
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        Value::Object(all) => all.values().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|it| it.to_bits()).collect()
}

fn shuffled(rows: &[Vec<f32>]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| ORDER.iter().map(|at| cell(row[*at])).collect()).collect()
}

fn objects(rows: &[Vec<f32>]) -> Vec<Value> {
    let entry = |row: &Vec<f32>, at: &usize| (NAMES[*at].to_owned(), cell(row[*at]));
    let object = |row| Value::Object(ORDER.iter().map(|at| entry(row, at)).collect());
    rows.iter().map(object).collect()
}

#[test]
fn names_of_features_are_shown_and_put_columns_in_order() {
    let repository = repository();
    let server = Server::start(&repository, &[]);
    let metadata = server.get("/v2/models/m").expect(200).json();
    assert_eq!(metadata["parameters"]["feature_names"], json!(NAMES));
    let (rows, predictions) = rows();
    assert!(8 < rows.len() && rows.iter().flatten().any(|it| it.is_nan()));
    let names: Vec<&str> = ORDER.iter().map(|at| NAMES[*at]).collect();
    let lines: Vec<String> = objects(&rows).iter().map(Value::to_string).collect();
    let split = json!({"columns": names, "data": shuffled(&rows)});
    let bodies = [
        ("application/json", json!({"dataframe_split": split}).to_string()),
        ("application/json", json!({"dataframe_records": objects(&rows)}).to_string()),
        ("application/json", json!({"instances": objects(&rows)}).to_string()),
        ("application/json", json!(objects(&rows)).to_string()),
        ("application/jsonlines", lines.join("\n")),
    ];
    for (content_type, body) in &bodies {
        let reply = ask(&server, content_type, body).expect(200).text();
        // Lines are a document each.
        let documents = serde_json::Deserializer::from_str(&reply).into_iter::<Value>();
        let given: Vec<f32> = documents.flat_map(|it| numbers(&it.unwrap())).collect();
        assert_eq!(bits(&given), bits(&predictions), "{:.60}", body);
    }
    let reply = ask(&server, "application/json", objects(&rows)[0].to_string()).expect(200);
    assert_eq!(bits(&numbers(&reply.json())), bits(&predictions[..1]));
    let body = json!({"instances": objects(&rows)}).to_string();
    let reply = server.client().post("/v1/models/m:predict", &[], body).expect(200).json();
    assert_eq!(bits(&numbers(&reply)), bits(&predictions));
}

#[test]
fn a_header_of_csv_puts_columns_in_order_too() {
    let (rows, predictions) = rows();
    let field = |it: f32| if it.is_nan() { String::new() } else { it.to_string() };
    let line = |row: &Vec<f32>| ORDER.map(|at| field(row[at])).join(",") + "\n";
    let names = ORDER.map(|at| format!("\"{}\"", NAMES[at].replace('"', "\"\""))).join(",");
    let body = format!("{names}\n{}", rows.iter().map(line).collect::<String>());
    let repository = repository();
    // A file of XGBoost alone means that container's dialect, in which CSV has no header.
    let server = Server::start(&repository, &[]);
    ask(&server, "text/csv", &body).error(415);
    for dialect in ["mlflow", "toolkit"] {
        let flag = format!("--sagemaker-dialect={dialect}");
        let server = Server::start(&repository, &[&flag]);
        let reply = ask(&server, "text/csv", &body).expect(200);
        assert_eq!(bits(&numbers(&reply.json())), bits(&predictions), "{dialect}");
        // In the model's order, and without a header where there may be none.
        let ordered = |row: &Vec<f32>| row.iter().map(|it| field(*it)).collect::<Vec<_>>();
        let rows: Vec<String> = rows.iter().map(|it| ordered(it).join(",")).collect();
        let header = if dialect == "mlflow" { "a,b,c,d,e,f,g,h\n" } else { "" };
        let reply = ask(&server, "text/csv", format!("{header}{}\n", rows.join("\n")));
        assert_eq!(bits(&numbers(&reply.expect(200).json())), bits(&predictions), "{dialect}");
    }
}

#[test]
fn names_that_are_not_the_models_are_refused() {
    let repository = repository();
    let server = Server::start(&repository, &[]);
    let table = |names: &[&str]| {
        let row = vec![0.5; names.len()];
        json!({"dataframe_split": {"columns": names, "data": [row]}}).to_string()
    };
    let refused = |body: String, part: &str| {
        let error = ask(&server, "application/json", body).error(400);
        assert!(error.contains(part), "{error}");
    };
    let mut names = NAMES;
    names[0] = "agee";
    refused(table(&names), "the model has no columns 'agee'; its columns are 'age', ");
    refused(table(&NAMES[..6]), "the columns 'x6', 'x7' are not there");
    refused(json!([{"age": 1, "x4": 2}]).to_string(), "are not there");
    // None of them is known: the order counts, as far as it fits.
    let other = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let given = |names: &[&str]| ask(&server, "application/json", table(names)).expect(200).text();
    assert_eq!(given(&other), given(&NAMES));
    refused(table(&other[..7]), "expected shape [-1,8], the table has [1,7]");
}

#[test]
fn names_that_a_library_made_up_leave_other_headers_to_their_order() {
    let repository =
        Repository::new().copy("m/1/model.txt", &format!("{FORESTS}/lightgbm-4.7.0/binary.txt"));
    let start = Start::new(&repository).flags(&["--sagemaker-dialect=mlflow"]);
    let server = start.run();
    let header = |names: &[String]| {
        let body = format!("{}\n0.5,-1,2,-3,0.25,0.1,7,-2\n", names.join(","));
        numbers(&ask(&server, "text/csv", body).expect(200).json())
    };
    let names =
        |prefix: &str| -> Vec<String> { (0..8).map(|it| format!("{prefix}{it}")).collect() };
    let mut back = names("Column_");
    back.reverse();
    assert_eq!(header(&names("f")), header(&names("Column_")));
    assert_ne!(header(&names("f")), header(&back));
}

//! The samples in Python: served where there is a Python for them, and left out with one line where there is none.

use crate::support::{Process, Repository, infer, python::python};

const SAMPLES: [&str; 3] = ["fraud", "payment", "payment_row"];

fn samples() -> Repository {
    let copy = |all: Repository, it: &&str| all.copy(it, &format!("model_repository/{it}"));
    SAMPLES.iter().fold(Repository::new(), copy)
}

/// A request with that text.
fn payment(text: &str) -> String {
    let data = serde_json::json!([text]);
    format!(r#"{{"inputs":[{{"name":"payment","datatype":"BYTES","shape":[1,1],"data":{data}}}]}}"#)
}

#[test]
fn python_samples_make_rows_of_payments_for_the_model_behind_them() {
    let Some(interpreter) = python("requirements.txt") else { return };
    let flag = format!("--python={}", interpreter.display());
    let repository = samples();
    let mut server = Process::start(&repository, &[&flag], &[]);
    server.wait_ready();
    let mut client = server.client();
    // As the page of `fraud` has them.
    let page = std::fs::read_to_string(crate::support::root("model_repository/fraud/README.md"));
    let page = page.unwrap();
    let row = page.lines().find(|it| it.starts_with("3459,")).unwrap();
    let mut of_text = |text: &str| {
        let reply = client.post(&infer("payment"), &[], payment(text)).expect(200).json();
        reply["outputs"][0]["data"][0].as_f64().unwrap()
    };
    let of_csv = of_text(row);
    assert!((of_csv - 0.971).abs() < 0.001, "{of_csv}");
    let names = ["Time".to_owned()].into_iter().chain((1..29).map(|it| format!("V{it}")));
    let names = names.chain(["Amount".to_owned()]);
    let fields = names.zip(row.split(','));
    let fields: Vec<String> = fields.map(|(name, value)| format!("\"{name}\": {value}")).collect();
    assert!((of_text(&format!("{{{}}}", fields.join(", "))) - of_csv).abs() < 1e-6);
    let error = client.post(&infer("payment"), &[], payment("1,2")).error(400);
    assert!(error.contains("payment: 2 values, expected 30: Time, V1"), "{error}");
}

#[test]
fn python_samples_are_left_out_with_one_line_where_there_is_no_python() {
    let repository = samples();
    let mut server = Process::start(&repository, &["--python=/nowhere/python3"], &[]);
    server.wait_ready();
    let line = server.wait_for_line("left out, as OPTIONAL allows");
    assert!(line.contains("models 'payment', 'payment_row': "), "{line}");
    assert!(line.contains("--python: expected a Python interpreter at /nowhere/python3"), "{line}");
    let mut client = server.client();
    assert_eq!(client.get("/v2/models/fraud/ready").status, 200);
    assert_eq!(client.get("/v2/models/payment").status, 404);
    let index = client.post("/v2/repository/index", &[], "").expect(200).json();
    assert_eq!(index.as_array().unwrap().len(), 1, "{index}");
}

//! The document of the API: it is valid, its examples are answered, every address in it is there, and clients that
//! are made of it, in Python and in TypeScript, call each sample model. And the lists with lines to paste.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::support::{
    Reply, Repository, Server,
    pipelines::add_folders,
    python::{python, run},
    root, say_skipped, scratch,
};

/// The models of `model_repository`.
const SAMPLES: [&str; 5] = ["digits", "fraud", "listing_price", "sentiment", "shapes"];

fn samples() -> Repository {
    let copy = |all: Repository, it: &&str| all.copy(it, &format!("model_repository/{it}"));
    SAMPLES.iter().fold(Repository::new(), copy)
}

/// The same with the samples in Python, and the flag that says where that is; `None` without one.
fn with_samples_in_python() -> Option<(Repository, String)> {
    let interpreter = python("requirements.txt")?;
    let copy = |all: Repository, it: &&str| all.copy(it, &format!("model_repository/{it}"));
    let all = ["payment", "payment_row"].iter().fold(samples(), copy);
    Some((all, format!("--python={}", interpreter.display())))
}

fn document(server: &Server) -> Value {
    server.get("/openapi.json").expect(200).json()
}

/// Asks a server that the client knows by that name.
fn get(server: &Server, host: &str, path: &str) -> Reply {
    let mut client = server.client();
    client.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")).unwrap();
    client.reply().expect(200)
}

fn models(document: &Value) -> &[Value] {
    document["x-muster"]["models"].as_array().unwrap()
}

fn check_python(server: &Server, python: &PathBuf, more: &[&str]) -> String {
    let url = format!("http://{}", server.http());
    let script = root("tests/clients/openapi_client.py");
    let said = run(Command::new(python).arg(script).arg(url).args(more));
    said.unwrap_or_else(|said| panic!("openapi_client.py failed:\n{said}"))
}

#[test]
fn a_python_client_made_of_the_valid_document_calls_each_sample() {
    let Some(python) = python("requirements-openapi.txt") else { return };
    let Some((samples, flag)) = with_samples_in_python() else { return };
    let server = Server::start(&samples, &[&flag]);
    let said = check_python(&server, &python, &["samples"]);
    let all = "digits, fraud, listing_price, payment, payment_row, sentiment, shapes";
    assert!(said.contains(&format!("examples of {all}")), "{said}");
}

#[test]
fn the_document_is_valid_and_its_examples_are_answered_for_every_task() {
    let Some(python) = python("requirements-openapi.txt") else { return };
    let names = [
        "audio-classification",
        "clip",
        "detr",
        "dinov2",
        "ner",
        "question-answering",
        "rerank",
        "siglip",
        "speech",
        "splade-max",
        "sst2",
        "st-6",
        "vit",
        "zero-shot",
    ];
    let odd = Repository::of(&["mlp", "type_string", "two_outputs", "type_bool", "type_fp16"])
        .fixture("odd {name}: ä", "mlp");
    let server = Server::start(&add_folders(odd, &names), &[]);
    let said = check_python(&server, &python, &[]);
    let document = document(&server);
    let without = models(&document).iter().filter(|it| it["example"].is_null());
    assert_eq!(without.map(|it| &it["name"]).collect::<Vec<_>>(), [""; 0], "{said}");
}

/// A folder with the packages that make clients in TypeScript; `None` without node, npm or their registry.
fn packages() -> Option<PathBuf> {
    let (from, folder) = (root("tests/clients/openapi"), scratch().join("openapi.npm"));
    fs::create_dir_all(&folder).unwrap();
    for name in ["package.json", "package-lock.json", "client.ts"] {
        fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]);
    match run(install.current_dir(&folder)) {
        Ok(_) => Some(folder),
        Err(reason) => {
            say_skipped(&format!("the client in TypeScript, which npm does not install: {reason}"));
            None
        }
    }
}

#[test]
fn a_typescript_client_made_of_the_document_calls_each_sample() {
    let Some(folder) = packages() else { return };
    let Some((samples, flag)) = with_samples_in_python() else { return };
    let server = Server::start(&samples, &[&flag]);
    let url = format!("http://{}", server.http());
    fs::write(folder.join("openapi.json"), server.get("/openapi.json").expect(200).text()).unwrap();
    let run_there = |program: &str, arguments: &[&str]| {
        let said = run(Command::new("node")
            .arg(folder.join("node_modules").join(program))
            .args(arguments)
            .current_dir(&folder));
        said.unwrap_or_else(|said| panic!("{program} failed:\n{said}"))
    };
    run_there("openapi-typescript/bin/cli.js", &["openapi.json", "-o", "schema.d.ts"]);
    let strict = ["--strict", "--target", "es2022", "--module", "nodenext", "client.ts"];
    run_there("typescript/bin/tsc", &strict);
    let said = run(Command::new("node").arg("client.js").arg(url).current_dir(&folder));
    assert!(said.unwrap().contains("payment, payment_row"), "it has called each model");
}

#[test]
fn every_address_of_the_document_is_there_and_has_a_name_of_its_own() {
    let server = Server::start(&samples(), &[]);
    let document = document(&server);
    let mut names = BTreeSet::new();
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            // Who asks for these leaves HTTP.
            if path.ends_with("-stream") {
                continue;
            }
            let task = path.replace("{task}", "text-classification").replace("{version}", "1");
            let path = task.replace(['{', '}'], "");
            let (method, body) = (method.to_ascii_uppercase(), Some(&b"{}"[..]));
            let body = body.filter(|_| method == "POST");
            let reply = server.client().request(&method, &path, &[], body);
            let text = reply.text();
            assert_ne!(reply.status, 405, "{method} {path}");
            assert!(!text.contains("there is nothing at"), "{method} {path}: {text}");
            asked += 1;
        }
    }
    assert!(100 < asked, "{asked}");
    let known = document["components"]["schemas"].as_object().unwrap();
    let text = document.to_string();
    for name in text.split("#/components/schemas/").skip(1) {
        let name = name.split('"').next().unwrap();
        assert!(known.contains_key(name), "there is no schema {name}");
    }
}

#[test]
fn the_document_says_what_each_model_is() {
    let server = Server::start(&samples(), &[]);
    let document = document(&server);
    let [digits, _, price, sentiment, shapes] = models(&document) else { panic!("{document}") };
    assert_eq!(digits["inputs"][0]["shape"], serde_json::json!([-1, 1, 8, 8]));
    assert_eq!((&digits["labels"][9], &digits["kind"]), (&"nine".into(), &"tensors".into()));
    assert_eq!(digits["example"]["path"], "/v2/models/digits/infer");
    assert_eq!(price["inputs"][0]["datatype"], "BYTES");
    assert_eq!(
        (&sentiment["task"], &sentiment["kind"]),
        (&"text-classification".into(), &"text".into())
    );
    assert_eq!(sentiment["labels"], serde_json::json!(["NEGATIVE", "POSITIVE"]));
    assert_eq!((&shapes["kind"], &shapes["labels"][0]), (&"image".into(), &shapes["labels"][0]));
    let infer = &document["paths"]["/v2/models/fraud/infer"]["post"];
    assert_eq!(
        (&infer["operationId"], &infer["tags"][0]),
        (&"infer_fraud".into(), &"fraud".into())
    );
    assert_eq!(infer["x-access"]["category"], "inference");
    for status in ["200", "400", "401", "404", "413", "503"] {
        assert!(infer["responses"].get(status).is_some(), "{status}: {infer}");
    }
    let other = &document["paths"]["/v1/embeddings"]["post"]["responses"];
    assert!(other.get("429").is_some(), "too many requests are 429 at OpenAI's addresses: {other}");
}

#[test]
fn a_query_chooses_models_and_those_beyond_a_hundred_are_named_alone() {
    let many = (0..103)
        .fold(Repository::of(&["mlp"]), |all, it| all.with_identity(&format!("n{it:03}"), &[]));
    let server = Server::start(&many, &[]);
    let all = document(&server);
    let (described, named) = models(&all).split_at(100);
    assert!(described.iter().all(|it| it.get("inputs").is_some()), "{described:?}");
    let names: Vec<&str> = named.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["n099", "n100", "n101", "n102"]);
    assert!(named.iter().all(|it| it.get("inputs").is_none() && it["version"] == "1"));
    assert!(all["paths"].get("/v2/models/n099/infer").is_none());
    let two = server.get("/openapi.json?model=n102&model=mlp").expect(200).json();
    let names: Vec<&Value> = models(&two).iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["mlp", "n102"]);
    assert!(two["paths"].get("/v2/models/n102/infer").is_some());
    let error = server.get("/openapi.json?model=x").error(404);
    assert!(error.contains("'x'"), "{error}");
    let page = server.get("/").expect(200).text();
    assert!(page.contains("and 84 more: /v2/models"), "{page}");
    let list = server.get("/v2/models").expect(200).json();
    assert_eq!(list["models"].as_array().unwrap().len(), 104);
    assert_eq!(list["try"].as_object().unwrap().len(), 100);
}

#[test]
fn the_document_needs_the_access_of_metadata_and_says_what_needs_a_token() {
    let token = "a-token-of-one-client";
    let repository = Repository::of(&["mlp"]).file("tokens", format!("inference {token}\n"));
    let flag = format!("--auth-tokens-file={}", repository.at("tokens"));
    let server = Server::start(&repository, &[&flag]);
    for path in ["/openapi.json", "/", "/v2/models", "/v1/models"] {
        server.get(path).expect(401);
    }
    let header = format!("Bearer {token}");
    let mut client = server.client();
    let headers = [("authorization", header.as_str())];
    let document = client.request("GET", "/openapi.json", &headers, None).expect(200).json();
    let infer = &document["paths"]["/v2/models/mlp/infer"]["post"];
    assert_eq!(infer["security"], serde_json::json!([{"token": []}]));
    let live = &document["paths"]["/v2/health/live"]["get"];
    assert!(live.get("security").is_none(), "{live}");
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    let list = client.request("GET", "/v2/models", &headers, None).expect(200).json();
    let line = list["try"]["mlp"].as_str().unwrap();
    assert!(line.contains(" -H 'Authorization: Bearer <token>' -d "), "{line}");
}

#[test]
fn no_document_is_made_without_memory_for_it() {
    let server = Server::start(&Repository::of(&["mlp"]), &["--max-inflight-bytes=65536"]);
    let error = server.get("/openapi.json").error(413);
    assert!(error.contains("65536") || error.contains("64"), "{error}");
    server.get("/v2/models/mlp").expect(200);
}

#[test]
fn the_lines_of_every_list_work_when_they_are_pasted() {
    let repository = samples().fixture("it's", "mlp");
    let server = Server::start(&repository, &[]);
    let host = server.http().to_string();
    let lists = ["/v1/models", "/v2/models"].map(|it| get(&server, &host, it).json());
    let names: Vec<&str> =
        lists[1]["models"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(names, ["digits", "fraud", "it's", "listing_price", "sentiment", "shapes"]);
    let page = get(&server, &host, "/").text();
    for name in names {
        let line = lists[1]["try"][name].as_str().unwrap();
        assert_eq!(lists[0]["try"][name], line);
        assert!(page.contains(&format!("\n  {name}\n    {line}\n")), "{page}");
        let said = run(Command::new("sh").arg("-c").arg(format!("{line} --fail")));
        let said = said.unwrap_or_else(|said| panic!("{line}\n{said}"));
        assert!(said.contains("outputs") || said.contains("score"), "{line}\n{said}");
    }
    assert!(page.contains("/openapi.json"), "{page}");
    let of_openai: Vec<&Value> =
        lists[0]["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(of_openai, ["sentiment", "shapes"], "OpenAI's clients get no models of tensors");
    let local = get(&server, "a'b", "/v2/models").json();
    assert!(local["try"]["fraud"].as_str().unwrap().contains("http://localhost/v2/"), "{local}");
}

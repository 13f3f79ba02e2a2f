//! The page `/docs` in a browser: `tests/clients/docs_page.py` does there what a person does. It needs Python 3
//! with `venv`, and Chromium: without that there is nothing to run, and that is said.

use std::process::Command;

use crate::support::{
    Repository, Server,
    browser::chromium,
    pipelines::add_folders,
    python::{python, run},
    root,
};

#[test]
fn a_person_calls_every_sample_model_from_the_page_and_sees_what_the_server_does() {
    let Some(chromium) = chromium() else { return };
    // That of the samples in Python.
    let Some(interpreter) = python("requirements.txt") else { return };
    let Some(python) = python("requirements-browser.txt") else { return };
    let of_samples = format!("--python={}", interpreter.display());
    let samples =
        ["digits", "fraud", "listing_price", "payment", "payment_row", "sentiment", "shapes"];
    let samples = samples.iter().fold(Repository::new(), |repository, name| {
        repository.copy(name, &format!("model_repository/{name}"))
    });
    let tasks = [
        "audio-classification",
        "clip",
        "detr",
        "fill-mask",
        "ner",
        "question-answering",
        "rerank",
        "speech",
        "st-6",
        "zero-shot",
    ];
    let server = Server::start(&add_folders(samples, &tasks), &[&of_samples]);
    let token = "a-token-of-one-client";
    let sentiment = Repository::new()
        .copy("sentiment", "model_repository/sentiment")
        .file("tokens", format!("inference {token}\n"));
    let flag = format!("--auth-tokens-file={}", sentiment.at("tokens"));
    let guarded = Server::start(&sentiment, &[&flag]);
    let [open, guarded] = [&server, &guarded].map(|it| format!("http://{}", it.http()));
    let mut person = Command::new(python);
    person.arg(root("tests/clients/docs_page.py")).arg(chromium).arg(open);
    person.args(["--guarded", &guarded, token]);
    let said = run(&mut person).unwrap_or_else(|said| panic!("{said}"));
    assert!(!said.is_empty(), "it said nothing: did it check anything?");
}

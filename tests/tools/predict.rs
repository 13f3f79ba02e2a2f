//! `muster predict`: a file to a model of a running server or of a path, and the answer for people or for programs.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::support::{NO_GPUS, Repository, Server, pipelines, root, switches, with_tools};

/// What came of it: the exit status, standard output, standard error.
fn predict(words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(with_tools());
    command.arg("predict").args(words).env_clear().envs(switches()).env(NO_GPUS.0, NO_GPUS.1);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_models_of_a_server_answer_a_picture_a_text_and_numbers_each_in_its_form() {
    let samples = root("model_repository");
    let folder = ["shapes", "sentiment", "fraud"]
        .into_iter()
        .fold(Repository::new(), |it, name| pipelines::copy(it, name, &samples.join(name)));
    let server = Server::start(&folder, &[]);
    let file = |name: &str, text: &str| {
        let path = folder.at(name);
        fs::write(&path, text).unwrap();
        path
    };
    let url = format!("--url=http://{}", server.http());
    let star = samples.join("shapes/star.jpg").display().to_string();
    let (status, said, log) = predict(&["shapes", &star, &url]);
    assert_eq!(status, Some(0), "{log}");
    assert!(said.starts_with("star      0.9"), "{said}");
    let happy = file("happy.txt", "I am super happy right now.\n");
    let (status, said, log) = predict(&["sentiment", &happy, &url]);
    assert_eq!(status, Some(0), "{log}");
    assert!(said.starts_with("POSITIVE  0.99"), "{said}");
    let (_, said, _) = predict(&["sentiment", &happy, &url, "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer[0]["label"], "POSITIVE", "{said}");
    let rows = file("rows.csv", &format!("{0}\n{0}\n", ["1"; 30].join(",")));
    let (status, said, log) = predict(&["fraud", &rows, &happy, &url]);
    // The second file is refused, in the server's words, and the first one answered.
    assert_eq!(status, Some(1), "{log}");
    assert!(said.contains("\n1: 0.") && said.contains("\n2: 0."), "{said}");
    assert!(log.contains("happy.txt: the server answered 4"), "{log}");
    let (status, said, log) = predict(&["nobody", &rows, &url]);
    assert_eq!((status, said.as_str()), (Some(1), ""), "{log}");
    assert!(log.contains("the server answered 404: ") && log.contains("'nobody'"), "{log}");
}

#[test]
fn a_path_has_a_server_of_its_own_for_as_long_as_it_takes() {
    let shapes = root("model_repository/shapes").display().to_string();
    let star = format!("{shapes}/star.jpg");
    let (status, said, log) = predict(&[&shapes, &star, &star, "--json"]);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(said.lines().count(), 2, "{said}");
    for line in said.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["file"], &line["answer"][0]["label"]),
            (&star.as_str().into(), &"star".into())
        );
    }
}

#[test]
fn what_cannot_be_meant_ends_with_2_and_says_what_to_do() {
    let samples = root("model_repository").display().to_string();
    let star = format!("{samples}/shapes/star.jpg");
    let repository = Repository::of(&["two_outputs", "type_string"]);
    let two = repository.path().display().to_string();
    for (words, expected) in [
        (&["shapes"][..], "<FILE>"),
        (&["shapes", "missing.jpg"], "missing.jpg: No such file"),
        (&["no/such/model", &star], "expected a model's file or folder, or the name of a model"),
        (&[&two, &star], "has 2 models: two_outputs, type_string; expected one"),
        (&["shapes", &star, "--url", "localhost:8080"], "expected http://"),
    ] {
        let (status, said, log) = predict(words);
        assert_eq!((status, said.as_str()), (Some(2), ""), "{words:?}: {log}");
        assert!(log.contains(expected), "{words:?}: {log}");
    }
    // A file that is no model: the server's own reason.
    let readme = format!("{samples}/README.md");
    let (status, _, log) = predict(&[&readme, &star]);
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("no server can be made for it: ") && !log.contains("{\"time\""), "{log}");
}

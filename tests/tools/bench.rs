//! `muster bench` against this server: every kind of address that it knows, and what it looks at in the answers.

use std::{fs, net::SocketAddr, process::Command};

use crate::support::{Repository, Server, bench, browser::look, with_tools};

#[track_caller]
fn check(address: SocketAddr, words: &[&str], checked: bool) {
    let (found, problem, good) = bench(&format!("http://{address}"), words);
    assert!(good && found["ok"] == 40 && found["wrong"] == 0, "{words:?}: {found:#} {problem}");
    assert!(!checked || found["checked"].as_u64() > Some(0), "{words:?}: {found:#}");
    assert!(!problem.contains("differ"), "{problem}");
}

#[test]
fn made_up_tensors_are_sent_in_every_form_and_their_answers_compared() {
    let repository = Repository::of(&["two_outputs", "type_string"]);
    let server = Server::start(&repository, &[]);
    let http = server.http();
    for model in ["two_outputs", "type_string"] {
        for format in ["kserve-json", "kserve-binary", "tfs-json"] {
            check(http, &["-m", model, "--format", format], true);
        }
        let described = format!("http://{http}");
        let grpc = ["-m", model, "--format", "kserve-grpc", "--describe", &described];
        check(server.address("grpc").unwrap(), &grpc, true);
    }
    // Rows of several inputs, and a version.
    let shapes = ["--shape", "a:3,4", "--shape", "b:3,4"];
    check(http, &[&["-m", "two_outputs", "--format", "tfs-json"], &shapes[..]].concat(), true);
    let versioned = format!("http://{http}/v1/models/two_outputs/versions/1:predict");
    let (found, problem, good) = bench(&versioned, &["-m", "two_outputs", "--format", "tfs-json"]);
    assert!(good && found["ok"] == 40, "{found:#} {problem}");
    let (_, problem, good) =
        bench(&format!("http://{http}"), &["-m", "none", "--format", "tfs-json"]);
    assert!(!good && problem.contains("/v1/models/none/metadata"), "{problem}");
}

#[test]
fn what_was_measured_names_the_server_and_the_machine() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    let (found, problem, good) = bench(&format!("http://{}", server.http()), &["-m", "m"]);
    assert!(good, "{problem}");
    let stated = &found["stated"];
    let version = format!("muster.{}", env!("CARGO_PKG_VERSION"));
    assert!(stated["server"]["version"].as_str().unwrap().ends_with(&version), "{stated:#}");
    assert!(stated["machine"].as_str().unwrap().contains("memory"), "{stated:#}");
    assert!(stated["payload"].as_str().unwrap().starts_with("16 bodies of "), "{stated:#}");
}

#[test]
fn a_refusal_is_told_with_its_type_and_its_words() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    let words = ["-m", "m", "--input", "OTHER:FP32:1,4", "--format", "kserve-json"];
    let (found, problem, good) = bench(&format!("http://{}", server.http()), &words);
    assert!(!good, "{problem}");
    let bad = &found["first_bad"];
    let told = bad["problem"].as_str().unwrap();
    assert!(told.starts_with("status 400, application/json, {\"error\":"), "{found:#}");
    assert_eq!((&bad["number"], &bad["request"]), (&1.into(), &0.into()));
}

#[test]
fn the_pages_of_a_run_a_limit_and_two_servers_say_what_was_found_and_fit_every_screen() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    let url = format!("http://{}", server.http());
    let file = repository.at("page.html");
    let brief = ["--duration=0.3", "--warm-up=0"];
    for (name, words, verdict) in [
        ("run", &["-c", "2"][..], format!("{url} answered every request: ")),
        ("limit", &["--find-limit", "--p99=5s", "--most-users=4"], format!("{url} carries ")),
        (
            "two",
            &["--vs", &url, "--pairs=6", "--most-steal=100"],
            " as many requests per second as A.".to_owned(),
        ),
    ] {
        let mut command = Command::new(with_tools());
        command.args(["bench", &url, "-m", "m", "--html", &file]).args(brief).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let html = fs::read_to_string(&file).unwrap();
        let said =
            html.split_once("<p class=\"verdict\">").unwrap().1.split_once("</p>").unwrap().0;
        assert!(said.contains(&verdict), "{name}: {said}");
        if name == "limit" {
            let rule = "The limit is the fewest users with 97 % of the highest throughput that has p99 within 5000 ms.";
            assert!(html.contains(rule), "{html}");
            assert!(String::from_utf8_lossy(&output.stdout).contains(rule));
        }
        let Some(looks) = look(&format!("bench-{name}"), &html, false) else { continue };
        for look in looks {
            assert!(look.wide.is_empty() && look.text.contains(said), "{look:?}");
            assert_eq!(look.charts >= 2 && look.sorted == 1, look.scripts, "{look:?}");
        }
    }
}

/// Of models that take files, which have answered each of them.
#[cfg(feature = "pipelines")]
#[test]
fn models_of_pictures_and_of_sounds_are_sent_pictures_and_sounds() {
    use crate::support::pipelines;
    let repository = pipelines::add_folders(Repository::new(), &["audio-classification"]);
    let repository =
        pipelines::copy(repository, "shapes", &crate::support::root("model_repository/shapes"));
    let server = Server::start(&repository, &[]);
    for model in ["shapes", "audio-classification"] {
        check(server.http(), &["-m", model], true);
    }
}

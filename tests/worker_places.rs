//! Models whose place is found out at their load: in the server, or in a process of their own.

use crate::{
    isolation::workers,
    support::{Client, Process, Repository, Server, first_of, infer, row},
};

/// Lines of the log that say where a model runs.
fn places_told(server: &Process) -> usize {
    let tells = |it: &String| {
        it.contains("it runs in the server's process")
            || it.contains("it runs in a process of its own")
    };
    server.log().iter().filter(|it| tells(it)).count()
}

#[test]
fn with_auto_a_fast_model_is_in_the_server_and_every_other_in_a_process_of_its_own() {
    let rows = ("columns", "4");
    let slow = [rows, ("execute_delay_ms", "20")];
    let repository = Repository::identity("fast", &[rows])
        .with_identity("slow", &slow)
        // What it takes is not known, so that it is not run at its load.
        .with_identity("untried", &[])
        .with_identity("bounded", &[rows, ("MEMORY_LIMIT_BYTES", "1000000000")])
        .with_identity("said", &[rows, ("ISOLATION", "process")])
        .with_identity("within", &[("execute_delay_ms", "20"), rows, ("ISOLATION", "in_process")]);
    let flags = ["--isolation=auto", "--model-control-mode=explicit", "--load-model=*"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let http = server.address("http");
    let mut client = server.client();
    let models = ["fast", "slow", "untried", "bounded", "said", "within"];
    let has_process = |model: &str| {
        let label = format!("model=\"{model}\"");
        let page = Client::connect(http).get("/metrics").expect(200).text();
        page.lines().any(|it| it.starts_with("muster_worker_up") && it.contains(&label))
    };
    let apart = models.map(has_process);
    assert_eq!(apart, [false, true, true, true, true, false], "{:?}", server.log());
    assert_eq!(workers(server.id()).len(), 4);
    for model in models {
        assert_eq!(first_of(&client.post(&infer(model), &[], row(5))), 5.0);
    }
    assert_eq!(places_told(&server), 4);
    let shown = |model: &str| {
        let config = Client::connect(http).get(&format!("/v2/models/{model}/config")).expect(200);
        let found = &config.json()["parameters"]["muster_isolation"]["string_value"];
        found.as_str().unwrap_or_default().to_owned()
    };
    for (model, begin, end) in [
        ("fast", "in_process: a run takes ", ", less than 1ms"),
        ("slow", "process: a run takes 2", "ms, no less than 1ms"),
        ("untried", "process: no run at its load has told how long it takes", "would"),
        ("bounded", "process: its configuration bounds what", "its process may take"),
        ("said", "", ""),
        ("within", "", ""),
    ] {
        let found = shown(model);
        assert!(found.starts_with(begin) && found.ends_with(end), "{model}: {found}");
        assert_eq!(found.is_empty(), begin.is_empty(), "{model}: {found}");
    }
    // Decided once: the next load of what is the same does not try it.
    for model in ["fast", "slow"] {
        for verb in ["unload", "load"] {
            let path = format!("/v2/repository/models/{model}/{verb}");
            client.post(&path, &[], "").expect(200);
        }
    }
    assert_eq!(["fast", "slow"].map(has_process), [false, true]);
    assert!(shown("fast").starts_with("in_process: "), "{}", shown("fast"));
    assert_eq!(places_told(&server), 4);
    let repository = repository.with_identity("fast", &slow);
    client.post("/v2/repository/models/fast/load", &[], "").expect(200);
    assert!(has_process("fast"));
    assert_eq!(places_told(&server), 5);
    assert_eq!(first_of(&client.post(&infer("fast"), &[], row(6))), 6.0);
    drop(repository);
}

#[test]
fn a_load_that_ends_its_process_is_an_error_of_that_model_with_auto_too() {
    let repository =
        Repository::identity("bad", &[("load_fault", "abort")]).with_identity("good", &[]);
    let server = Server::start(&repository, &["--isolation=auto"]);
    let error = server.post(&infer("bad"), row(1)).error(503);
    assert!(error.contains("ended by signal 6 (SIGABRT) while it was loaded"), "{error}");
    assert_eq!(first_of(&server.post(&infer("good"), row(1))), 1.0);
}

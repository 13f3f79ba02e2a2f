//! A run that never ends while the model serves: it is ended, its requests are told so, and the model serves on. A load
//! that never ends: it is given up.

use std::time::{Duration, Instant};

use crate::support::{
    Client, IN_PROCESS, Page, Process, Repository, Server, first_of, infer, row, wait_for,
};

/// A loop that runs as often as its input says: a second takes some hundred thousand times.
fn server() -> Server {
    let repository = Repository::identity("m", &[])
        .copy("long/1/model.onnx", "backends/onnxruntime/tests/models/long.onnx");
    Server::start(&repository, &["--run-limit-secs=1"])
}

fn body(count: i64) -> String {
    let x = vec!["0.01"; 64 * 64].join(",");
    format!(
        r#"{{"inputs":[{{"name":"count","datatype":"INT64","shape":[],"data":[{count}]}},
            {{"name":"x","datatype":"FP32","shape":[64,64],"data":[{x}]}}]}}"#
    )
}

fn long(client: &mut Client, count: i64) -> crate::support::Reply {
    client.post(&infer("long"), &[], body(count))
}

#[test]
fn a_run_that_never_ends_gets_504_and_the_model_and_the_others_serve_on() {
    let server = server();
    let mut client = server.client();
    long(&mut client, 3).expect(200);
    let hanging = std::thread::spawn({
        let mut client = server.client();
        move || long(&mut client, i64::MAX)
    });
    let began = Instant::now();
    while !hanging.is_finished() {
        // Another instance of the same model, and another model.
        long(&mut client, 3).expect(200);
        assert_eq!(first_of(&client.post(&infer("m"), &[], row(8))), 8.0);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    let told = hanging.join().unwrap().error(504);
    assert_eq!(
        told,
        "the run of the request on model 'long' took longer than 1 s and was ended (--run-limit-secs, \
         EXECUTION_TIMEOUT_SECONDS)"
    );
    long(&mut client, 3).expect(200);
    server.get("/v2/models/long/ready").expect(200);
    let series = "muster_overdue_runs_total{model=\"long\",outcome=\"stopped\",version=\"1\"}";
    // It is counted when the run has ended, which its request does not wait for.
    wait_for("the run to have ended", || {
        (Page::read(server.http()).value(series) == 1.0).then_some(())
    });
    assert_eq!(Page::read(server.http()).failures("long", "BACKEND"), 1.0);
}

#[test]
fn a_load_that_never_ends_is_given_up_and_other_models_load() {
    let models = "backends/onnxruntime/tests/models";
    let repository = Repository::identity("m", &[])
        .copy("endless/1/model.onnx", &format!("{models}/endless.onnx"))
        .copy("mlp/1/model.onnx", &format!("{models}/mlp.onnx"));
    // A process of its own: the engine computes on until the process ends. A worker would be ended.
    // The limit leaves a load that ends room beside one that does not, on a machine that is busy with other things.
    let flags = [
        IN_PROCESS,
        "--model-control-mode=explicit",
        "--load-model=m",
        "--load-model=endless",
        "--model-load-thread-count=1",
        "--load-limit-secs=20",
        "--exit-on-error=false",
    ];
    let mut server = Process::start(&repository, &flags, &[]);
    let line = server.wait_for_line("and does not end");
    let told = "its load took longer than 20 s (--load-limit-secs) and does not end";
    assert!(line.contains("endless") && line.contains(told), "{line}");
    let mut client = server.client();
    let mut load = |name| client.post(&format!("/v2/repository/models/{name}/load"), &[], "{}");
    load("mlp").expect(200);
    let told = load("endless").error(400);
    assert!(told.ends_with("an earlier load of it was given up and has not ended yet"), "{told}");
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(8))), 8.0);
    server.signal("TERM");
    assert!(server.wait().status.success());
}

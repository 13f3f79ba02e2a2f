//! Which runs are made on the thread that read their request: none that could take long, whatever those before took.
//! And few clients of a slow model, which all get their answers.

use std::thread;

use crate::support::{Client, IN_PROCESS, Page, Repository, Server, first_of, infer, row};

/// Runs of that model that were made in place.
fn in_place(server: &Server, model: &str) -> f64 {
    let labels = format!("model=\"{model}\",reason=\"in_place\",version=\"1\"");
    let name = format!("muster_batches_total{{{labels}}}");
    let page = Page::read(server.http());
    if page.has(&name) { page.value(&name) } else { 0.0 }
}

/// A request of so many floats.
fn floats(count: usize) -> String {
    let data = vec!["1"; count].join(",");
    format!(
        r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,{count}],"data":[{data}]}}]}}"#
    )
}

#[test]
fn a_size_that_no_client_has_sent_yet_is_not_run_in_place() {
    let config = "backend: \"identity\" max_batch_size: 4
        input { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }";
    let repository = Repository::new().model("m", config);
    let server = Server::start(&repository, &[IN_PROCESS, "--caller-runs=auto"]);
    let mut client = server.client();
    let mut count = |floats: &str| {
        client.post(&infer("m"), &[], floats).expect(200);
        in_place(&server, "m")
    };
    let small = floats(4);
    // Where the machine is too slow for any run in place, none of another size is made there either.
    let mut before = (0..500).map(|_| count(&small)).find(|it| 0.0 < *it).unwrap_or_default();
    for size in [64, 1024, 9, 5] {
        let after = count(&floats(size));
        assert_eq!(after, before, "{size} floats");
        before = after;
    }
}

#[test]
fn a_graph_with_a_loop_never_runs_in_place_however_fast_it_was() {
    let models = "backends/onnxruntime/tests/models";
    let repository =
        Repository::identity("m", &[]).copy("long/1/model.onnx", &format!("{models}/long.onnx"));
    let server = Server::start(&repository, &[IN_PROCESS, "--caller-runs=auto"]);
    let x = vec!["0.01"; 64 * 64].join(",");
    let body = format!(
        r#"{{"inputs":[{{"name":"count","datatype":"INT64","shape":[],"data":[0]}},
            {{"name":"x","datatype":"FP32","shape":[64,64],"data":[{x}]}}]}}"#
    );
    let mut client = server.client();
    // As many as make another model run in place, unless the machine is too slow for that.
    for _ in 0..200 {
        client.post(&infer("long"), &[], &body).expect(200);
        assert_eq!(first_of(&client.post(&infer("m"), &[], row(3))), 3.0);
        if 0.0 < in_place(&server, "m") {
            break;
        }
    }
    (0..50).for_each(|_| drop(client.post(&infer("long"), &[], &body).expect(200)));
    assert_eq!(in_place(&server, "long"), 0.0);
}

#[test]
fn few_clients_of_a_slow_model_that_wait_for_their_own_answers_all_get_them() {
    let config =
        "backend: \"identity\" max_batch_size: 1 instance_group { count: 1 kind: KIND_CPU }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        parameters { key: \"latency_alpha_us\" value: { string_value: \"30000\" } }";
    let repository = Repository::new().model("m", config);
    let server = Server::start(&repository, &[]);
    // Its runs are known to be slow before they come.
    for number in 0..3 {
        assert_eq!(first_of(&server.post(&infer("m"), row(number))), f64::from(number));
    }
    let address = server.http();
    thread::scope(|scope| {
        for client in 0..64 {
            scope.spawn(move || {
                let mut connection = Client::connect(address);
                for number in 0..2 {
                    let reply = connection.post(&infer("m"), &[], row(client + number));
                    assert_eq!(first_of(&reply.expect(200)), f64::from(client + number));
                }
            });
        }
    });
    assert_eq!(Page::read(address).failures("m", "REJECTED"), 0.0);
}

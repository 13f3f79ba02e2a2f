//! Tensors that no memory stands behind: a few bytes of a file or a request that ask an engine for more than the
//! server may take. The engine is told that there is none, and the server lives.

use crate::support::{Client, Group, IN_PROCESS, Process, Repository, first_of, infer, row, skip};

const MEMORY: u64 = 512 << 20;

/// A request for that many floats.
fn expanded(client: &mut Client, floats: u64) -> crate::support::Reply {
    let body = format!(
        r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1],"data":[1]}},
            {{"name":"shape","datatype":"INT64","shape":[1],"data":[{floats}]}}]}}"#
    );
    client.post(&infer("expanded"), &[], body)
}

#[test]
fn a_tensor_of_more_than_there_is_fails_its_run_and_nothing_else() {
    let Some(group) = Group::make(MEMORY) else {
        return skip("tensors beyond the memory: no control group can be made here");
    };
    let models = "backends/onnxruntime/tests/models";
    let repository = Repository::identity("m", &[])
        .copy("filled/1/model.onnx", &format!("{models}/filled.onnx"))
        .copy("expanded/1/model.onnx", &format!("{models}/expanded.onnx"));
    let flags =
        [IN_PROCESS, "--model-control-mode=explicit", "--load-model=m", "--load-model=expanded"];
    let mut process = Process::start_within(Some(&group), &repository, &flags, &[]);
    process.wait_ready();
    let mut client = process.client();

    // ONNX Runtime leaves to each run what it could not do once and for all.
    client.post("/v2/repository/models/filled/load", &[], "");
    for _ in 0..3 {
        let body = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[1]}]}"#;
        let told = client.post(&infer("filled"), &[], body).error(507);
        assert!(told.contains("memory"), "{told}");
        let told = expanded(&mut client, MEMORY / 4).error(507);
        assert!(told.contains("memory"), "{told}");
        assert_eq!(first_of(&expanded(&mut client, 10_000_000)), 1e7);
    }
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(8))), 8.0);
    process.signal("TERM");
    assert!(process.wait().status.success());
    drop(group);
}

//! Instances in a process that takes the place of one that was killed: each is made and warmed before it gets a
//! request, and the model is ready when one is.

use std::net::SocketAddr;

use crate::support::{
    Page, Process, Repository, first_of, infer, row, wait_for,
    workers::{ask_again, kill, of_worker, process, wait_not_ready, workers},
};

/// What a run of the warm-up makes the model say.
const WARMED: &str = "told to say so by 'fault'";

/// A model `m` of so many instances, each warmed with a run that the log tells, and whose runs take so long.
fn warmed(instances: usize, run_ms: u32) -> Repository {
    let config = format!(
        "backend: \"identity\" max_batch_size: 8
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         instance_group {{ count: {instances} kind: KIND_CPU }}
         model_warmup {{ name: \"w\" batch_size: 1 inputs {{ key: \"INPUT0\"
           value {{ data_type: TYPE_FP32 dims: [ 4 ] input_data_file: \"marked\" }} }} }}
         parameters {{ key: \"execute_delay_ms\" value: {{ string_value: \"{run_ms}\" }} }}
         parameters {{ key: \"fault\" value: {{ string_value: \"say\" }} }}
         parameters {{ key: \"fault_marker\" value: {{ string_value: \"777\" }} }}"
    );
    let marked: Vec<u8> = [777f32, 0.0, 0.0, 0.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    Repository::new().model("m", &config).file("m/warmup/marked", marked)
}

/// How many runs have warmed instances up so far.
fn warm_ups(server: &Process) -> usize {
    // Not those that are told once more when their process has died.
    let is_own = |it: &&String| it.contains(WARMED) && !it.contains("last_lines");
    server.log().iter().filter(is_own).count()
}

#[test]
fn all_instances_of_the_next_process_are_warmed_before_there_is_a_request() {
    let repository = warmed(3, 0);
    let mut server = process(&repository, &[]);
    wait_for("all to be warmed at the load", || (warm_ups(&server) == 3).then_some(()));
    kill(workers(server.id())[0]);
    wait_for("all to be warmed anew", || (warm_ups(&server) == 6).then_some(()));
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(1))), 1.0);
    assert_eq!(warm_ups(&server), 6, "nor does a request make one anew");
}

#[test]
fn a_model_is_not_ready_before_an_instance_of_its_next_process_is_warm() {
    let repository = warmed(1, 6000);
    let mut server = process(&repository, &["--strict-readiness=false"]);
    let mut client = server.client();
    client.get("/v2/models/m/ready").expect(200);
    kill(workers(server.id())[0]);
    server.wait_for_line("a new process serves");
    wait_not_ready(&mut client, "m", "made anew and warmed in another");
    let refused = client.post(&infer("m"), &[], row(1));
    assert!(refused.error(503).contains("made anew and warmed"), "{}", refused.text());
    assert_eq!(refused.header("retry-after").map(str::is_empty), Some(false));
    assert_eq!(warm_ups(&server), 1, "it was not ready while the first run was made");
    wait_for("the model to be ready", || {
        (client.get("/v2/models/m/ready").status == 200).then_some(())
    });
    wait_for("the line of the run", || (warm_ups(&server) == 2).then_some(()));
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(2))), 2.0);
}

/// Runs that processes of the model have answered.
fn runs(http: SocketAddr) -> f64 {
    of_worker(&Page::read(http), "m", "turn_overhead_us_count", "")
}

#[test]
fn who_comes_before_an_instance_is_warm_waits_for_it() {
    let repository = warmed(1, 100);
    let mut server = process(&repository, &[]);
    let (http, mut client) = (server.address("http"), server.client());
    // Sometimes the death is noticed before the request has come, and sometimes in its run.
    for number in 2..4 {
        let before = runs(http);
        kill(workers(server.id())[0]);
        assert_eq!(first_of(&ask_again(&mut client, "m", row(number))), f64::from(number));
        assert_eq!(
            runs(http),
            before + 2.0,
            "that which warms it up, and then that of the request"
        );
        wait_for("the line of the run", || (warm_ups(&server) as i32 == number).then_some(()));
    }
}

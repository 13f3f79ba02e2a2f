//! Sequences of requests: state, controls, seats, the backlog, and how a sequence ends.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::support::{
    Client, Page, Reply, Repository, Server, Start, ask,
    control::{EXPLICIT, load},
    infer, wait_queued,
};

const START: u8 = 1;
const END: u8 = 2;

/// What `accumulate` is told of sequences.
const CONTROLS: &str = r#"
    control_input [
      { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
      { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } },
      { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } },
      { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } ]
    state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: [ -1 ] }"#;

/// A machine with much else to do may let a client wait for longer than the usual second.
const PATIENT: &str = "max_sequence_idle_microseconds: 60000000";

/// A model `m` that adds up what a sequence sends, on one instance, with these lines in its sequence batching.
fn accumulate(max_batch_size: usize, batching: &str) -> Repository {
    let idle = if batching.contains("max_sequence_idle") { "" } else { PATIENT };
    let config = format!(
        "max_batch_size: {max_batch_size} instance_group {{ count: 1 kind: KIND_CPU }}
         sequence_batching {{ {batching} {idle} {CONTROLS} }}"
    );
    fixture("accumulate", &config)
}

fn fixture(name: &str, config: &str) -> Repository {
    Repository::new()
        .copy("m", &format!("tests/fixtures/batching/{name}"))
        .file("m/config.pbtxt", config)
}

/// A request of one row: `id` as JSON.
fn request(id: &str, flags: u8, values: &[i32]) -> String {
    with_parameters(id, flags, values, "")
}

fn with_parameters(id: &str, flags: u8, values: &[i32], more: &str) -> String {
    let (start, end) = (flags & START != 0, flags & END != 0);
    format!(
        r#"{{"parameters":{{"sequence_id":{id},"sequence_start":{start},"sequence_end":{end}{more}}},
           "inputs":[{{"name":"INPUT","shape":[1,{}],"datatype":"INT32","data":{values:?}}}]}}"#,
        values.len()
    )
}

/// The elements of an output.
#[track_caller]
fn output(reply: &Reply, name: &str) -> Vec<i64> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let reply = reply.json();
    let outputs = reply["outputs"].as_array().unwrap();
    let output = outputs.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{reply}"));
    output["data"].as_array().unwrap().iter().map(|it| it.as_i64().unwrap()).collect()
}

/// Sends one number to a sequence; its sum.
#[track_caller]
fn send(server: &Server, id: u64, flags: u8, value: i32) -> i64 {
    output(&server.post(&infer("m"), request(&id.to_string(), flags, &[value])), "OUTPUT")[0]
}

/// Sends one number to a sequence and waits for nothing.
fn begin(server: &Server, id: u64, flags: u8, value: i32) -> Client {
    ask(server.http(), "m", request(&id.to_string(), flags, &[value]))
}

#[test]
fn what_a_request_leaves_is_there_for_the_next_and_the_controls_say_where_it_stands() {
    let server = Server::start(&accumulate(4, ""), &[]);
    let seen = [(START, 1, 1, [1, 1, 0, 7]), (0, 2, 3, [0, 1, 0, 7]), (END, 3, 6, [0, 1, 1, 7])];
    for (flags, value, sum, controls) in seen {
        let reply = server.post(&infer("m"), request("7", flags, &[value]));
        assert_eq!(output(&reply, "OUTPUT"), [sum]);
        assert_eq!(output(&reply, "SEEN"), controls);
        assert_eq!(reply.json()["outputs"].as_array().unwrap().len(), 2, "{}", reply.text());
    }
    let late = server.post(&infer("m"), request("7", 0, &[4]));
    assert!(
        late.error(400).contains("inference request for sequence 7 to model"),
        "{}",
        late.text()
    );
    assert!(late.error(400).contains("sequence_start"), "{}", late.text());
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_request_success"), 3.0);
    assert_eq!(page.of("m", "nv_inference_exec_count"), 3.0);
}

#[test]
fn sequences_do_not_mix_and_a_start_begins_anew() {
    let server = Server::start(&accumulate(4, ""), &[]);
    assert_eq!(send(&server, 1, START, 1), 1);
    assert_eq!(send(&server, 2, START, 100), 100);
    assert_eq!(send(&server, 1, 0, 1), 2);
    assert_eq!(send(&server, 2, 0, 100), 200);
    assert_eq!(send(&server, 1, START, 5), 5);
    assert_eq!(send(&server, 1, END, 1), 6);
    assert_eq!(send(&server, 2, END, 1), 201);
}

#[test]
fn what_the_server_makes_is_hidden_from_clients() {
    let config = format!("max_batch_size: 4 sequence_batching {{ {CONTROLS} }}");
    let server = Server::start(&fixture("accumulate", &config), &[]);
    let metadata = server.get("/v2/models/m").expect(200).json();
    assert_eq!(metadata["inputs"].as_array().unwrap().len(), 1, "{metadata}");
    assert_eq!(metadata["outputs"].as_array().unwrap().len(), 2, "{metadata}");
    let config = server.get("/v2/models/m/config").expect(200).json();
    assert_eq!(config["sequence_batching"]["max_sequence_idle_microseconds"], 1_000_000);
}

#[test]
fn a_state_is_returned_where_it_is_configured_as_an_output() {
    let output_lines = r#"output [ { name: "SUM_OUT" data_type: TYPE_INT32 dims: [ -1 ] } ]"#;
    let config =
        format!("max_batch_size: 2 {output_lines} sequence_batching {{ {PATIENT} {CONTROLS} }}");
    let server = Server::start(&fixture("accumulate", &config), &[]);
    let reply = server.post(&infer("m"), request("1", START, &[4]));
    assert_eq!(output(&reply, "SUM_OUT"), [4]);
    assert_eq!(output(&server.post(&infer("m"), request("1", END, &[4])), "SUM_OUT"), [8]);
}

#[test]
fn each_sequence_has_a_row_of_the_batch_and_they_run_together() {
    let server = Server::start(&accumulate(4, "direct { }"), &["--scheduler-hold=3"]);
    let mut clients: Vec<Client> = (1..=3).map(|it| begin(&server, it, START, it as i32)).collect();
    let sums: Vec<i64> = clients.iter_mut().map(|it| output(&it.reply(), "OUTPUT")[0]).collect();
    assert_eq!(sums, [1, 2, 3]);
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_exec_count"), 1.0);
    assert_eq!(page.of("m", "nv_inference_count"), 3.0);
    // Alone in the second row or the third, it is still itself.
    for id in [3, 2] {
        assert_eq!(send(&server, id, END, 10), 10 + id as i64);
    }
}

#[test]
fn requests_of_one_sequence_run_in_their_order_however_many_are_under_way() {
    let server = Server::start(&accumulate(4, ""), &["--scheduler-hold=4"]);
    let mut clients = Vec::new();
    for (waiting, value) in [1, 10, 100, 1].into_iter().enumerate() {
        wait_queued(server.http(), "m", waiting);
        let flags = [START, 0, 0, END][waiting];
        clients.push(begin(&server, 5, flags, value));
    }
    let sums: Vec<i64> = clients.iter_mut().map(|it| output(&it.reply(), "OUTPUT")[0]).collect();
    assert_eq!(sums, [1, 11, 111, 112]);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 4.0);
}

#[test]
fn a_sequence_without_a_seat_waits_with_all_its_requests_until_another_ends() {
    let batching = "max_sequence_idle_microseconds: 60000000";
    let server = Server::start(&accumulate(1, batching), &[]);
    assert_eq!(send(&server, 1, START, 1), 1);
    let mut first = begin(&server, 2, START, 10);
    wait_queued(server.http(), "m", 1);
    let mut second = begin(&server, 2, END, 10);
    wait_queued(server.http(), "m", 2);
    assert_eq!(send(&server, 1, END, 1), 2);
    assert_eq!(output(&first.reply(), "OUTPUT"), [10]);
    assert_eq!(output(&second.reply(), "OUTPUT"), [20]);
}

#[test]
fn an_idle_sequence_gives_its_seat_away_and_must_start_again() {
    let batching = "max_sequence_idle_microseconds: 150000";
    let server = Server::start(&accumulate(1, batching), &[]);
    let started = Instant::now();
    assert_eq!(send(&server, 1, START, 1), 1);
    assert_eq!(send(&server, 2, START | END, 10), 10);
    assert!(Duration::from_millis(150) <= started.elapsed(), "{:?}", started.elapsed());
    let late = server.post(&infer("m"), request("1", 0, &[1]));
    assert!(late.error(400).contains("after 150 ms without a request"), "{}", late.text());
    assert_eq!(send(&server, 1, START, 3), 3);
}

#[test]
fn a_timeout_in_the_backlog_takes_the_whole_sequence() {
    let batching = "max_sequence_idle_microseconds: 60000000";
    let server = Server::start(&accumulate(1, batching), &[]);
    assert_eq!(send(&server, 1, START, 1), 1);
    let timed = with_parameters("2", START, &[1], r#","timeout":150000"#);
    let mut first = ask(server.http(), "m", timed);
    wait_queued(server.http(), "m", 1);
    let mut second = begin(&server, 2, 0, 1);
    assert!(first.reply().error(503).contains("its limit is 150000 us"));
    second.reply().error(503);
    // It has no say once there is a seat.
    let timed = with_parameters("1", 0, &[1], r#","timeout":1"#);
    assert_eq!(output(&server.post(&infer("m"), timed), "OUTPUT"), [2]);
    assert_eq!(Page::read(server.http()).failures("m", "REJECTED"), 2.0);
}

#[test]
fn a_request_that_is_no_part_of_a_sequence_is_refused_by_name() {
    let server = Server::start(&accumulate(4, ""), &[]);
    #[track_caller]
    fn refused(server: &Server, body: &str, text: &str) {
        let reply = server.post(&infer("m"), body);
        assert!(reply.error(400).contains(text), "{}", reply.text());
    }
    for id in ["0", "\"\""] {
        refused(
            &server,
            &request(id, START, &[1]),
            "must specify a non-zero or non-empty correlation ID: the parameter sequence_id",
        );
    }
    refused(
        &server,
        &request("\"a\"", START, &[1]),
        "takes sequence_id as UINT64 (input 'CORRID'); given 'a'",
    );
    let two = request("1", START, &[1, 2]).replace("[1,2]", "[2,1]");
    refused(
        &server,
        &two,
        "must specify batch-size 1 due to requirements of sequence batcher; given 2",
    );
    // None of this is counted as a failure of the model.
    let page = Page::read(server.http());
    assert_eq!((page.failures("m", "OTHER"), page.failures("m", "REJECTED")), (0.0, 0.0));
}

#[test]
fn a_request_that_fails_changes_nothing_for_its_sequence_and_nothing_for_others() {
    let server = Server::start(&accumulate(4, ""), &["--scheduler-hold=3"]);
    let mut clients: Vec<Client> =
        [(1, 5), (2, 1000), (3, 7)].map(|(id, value)| begin(&server, id, START, value)).into();
    let replies: Vec<Reply> = clients.iter_mut().map(Client::reply).collect();
    assert_eq!(output(&replies[0], "OUTPUT"), [5]);
    replies[1].error(400);
    assert_eq!(output(&replies[2], "OUTPUT"), [7]);
    // The sequence has begun all the same, from nothing.
    assert_eq!(send(&server, 2, 0, 1), 1);
    server.post(&infer("m"), request("1", 0, &[2000])).error(400);
    assert_eq!(send(&server, 1, END, 1), 6);
    assert_eq!(Page::read(server.http()).failures("m", "BACKEND"), 2.0);
}

#[test]
fn a_client_that_leaves_takes_the_rest_of_its_sequence_with_it() {
    let batching = "max_sequence_idle_microseconds: 60000000";
    let server = Server::start(&accumulate(1, batching), &[]);
    assert_eq!(send(&server, 1, START, 1), 1);
    let first = begin(&server, 2, START, 1);
    wait_queued(server.http(), "m", 1);
    let mut second = begin(&server, 2, 0, 1);
    wait_queued(server.http(), "m", 2);
    drop(first);
    assert!(second.reply().error(400).contains("the client of one of its requests left"));
    wait_queued(server.http(), "m", 0);
    assert_eq!(Page::read(server.http()).failures("m", "CANCELED"), 2.0);
    assert_eq!(send(&server, 1, 0, 1), 2);
}

#[test]
fn too_few_rows_wait_for_others_as_long_as_the_delay() {
    let direct = |delay| {
        format!("direct {{ max_queue_delay_microseconds: {delay} minimum_slot_utilization: 1.0 }}")
    };
    let server = Server::start(&accumulate(2, &direct(60_000_000)), &[]);
    let mut first = begin(&server, 1, START, 1);
    wait_queued(server.http(), "m", 1);
    assert_eq!(send(&server, 2, START, 2), 2);
    assert_eq!(output(&first.reply(), "OUTPUT"), [1]);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 1.0);

    let server = Server::start(&accumulate(2, &direct(200_000)), &[]);
    let started = Instant::now();
    assert_eq!(send(&server, 1, START, 1), 1);
    assert!(Duration::from_millis(200) <= started.elapsed(), "{:?}", started.elapsed());
}

#[test]
fn under_oldest_a_batch_holds_one_request_of_each_sequence_at_most() {
    let batching = "oldest { max_candidate_sequences: 4 }";
    let server = Server::start(&accumulate(8, batching), &["--scheduler-hold=4"]);
    let mut clients = Vec::new();
    for (waiting, (id, flags, value)) in
        [(1, START, 1), (1, END, 1), (2, START, 10), (3, START, 100)].into_iter().enumerate()
    {
        wait_queued(server.http(), "m", waiting);
        clients.push(begin(&server, id, flags, value));
    }
    let sums: Vec<i64> = clients.iter_mut().map(|it| output(&it.reply(), "OUTPUT")[0]).collect();
    assert_eq!(sums, [1, 2, 10, 100]);
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "nv_inference_exec_count"), 2.0);
    assert_eq!((page.batches_up_to("m", 1), page.batches_up_to("m", 4)), (1.0, 2.0));
}

#[test]
fn under_oldest_batches_have_the_preferred_size_and_candidates_are_bounded() {
    let batching = "max_sequence_idle_microseconds: 60000000
        oldest { max_candidate_sequences: 3 preferred_batch_size: [ 2 ] preserve_ordering: true }";
    let server = Server::start(&accumulate(8, batching), &["--scheduler-hold=4"]);
    let mut clients = Vec::new();
    for id in 1..=4 {
        wait_queued(server.http(), "m", id as usize - 1);
        clients.push(begin(&server, id, START, id as i32));
    }
    for (sum, client) in (1..=3).zip(&mut clients) {
        assert_eq!(output(&client.reply(), "OUTPUT"), [sum]);
    }
    // Two, then one; the fourth sequence has no seat yet.
    wait_queued(server.http(), "m", 1);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 2.0);
    assert_eq!(send(&server, 2, END, 1), 3);
    assert_eq!(output(&clients[3].reply(), "OUTPUT"), [4]);
}

/// All that a sequence has sent, with these dims of the first state.
fn history(name: &str, max_batch_size: usize, initial: &str) -> Repository {
    let config = format!(
        "max_batch_size: {max_batch_size} instance_group {{ count: 1 kind: KIND_CPU }}
         sequence_batching {{ {PATIENT} state {{ input_name: \"PAST\" output_name: \"NOW\" data_type: TYPE_INT32 dims: [ -1 ]
           initial_state {{ name: \"start\" data_type: TYPE_INT32 {initial} }} }} }}"
    );
    fixture(name, &config)
}

#[test]
fn a_state_may_begin_with_a_file_and_grow() {
    let numbers: Vec<u8> = [8i32, 9].iter().flat_map(|it| it.to_le_bytes()).collect();
    let repository = history("history", 2, "dims: [ 2 ] data_file: \"two\"");
    let server = Server::start(&repository.file("m/initial_state/two", numbers), &[]);
    let all = |flags, values: &[i32]| {
        output(&server.post(&infer("m"), request("1", flags, values)), "OUTPUT")
    };
    assert_eq!(all(START, &[1]), [8, 9, 1]);
    assert_eq!(all(0, &[2, 3]), [8, 9, 1, 2, 3]);
    assert_eq!(all(END, &[4]), [8, 9, 1, 2, 3, 4]);
}

#[test]
fn sequences_whose_states_have_grown_apart_run_one_after_the_other() {
    let repository = history("history", 4, "dims: [ 1 ] zero_data: true");
    let server = Server::start(&repository, &["--scheduler-hold=4"]);
    // The two starts of equal shape share a run; the third is longer. The last has another state than all.
    let mut clients = Vec::new();
    let requests =
        [("1", START, &[1][..]), ("2", START, &[2]), ("3", START, &[3, 3]), ("1", 0, &[4])];
    for (waiting, (id, flags, values)) in requests.into_iter().enumerate() {
        wait_queued(server.http(), "m", waiting);
        clients.push(ask(server.http(), "m", request(id, flags, values)));
    }
    let all: Vec<Vec<i64>> = clients.iter_mut().map(|it| output(&it.reply(), "OUTPUT")).collect();
    assert_eq!(all, [vec![0, 1], vec![0, 2], vec![0, 3, 3], vec![0, 1, 4]]);
    assert_eq!(Page::read(server.http()).of("m", "nv_inference_exec_count"), 3.0);
}

#[test]
fn a_model_without_a_batch_dimension_keeps_one_sequence_on_each_instance() {
    let repository = history("history_alone", 0, "dims: [ 1 ] zero_data: true");
    let server = Server::start(&repository, &[]);
    let alone = |flags, value: i32| {
        let body = request("9", flags, &[value]).replace("\"shape\":[1,1]", "\"shape\":[1]");
        output(&server.post(&infer("m"), body), "OUTPUT")
    };
    assert_eq!(alone(START, 1), [0, 1]);
    assert_eq!(alone(END, 2), [0, 1, 2]);
}

#[test]
fn an_id_may_be_a_text() {
    let config = r#"max_batch_size: 2 sequence_batching { control_input
        { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } }"#;
    let server = Server::start(&fixture("text_id", config), &[]);
    let reply = server.post(&infer("m"), request("\"robin\"", START | END, &[1]));
    let id = reply.json()["outputs"][1]["data"][0].clone();
    assert_eq!(id, "robin", "{}", reply.text());
    let number = server.post(&infer("m"), request("5", START, &[1]));
    assert!(number.error(400).contains("takes sequence_id as BYTES"), "{}", number.text());
}

#[test]
fn a_server_that_stops_answers_what_waits_for_a_seat() {
    let batching = "max_sequence_idle_microseconds: 60000000";
    let mut server = Server::start(&accumulate(1, batching), &[]);
    assert_eq!(send(&server, 1, START, 1), 1);
    let mut waiting = begin(&server, 2, START | END, 10);
    wait_queued(server.http(), "m", 1);
    // Its seat is taken by a sequence that nobody will end.
    let mut last = begin(&server, 1, 0, 1);
    assert_eq!(output(&last.reply(), "OUTPUT"), [2]);
    server.begin_stop();
    assert_eq!(output(&waiting.reply(), "OUTPUT"), [10]);
    server.wait().unwrap();
}

#[test]
fn what_is_wrong_with_a_file_of_a_state_is_a_load_error() {
    let repository = history("history", 2, "dims: [ 2 ] data_file: \"two\"");
    let repository = repository.file("m/initial_state/two", [0u8; 7]);
    let text =
        Start::new(&repository).try_run().err().expect("the only model does not load").to_string();
    assert!(text.contains("initial_state of state 'PAST'"), "{text}");
    assert!(text.contains("takes 8 bytes, given 7"), "{text}");
}

#[test]
fn another_number_of_instances_is_a_load_anew_at_which_open_sequences_are_over() {
    let config = |count: usize| {
        format!(
            "max_batch_size: 4 instance_group {{ count: {count} kind: KIND_CPU }} sequence_batching {{ {CONTROLS} }}"
        )
    };
    let repository = fixture("accumulate", &config(1));
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=m"]);
    assert_eq!(send(&server, 7, START, 1), 1);
    fs::write(repository.path().join("m/config.pbtxt"), config(2)).unwrap();
    load(&server, "m", "").expect(200);
    let late = server.post(&infer("m"), request("7", 0, &[2]));
    assert!(
        late.error(400).contains("inference request for sequence 7 to model"),
        "{}",
        late.text()
    );
    assert_eq!(send(&server, 7, START, 3), 3);
}

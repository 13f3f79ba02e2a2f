//! Requests are merged only where what a model answers for a row does not depend on the other rows of its run.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use frontend::grpc::proto::{
    ModelMetadataRequest, ModelMetadataResponse, infer_parameter::ParameterChoice,
};
use serde_json::{Value, json};

use crate::support::{
    Client, Page, Process, Repository, Server, ask, grpc, infer, wait_for, wait_queued,
};

/// Clients that ask at the same time, and how often each does.
const CLIENTS: usize = 16;
const ASKED: usize = 25;

/// A repository of that fixture, with that configuration where there is one.
fn of(fixture: &str, config: &str) -> Repository {
    beside(Repository::new(), fixture, config)
}

/// The same beside other models.
fn beside(repository: Repository, fixture: &str, config: &str) -> Repository {
    let from = format!("tests/fixtures/mixing/{fixture}");
    let repository = repository.copy(fixture, &from);
    if config.is_empty() {
        repository
    } else {
        repository.file(&format!("{fixture}/config.pbtxt"), config)
    }
}

/// A request of that shape. Its numbers are like those of no other `seed`.
fn body(shape: &[usize], seed: usize) -> String {
    let count: usize = shape.iter().product();
    let data: Vec<f64> =
        (0..count).map(|it| ((seed * 31 + it * 17) % 97) as f64 / 8.0 - 6.0).collect();
    json!({"inputs": [{"name": "INPUT", "shape": shape, "datatype": "FP32", "data": data}]})
        .to_string()
}

#[track_caller]
fn answer(client: &mut Client, model: &str, body: &str) -> Value {
    client.post(&infer(model), &[], body).expect(200).json()["outputs"][0].clone()
}

/// The configuration that clients see.
fn config(server: &Server, model: &str) -> Value {
    server.get(&format!("/v2/models/{model}/config")).expect(200).json()
}

fn merging(config: &Value) -> &str {
    config["parameters"]["muster_merging"]["string_value"].as_str().unwrap_or_default()
}

/// The metadata say the same as the configuration, over HTTP and gRPC.
#[track_caller]
fn check_metadata(server: &Server, model: &str) {
    let config = config(server, model);
    let expected = Some(merging(&config)).filter(|it| !it.is_empty());
    let metadata = server.get(&format!("/v2/models/{model}")).expect(200).json();
    assert_eq!(metadata["parameters"]["muster_merging"].as_str(), expected, "{metadata}");
    let request = ModelMetadataRequest { name: model.to_owned(), ..Default::default() };
    let over_grpc: ModelMetadataResponse =
        grpc::Client::new(server).call("ModelMetadata", request).unwrap();
    let parameter = over_grpc.parameters.get("muster_merging").map(|it| &it.parameter_choice);
    let expected = expected.map(|it| Some(ParameterChoice::StringParam(it.to_owned())));
    assert_eq!(parameter, expected.as_ref(), "{over_grpc:?}");
}

/// Each of many clients gets what it would get alone.
#[track_caller]
fn check_answers(server: &Server, model: &str, shape: &[usize]) {
    let bodies: Vec<String> = (0..CLIENTS).map(|it| body(shape, it)).collect();
    let mut client = server.client();
    let alone: Vec<Value> = bodies.iter().map(|it| answer(&mut client, model, it)).collect();
    thread::scope(|scope| {
        for (body, alone) in bodies.iter().zip(&alone) {
            scope.spawn(move || {
                let mut client = server.client();
                for _ in 0..ASKED {
                    assert_eq!(answer(&mut client, model, body), *alone);
                }
            });
        }
    });
}

/// It is not merged, says why, and takes requests of any number of rows.
#[track_caller]
fn check_unmerged(fixture: &str, shape: &[usize], reason: &str) -> Server {
    let server = Server::start(&of(fixture, ""), &[]);
    check_answers(&server, fixture, shape);
    let config = config(&server, fixture);
    assert_eq!(config["max_batch_size"], 0);
    let why = merging(&config);
    assert!(why.starts_with("off: ") && why.contains(reason), "{why}");
    check_metadata(&server, fixture);
    let mut many = shape.to_vec();
    many[0] = 9;
    answer(&mut server.client(), fixture, &body(&many, 3));
    server
}

const MIXES: &str = "depends on the other rows of the run";
const NO_BATCH: &str = "its first dimension is no batch";

#[test]
fn a_softmax_over_the_batch_is_not_merged() {
    check_unmerged("softmax_rows", &[1, 2], MIXES);
}

#[test]
fn a_mean_over_the_batch_is_not_merged() {
    let server = check_unmerged("less_mean", &[1, 4], MIXES);
    // A request of two rows is what its client says it is.
    let two = answer(&mut server.client(), "less_mean", &body(&[2, 4], 0));
    assert_ne!(two["data"][0], 0.0);
}

#[test]
fn a_first_row_that_is_changed_for_rare_numbers_alone_is_not_merged() {
    let server = check_unmerged("first_where_large", &[1, 4], MIXES);
    let large = json!({"inputs": [{"name": "INPUT", "shape": [2, 4], "datatype": "FP32", "data": vec![60; 8]}]});
    let two = answer(&mut server.client(), "first_where_large", &large.to_string());
    assert_eq!(two["data"], json!([9.0, 9.0, 9.0, 9.0, 60.0, 60.0, 60.0, 60.0]));
}

#[test]
fn a_scale_of_quantisation_that_the_batch_shares_is_not_merged() {
    check_unmerged("dynamic_int8", &[1, 16], MIXES);
}

#[test]
fn a_first_dimension_that_is_time_is_no_batch() {
    let server = check_unmerged("time_major", &[2, 3, 4], MIXES);
    let ones = json!({"inputs": [{"name": "INPUT", "shape": [3, 1, 4], "datatype": "FP32",
        "data": vec![1.0; 12]}]});
    let sums = answer(&mut server.client(), "time_major", &ones.to_string());
    assert_eq!(sums["shape"], json!([3, 1, 4]));
    assert_eq!(sums["data"][8], 3.0);
}

#[test]
fn a_graph_that_answers_other_rows_than_it_takes_is_no_batch() {
    let server = check_unmerged("boxes", &[3, 6], NO_BATCH);
    let boxes = json!({"inputs": [{"name": "INPUT", "shape": [3, 6], "datatype": "FP32",
        "data": [1, 1, 1, 1, 1, 0.9, 2, 2, 2, 2, 2, 0.1, 3, 3, 3, 3, 3, 0.8]}]});
    let kept = answer(&mut server.client(), "boxes", &boxes.to_string());
    assert_eq!((&kept["shape"], &kept["data"][6]), (&json!([2, 6]), &json!(3.0)));
}

/// The error of a load of the fixture with that configuration.
fn refusal(fixture: &str, config: &str) -> String {
    let others = Repository::identity("other", &[]);
    let server = Server::start(&beside(others, fixture, config), &[]);
    server.get(&format!("/v2/models/{fixture}/ready")).error(503)
}

#[test]
fn a_batch_that_is_written_down_where_an_output_has_no_rows_is_an_error_of_the_load() {
    let steps = |most_rows: usize| {
        format!(
            "max_batch_size: {most_rows} input {{ name: 'INPUT' data_type: TYPE_FP32 dims: [ -1, 4 ] }}
             output {{ name: 'STEPS' data_type: TYPE_FP32 dims: [ -1, 4 ] }}"
        )
    };
    for (fixture, config, parts) in [
        (
            "time_first",
            &*steps(8),
            ["max_batch_size is 8", "output 'STEPS' has the shape [8,1,4] for 1 row"],
        ),
        (
            "time_first",
            &*steps(1),
            ["max_batch_size is 1", "output 'STEPS' has the shape [8,1,4] for 1 row"],
        ),
        // One of two outputs.
        ("time_first", "max_batch_size: 8", ["max_batch_size is 8", "output 'STEPS'"]),
        (
            "time_first",
            "max_batch_size: 8 dynamic_batching { }",
            ["max_batch_size is 8", "output 'STEPS'"],
        ),
        ("boxes", "max_batch_size: 4", ["max_batch_size is 4", "output 'OUTPUT'"]),
    ] {
        let error = refusal(fixture, config);
        for part in parts.iter().chain(&[NO_BATCH, "write max_batch_size: 0, and dims with all"]) {
            assert!(error.contains(part), "{fixture}: {part}: {error}");
        }
    }
}

#[test]
fn an_output_without_rows_that_the_configuration_does_not_give_is_no_reason_to_refuse() {
    let rows = "max_batch_size: 8 input { name: 'INPUT' data_type: TYPE_FP32 dims: [ -1, 4 ] }
         output { name: 'ROWS' data_type: TYPE_FP32 dims: [ -1, 4 ] }";
    let server = Server::start(&of("time_first", rows), &[]);
    let given = answer(&mut server.client(), "time_first", &body(&[2, 3, 4], 1));
    assert_eq!((&given["name"], &given["shape"]), (&json!("ROWS"), &json!([2, 3, 4])));
}

#[test]
fn a_batch_that_was_filled_in_where_an_output_has_no_rows_is_taken_back_with_one_warning() {
    for config in ["dynamic_batching { }", "dynamic_batching { preferred_batch_size: [ 4 ] }", ""] {
        let repository = of("time_first", config);
        let mut server = Process::start(&repository, &[], &[]);
        server.wait_ready();
        let mut client = server.client();
        let reply = client.post(&infer("time_first"), &[], body(&[2, 3, 4], 1)).expect(200).json();
        let shapes: Vec<&Value> =
            reply["outputs"].as_array().unwrap().iter().map(|it| &it["shape"]).collect();
        assert_eq!(shapes, [&json!([2, 3, 4]), &json!([3, 2, 4])]);
        let shown = client.get("/v2/models/time_first/config").expect(200).json();
        assert_eq!(shown["max_batch_size"], 0);
        assert!(merging(&shown).contains(NO_BATCH), "{shown}");
        server.signal("TERM");
        let log = server.wait().log;
        let warnings: Vec<_> = log.iter().filter(|it| it.contains("WARN")).collect();
        let [warning] = warnings[..] else { panic!("{config}: {warnings:#?}") };
        for part in ["model=time_first", NO_BATCH, "'STEPS'", "without a batch dimension"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
    }
}

/// Runs for four requests that wait together.
fn runs(fixture: &str, config: &str, shape: &[usize]) -> (Server, f64) {
    let server = Server::start(&of(fixture, config), &["--scheduler-hold=4"]);
    let mut clients = Vec::new();
    for waiting in 0..4 {
        wait_queued(server.http(), fixture, waiting);
        clients.push(ask(server.http(), fixture, body(shape, waiting)));
    }
    clients.iter_mut().for_each(|it| drop(it.reply().expect(200)));
    let runs = Page::read(server.http()).of(fixture, "nv_inference_exec_count");
    (server, runs)
}

#[test]
fn a_graph_whose_scale_of_quantisation_is_fixed_is_merged() {
    let (server, runs) = runs("static_int8", "", &[1, 16]);
    assert_eq!(runs, 1.0);
    let config = config(&server, "static_int8");
    assert_eq!((&config["max_batch_size"], merging(&config)), (&json!(4), ""));
    check_metadata(&server, "static_int8");
    check_answers(&server, "static_int8", &[1, 16]);
}

#[test]
fn a_model_that_mixes_rows_is_merged_where_its_configuration_says_so() {
    let (server, runs) = runs("softmax_rows", "dynamic_batching { }", &[1, 2]);
    assert_eq!(runs, 1.0);
    let config = config(&server, "softmax_rows");
    assert_eq!(config["max_batch_size"], 4);
    assert!(merging(&config).starts_with("on, as dynamic_batching is written"), "{config}");
    check_metadata(&server, "softmax_rows");
}

#[test]
fn a_model_that_is_merged_although_it_mixes_rows_has_one_warning() {
    let repository = of("softmax_rows", "dynamic_batching { }");
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let mut client = server.client();
    (0..CLIENTS).for_each(|it| drop(answer(&mut client, "softmax_rows", &body(&[1, 2], it))));
    // What is written before the end is all there.
    server.signal("TERM");
    let log = server.wait().log;
    let warnings: Vec<_> = log.iter().filter(|it| it.contains("WARN")).collect();
    let [warning] = warnings[..] else { panic!("{warnings:#?}") };
    for part in ["model=softmax_rows", "its requests are merged", "answers may be wrong", MIXES] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
}

#[test]
fn a_floor_below_the_loudest_or_the_mean_of_a_run_is_not_merged() {
    check_unmerged("floor_of_loudest", &[1, 4], MIXES);
    check_unmerged("floor_of_mean", &[1, 4], MIXES);
}

/// Four requests that wait together are four runs, and each is answered so.
#[track_caller]
fn check_special(
    fixture: &str,
    input: &str,
    datatype: &str,
    rows: [&[f64]; 4],
    answers: [&[f64]; 4],
) {
    let server = Server::start(&of(fixture, ""), &["--scheduler-hold=4"]);
    let why = merging(&config(&server, fixture)).to_owned();
    assert!(why.starts_with("off: ") && why.contains(MIXES), "{why}");
    let mut clients = Vec::new();
    for (waiting, row) in rows.iter().enumerate() {
        wait_queued(server.http(), fixture, waiting);
        let data: Value = match datatype {
            "INT64" => row.iter().map(|it| *it as i64).collect(),
            _ => json!(row),
        };
        let body = json!({"inputs": [{"name": input, "shape": [1, row.len()], "datatype": datatype, "data": data}]});
        clients.push(ask(server.http(), fixture, body.to_string()));
    }
    for (client, expected) in clients.iter_mut().zip(answers) {
        let reply = client.reply().expect(200).json();
        assert_eq!(reply["outputs"][0]["data"], json!(expected), "{fixture}");
    }
    let page = Page::read(server.http());
    let counts = ["nv_inference_exec_count", "nv_inference_count"].map(|it| page.of(fixture, it));
    assert_eq!(counts, [4.0, 4.0], "{fixture}");
}

#[test]
fn a_threshold_that_only_a_huge_number_reaches_is_not_merged() {
    let (large, ordinary): (&[f64], &[f64]) = (&[2e9, 1.0, 2.0, 3.0], &[0.5, 1.5, 2.5, 3.5]);
    let rows = [ordinary, large, ordinary, ordinary];
    let turned: &[f64] = &[-2e9, -1.0, -2.0, -3.0];
    check_special(
        "threshold_of_run",
        "INPUT",
        "FP32",
        rows,
        [ordinary, turned, ordinary, ordinary],
    );
}

#[test]
fn zero_times_what_others_are_is_not_merged() {
    // The sum of all is infinite.
    let (large, ordinary): (&[f64], &[f64]) = (&[2e38; 4], &[0.5, 1.5, 2.5, 3.5]);
    let rows = [ordinary, large, large, ordinary];
    check_special("zero_times_others", "INPUT", "FP32", rows, rows);
}

#[test]
fn a_switch_by_the_largest_position_of_a_run_is_not_merged() {
    let near = |server: &Server, ids: [i64; 3]| {
        let body =
            json!({"inputs": [{"name": "IDS", "shape": [1, 3], "datatype": "INT64", "data": ids}]});
        let answer = answer(&mut server.client(), "far_positions", &body.to_string());
        let values = answer["data"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap());
        values.collect::<Vec<f64>>()
    };
    // The same table without the switch.
    let server = Server::start(&of("far_positions", ""), &[]);
    assert_eq!(merging(&config(&server, "far_positions")), "");
    let ordinary = near(&server, [1, 20, 64]);
    let turned: Vec<f64> = near(&server, [2, 30, 80]).iter().map(|it| -it).collect();
    let rows: [&[f64]; 4] =
        [&[1.0, 20.0, 64.0], &[2.0, 30.0, 80.0], &[1.0, 20.0, 64.0], &[1.0, 20.0, 64.0]];
    let answers: [&[f64]; 4] = [&ordinary, &turned, &ordinary, &ordinary];
    check_special("far_positions_mix", "IDS", "INT64", rows, answers);
}

#[test]
fn models_whose_rows_keep_what_is_no_number_to_themselves_are_merged() {
    let honest = [
        "mlp",
        "convnet",
        "transformer",
        "retrieval",
        "type_fp16",
        "type_fp32",
        "type_int64",
        "type_uint8",
    ];
    let mut repository = Repository::new();
    for model in honest {
        repository = repository.copy(model, &format!("tests/fixtures/models/{model}"));
    }
    for fixture in ["far_positions", "softmax_columns", "static_int8", "masked"] {
        repository = beside(repository, fixture, "");
    }
    let server = Server::start(&repository, &[]);
    for model in honest.iter().chain(&["far_positions", "softmax_columns", "static_int8", "masked"])
    {
        let config = config(&server, model);
        assert_eq!((merging(&config), &config["max_batch_size"]), ("", &json!(4)), "{model}");
    }
}

#[test]
fn a_graph_whose_operators_say_that_rows_share_a_scale_is_not_merged() {
    check_unmerged("computed_int8", &[1, 16], "by its operator QuantizeLinear");
    check_unmerged("label_of_int8", &[1, 16], "by its operator DynamicQuantizeLinear");
}

#[test]
fn a_model_that_answers_everything_alike_is_not_proved_and_not_merged() {
    check_unmerged("constant", &[1, 4], "prove nothing: output 'OUTPUT' is the same for all");
}

/// What is said of the merging of that model.
fn said_of(fixture: &str) -> String {
    let server = Server::start(&of(fixture, ""), &[]);
    merging(&config(&server, fixture)).to_owned()
}

#[test]
fn masks_and_special_numbers_hide_nothing() {
    for fixture in ["masked_mixes", "special_ids_mix"] {
        let said = said_of(fixture);
        assert!(said.contains(MIXES), "{fixture}: {said}");
    }
    for fixture in ["masked", "masked_unnamed", "special_ids"] {
        assert_eq!(said_of(fixture), "", "{fixture}");
    }
}

#[test]
fn rows_that_turn_out_to_mix_are_not_merged_any_more() {
    let server = Server::start(&of("mixes_late", ""), &[]);
    let shown = config(&server, "mixes_late");
    assert_eq!((&shown["max_batch_size"], merging(&shown)), (&json!(4), ""));
    // Only numbers of some size mix.
    let large = |seed: usize| {
        let data = [5000 + 1000 * seed; 4];
        json!({"inputs": [{"name": "INPUT", "shape": [1, 4], "datatype": "FP32", "data": data}]})
            .to_string()
    };
    let is_found = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let (server, is_found, body) = (&server, &is_found, large(seed));
            scope.spawn(move || {
                let mut client = server.client();
                while !is_found.load(Ordering::Relaxed) {
                    answer(&mut client, "mixes_late", &body);
                }
            });
        }
        let found = wait_for("a merged request to be compared", || {
            let config = config(&server, "mixes_late");
            Some(merging(&config).to_owned()).filter(|it| !it.is_empty())
        });
        is_found.store(true, Ordering::Relaxed);
        let says = "off: a request of 1 rows was answered otherwise in a run of";
        assert!(found.starts_with(says), "{found}");
        check_metadata(&server, "mixes_late");
    });
    assert_eq!(Page::read(server.http()).of("mixes_late", "muster_merge_mismatch_total"), 1.0);
    // From now on each is answered as alone.
    thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let (server, body) = (&server, large(seed));
            scope.spawn(move || {
                let mut client = server.client();
                for _ in 0..ASKED {
                    assert_eq!(
                        answer(&mut client, "mixes_late", &body)["data"],
                        json!(vec![1000.0; 4])
                    );
                }
            });
        }
    });
    let refused = server.post(&infer("mixes_late"), body(&[5, 4], 0)).error(400);
    assert!(refused.contains("must be <= 4"), "{refused}");
}

#[test]
fn dimensions_that_were_written_without_the_batch_stay_those_of_a_row() {
    let written = "output { name: \"OUTPUT\" data_type: TYPE_FP32 dims: [ 4 ] }";
    let server = Server::start(&of("less_mean", written), &[]);
    let config = config(&server, "less_mean");
    assert_eq!(
        (&config["max_batch_size"], &config["output"][0]["dims"]),
        (&json!(0), &json!([-1, 4]))
    );
    check_answers(&server, "less_mean", &[1, 4]);
}

#[test]
fn a_batch_size_that_is_written_as_zero_is_zero() {
    let server = Server::start(&of("static_int8", "max_batch_size: 0"), &[]);
    let config = config(&server, "static_int8");
    assert_eq!((&config["max_batch_size"], merging(&config)), (&json!(0), ""));
    answer(&mut server.client(), "static_int8", &body(&[7, 16], 1));
}

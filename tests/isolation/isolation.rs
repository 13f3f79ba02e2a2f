//! Models in processes of their own: their answers are those of models in the server, and their ends are theirs alone.

use std::{fs, io, slice, thread};

use serde_json::{Value, json};

use crate::support::{
    Client, Form, Page, Process, Repository, Server, Tensor, ask, first_of, infer, onnx_file, root,
    row, wait_for,
    workers::{ask_again, is_gone, kill, of_worker, process, wait_not_ready, workers},
};

const ALL: &str = "--isolation=all";

#[test]
fn answers_are_the_same_bytes_in_a_process_of_their_own() {
    let fixtures: Vec<String> = fs::read_dir(root("tests/fixtures/models"))
        .unwrap()
        .filter_map(|it| it.ok()?.file_name().into_string().ok())
        .filter(|it| it.starts_with("type_"))
        .collect();
    let names: Vec<&str> = fixtures.iter().map(String::as_str).collect();
    assert!(10 < names.len());
    let repository = Repository::of(&names);
    let (inside, outside) = (Server::start(&repository, &[]), Server::start(&repository, &[ALL]));
    for name in names {
        let told = inside.get(&format!("/v2/models/{name}")).expect(200).json();
        assert_eq!(told, outside.get(&format!("/v2/models/{name}")).expect(200).json());
        let inputs: Vec<_> = told["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                let dims = it["shape"].as_array().unwrap().iter();
                let shape: Vec<i64> = dims.map(|it| it.as_i64().unwrap().max(1)).collect();
                let one = match it["datatype"].as_str().unwrap() {
                    "BYTES" => json!("a text"),
                    "BOOL" => json!(true),
                    _ => json!(3),
                };
                let data = vec![one; shape.iter().product::<i64>() as usize];
                json!({"name": it["name"], "datatype": it["datatype"], "shape": shape, "data": data})
            })
            .collect();
        let body = json!({ "inputs": inputs }).to_string();
        let ask = |server: &Server| server.post(&infer(name), body.clone());
        let (one, other) = (ask(&inside), ask(&outside));
        assert_eq!((one.status, one.text()), (other.status, other.text()), "{name}");
    }
}

/// So many rows for a model with that metadata: of each input other values in each row.
fn rows_for(told: &Value, rows: usize) -> Vec<Value> {
    let input = |it: &Value| {
        let dims = it["shape"].as_array().unwrap().iter().skip(1);
        let mut shape = vec![rows];
        shape.extend(dims.map(|it| it.as_u64().unwrap() as usize));
        let value = |at: usize| match it["datatype"].as_str().unwrap() {
            "BYTES" => json!(format!("text {at}")),
            "FP32" => json!((at * 37 % 97) as f32 / 8.0),
            _ => json!(at % 5),
        };
        let data: Vec<Value> = (0..shape.iter().product()).map(value).collect();
        json!({"name": it["name"], "datatype": it["datatype"], "shape": shape, "data": data})
    };
    told["inputs"].as_array().unwrap().iter().map(input).collect()
}

/// Not compared with a file: the last bits of an answer are those of the processor's instructions.
#[test]
fn the_examples_answer_the_same_bytes_in_a_process_of_their_own() {
    const EXAMPLES: [&str; 3] = ["fraud", "digits", "listing_price"];
    let copied = |to: Repository, name: &&str| to.copy(name, &format!("model_repository/{name}"));
    let repository = EXAMPLES.iter().fold(Repository::new(), copied);
    let (inside, outside) = (Server::start(&repository, &[]), Server::start(&repository, &[ALL]));
    for name in EXAMPLES {
        let told = inside.get(&format!("/v2/models/{name}")).expect(200).json();
        for (rows, is_binary) in [(1, false), (7, false), (7, true)] {
            let inputs = rows_for(&told, rows);
            let parameters = json!({"binary_data_output": is_binary});
            let body = json!({"inputs": inputs, "parameters": parameters}).to_string();
            let ask = |server: &Server| server.post(&infer(name), body.clone()).expect(200).body;
            let (one, other) = (ask(&inside), ask(&outside));
            assert_eq!(one, other, "{name}, {rows} rows: {}", String::from_utf8_lossy(&one));
        }
    }
}

#[test]
fn who_kills_the_process_gets_an_error_and_those_beside_it_get_answers() {
    let batching = [("fault", "abort"), ("fault_marker", "666"), ("execute_delay_ms", "100")];
    let server = Server::start(&Repository::identity("m", &batching), &[ALL]);
    // The first keeps the instance busy, so that the others are one batch.
    let mut first = ask(server.http(), "m", row(1));
    let numbers = [2, 3, 666, 4, 5];
    let mut clients: Vec<Client> =
        numbers.iter().map(|it| ask(server.http(), "m", row(*it))).collect();
    assert_eq!(first_of(&first.reply()), 1.0);
    for (number, client) in numbers.iter().zip(&mut clients) {
        let reply = client.reply();
        if *number == 666 {
            let error = reply.error(500);
            assert!(
                error.contains("the process of model 'm' ended by signal 6 (SIGABRT)"),
                "{error}"
            );
        } else {
            assert_eq!(first_of(&reply), f64::from(*number));
        }
    }
    assert_eq!(first_of(&ask_again(&mut server.client(), "m", row(7))), 7.0);
    let page = Page::read(server.http());
    let shown = |name: &str, label: &str| of_worker(&page, "m", name, label);
    assert_eq!(shown("restarts_total", "reason=\"signal\""), 2.0);
    assert_eq!(shown("rerun_total", "outcome=\"failed\""), 1.0);
    // Once more it is refused, and ends no third one; others go on.
    let error = server.post(&infer("m"), row(666)).error(500);
    assert!(error.contains("a request with these inputs has done that twice"), "{error}");
    assert_eq!(first_of(&server.post(&infer("m"), row(8))), 8.0);
    assert_eq!(
        of_worker(&Page::read(server.http()), "m", "restarts_total", "reason=\"signal\""),
        2.0
    );
}

#[test]
fn what_the_process_of_a_model_is_and_uses_is_on_the_page_of_metrics() {
    let repository =
        Repository::identity("m", &[]).with_identity("inside", &[("ISOLATION", "in_process")]);
    let mut server = process(&repository, &[]);
    let http = server.address("http");
    let shown = |name: &str, label: &str| of_worker(&Page::read(http), "m", name, label);
    assert_eq!(shown("up", ""), 1.0);
    assert_eq!(shown("pid", ""), f64::from(workers(server.id())[0]));
    assert_eq!(shown("start_seconds_count", ""), 1.0);
    assert!(0.0 < shown("start_seconds_sum", ""));
    let turns = shown("turn_overhead_us_count", "");
    // Its stacks and its heap, and what a run has put in the memory that it shares.
    assert!(100_000.0 < shown("memory_bytes", "kind=\"private\""));
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(1))), 1.0);
    assert_eq!(shown("turn_overhead_us_count", ""), turns + 1.0);
    assert!(0.0 < shown("turn_overhead_us_sum", ""));
    wait_for("the arena to be seen", || {
        (0.0 < shown("memory_bytes", "kind=\"arena\"")).then_some(())
    });
    let stats = server.client().get("/v2/models/m/stats").expect(200).json();
    let memory = &stats["model_stats"][0]["memory_usage"][0];
    assert_eq!(memory["type"], "CPU", "{stats}");
    assert!(100_000.0 < memory["byte_size"].as_f64().unwrap(), "{stats}");
    let cpu = shown("cpu_seconds_total", "");
    kill(workers(server.id())[0]);
    wait_for("another process", || (shown("start_seconds_count", "") == 2.0).then_some(()));
    assert!(cpu <= shown("cpu_seconds_total", ""));
    assert_eq!(shown("restarts_total", "reason=\"signal\""), 1.0);
    let page = server.client().get("/metrics").expect(200).text();
    assert!(!page.lines().any(|it| it.starts_with("muster_worker_") && it.contains("inside")));
}

#[test]
fn a_run_whose_process_is_killed_is_made_again_and_nobody_else_notices() {
    let slow = [("execute_delay_ms", "300")];
    let repository = Repository::identity("slow", &slow);
    let mut server = process(&repository, &[]);
    let before = workers(server.id());
    assert_eq!(before.len(), 1);
    let mut client = ask(server.address("http"), "slow", row(4));
    // A run lasts, so that this comes before its end; where it comes before its beginning, the next process runs it.
    kill(before[0]);
    assert_eq!(first_of(&client.reply()), 4.0);
    server.wait_for_line("the process of model 'slow' ended by signal 9 (SIGKILL)");
    let after =
        wait_for("another process", || Some(workers(server.id())).filter(|it| it.len() == 1));
    assert_ne!(before, after);
    let page = Page::read(server.address("http"));
    assert_eq!(of_worker(&page, "slow", "restarts_total", "reason=\"signal\""), 1.0);
    assert_eq!(of_worker(&page, "slow", "rerun_total", "outcome=\"failed\""), 0.0);
}

#[test]
fn a_process_that_dies_while_nothing_runs_has_a_successor_at_once() {
    let mut server = process(&Repository::identity("m", &[]), &[]);
    let before = workers(server.id());
    kill(before[0]);
    server.wait_for_line("a new process serves");
    assert_ne!(workers(server.id()), before);
    assert_eq!(first_of(&ask_again(&mut server.client(), "m", row(1))), 1.0);
}

#[test]
fn after_three_early_deaths_of_a_minute_requests_are_refused_for_that_model_alone() {
    let repository = Repository::identity("m", &[("fault", "abort"), ("fault_marker", "666")])
        .with_identity("other", &[]);
    let server = Server::start(&repository, &[ALL]);
    // Each takes two processes. The same request would be known.
    let killer = |number: usize| {
        let data = [666, number, 0, 0];
        json!({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": data}]})
    };
    server.post(&infer("m"), killer(0).to_string()).error(500);
    let mut number = 0;
    let refused = wait_for("the model to be refused", || {
        number += 1;
        let reply = server.post(&infer("m"), killer(number).to_string());
        (reply.status == 503).then_some(reply)
    });
    assert!(refused.error(503).contains("has died too often of late"), "{}", refused.text());
    // Thirty seconds less what has passed, and a few more by chance.
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..40).contains(&seconds), "{seconds}");
    server.get("/v2/health/live").expect(200);
    let not_ready = server.get("/v2/models/m/ready").error(503);
    assert!(not_ready.contains("has died too often of late"), "{not_ready}");
    server.get("/v2/models/other/ready").expect(200);
    assert_eq!(server.get("/v2/health/ready").status, 400);
    let index = server.post("/v2/repository/index", "{}").expect(200).json();
    let entry = |name: &str| {
        let found = index.as_array().unwrap().iter().find(|it| it["name"] == name);
        (found.unwrap()["state"].clone(), found.unwrap()["reason"].clone())
    };
    let (state, reason) = entry("m");
    assert_eq!(state, "UNAVAILABLE");
    assert!(reason.as_str().unwrap().contains("has died too often of late"), "{reason}");
    assert_eq!(entry("other").0, "READY");
    assert_eq!(first_of(&server.post(&infer("other"), row(2))), 2.0);
}

#[test]
fn a_model_whose_files_have_changed_is_not_ready_once_its_process_has_died() {
    let repository = Repository::identity("m", &[]).file("m/1/weights", "one");
    let mut server = process(&repository, &["--strict-readiness=false"]);
    let mut client = server.client();
    client.get("/v2/models/m/ready").expect(200);
    let repository = repository.file("m/1/weights", "another");
    kill(workers(server.id())[0]);
    wait_not_ready(&mut client, "m", "weights' has changed since the model was loaded");
    client.get("/v2/health/ready").expect(200);
    drop(repository);
}

#[test]
fn weights_that_have_changed_beside_a_model_file_end_the_model_until_it_is_loaded_again() {
    let repository = Repository::new().copy("m/1", "backends/onnxruntime/tests/models/external");
    let weights = repository.path().join("m/1/weights.bin");
    let flags = ["--model-control-mode=explicit", "--load-model=*"];
    let mut server = process(&repository, &flags);
    let mut client = server.client();
    fs::write(&weights, fs::read(&weights).unwrap()).unwrap();
    kill(workers(server.id())[0]);
    wait_not_ready(&mut client, "m", "weights.bin' has changed since the model was loaded");
    assert!(workers(server.id()).is_empty());
    client.post("/v2/repository/models/m/load", &[], "").expect(200);
    client.get("/v2/models/m/ready").expect(200);
    assert_eq!(workers(server.id()).len(), 1);
}

#[test]
fn an_ensemble_is_not_ready_while_a_member_has_no_process() {
    let ensemble = "platform: \"ensemble\" max_batch_size: 8
        input { name: \"x\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"y\" data_type: TYPE_FP32 dims: [ 4 ] }
        ensemble_scheduling { step {
            model_name: \"m\" model_version: -1
            input_map { key: \"INPUT0\" value: \"x\" } output_map { key: \"OUTPUT0\" value: \"y\" }
        } }";
    let repository =
        Repository::identity("m", &[]).file("m/1/weights", "one").model("e", ensemble).model(
            "outer",
            &ensemble.replace("\"m\"", "\"e\"").replace("INPUT0", "x").replace("OUTPUT0", "y"),
        );
    let mut server = process(&repository, &["--strict-readiness=false"]);
    let mut client = server.client();
    client.get("/v2/models/outer/ready").expect(200);
    let repository = repository.file("m/1/weights", "another");
    kill(workers(server.id())[0]);
    for (model, steps) in [("e", "step[0] ('m'): "), ("outer", "step[0] ('e'): step[0] ('m'): ")] {
        let error = wait_not_ready(&mut client, model, "has changed");
        assert!(error.contains(steps), "{error}");
    }
    drop(repository);
}

#[test]
fn an_instance_that_is_never_made_ends_with_its_load() {
    let repository =
        Repository::identity("stuck", &[("load_fault", "instance_hang")]).with_identity("m", &[]);
    let flags = [ALL, "--load-limit-secs=5", "--load-run-limit-secs=5", "--strict-readiness=false"];
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let told = server.wait_for_line("its load took longer than");
    assert!(told.contains("stuck"), "{told}");
    wait_for("its process to end", || (workers(server.id()).len() == 1).then_some(()));
    assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(1))), 1.0);
}

#[test]
fn a_load_that_ends_its_process_is_an_error_of_that_model() {
    let repository =
        Repository::identity("bad", &[("load_fault", "abort")]).with_identity("good", &[]);
    let server = Server::start(&repository, &[ALL]);
    let error = server.post(&infer("bad"), row(1)).error(503);
    let expected = "the process of model 'bad' ended by signal 6 (SIGABRT) while it was loaded";
    assert!(error.contains(expected), "{error}");
    assert_eq!(first_of(&server.post(&infer("good"), row(1))), 1.0);
}

#[test]
fn a_configuration_says_where_its_model_runs() {
    let repository = Repository::identity("a", &[("ISOLATION", "process")])
        .with_identity("b", &[("ISOLATION", "in_process")])
        .with_identity("c", &[])
        .with_identity("d", &[])
        .with_identity("e", &[("isolation", "sometimes")]);
    let mut server = Process::start(&repository, &["--isolation=b,c"], &[]);
    server.wait_ready();
    assert_eq!(workers(server.id()).len(), 2);
    let error = server.client().post(&infer("e"), &[], row(1)).error(503);
    assert!(
        error.contains("expected 'process', 'in_process' or 'auto', given 'sometimes'"),
        "{error}"
    );
}

#[test]
fn a_name_that_no_model_has_ends_the_start_unless_models_may_come_later() {
    let repository = Repository::identity("a", &[]).with_identity("b", &[]);
    let ended = Process::start(&repository, &["--isolation=maybe,b"], &[]).wait();
    assert_eq!(ended.status.code(), Some(1), "{:#?}", ended.log);
    let said = "--isolation: no model is called maybe; expected off, all, auto, or names of models, which are a, b";
    assert!(ended.log.iter().any(|it| it.contains(said)), "{:#?}", ended.log);
    let flags = ["--isolation=maybe", "--model-control-mode=explicit"];
    let mut server = Process::start(&repository, &flags, &[]);
    assert!(server.wait_for_line("no model is called maybe").contains("WARN"));
    server.wait_ready();
}

#[test]
fn processes_end_with_their_models_and_with_the_server_however_it_ends() {
    let repository = Repository::identity("m", &[]).with_identity("n", &[]);
    let mut server = process(&repository, &["--model-control-mode=explicit", "--load-model=*"]);
    let both = workers(server.id());
    assert_eq!(both.len(), 2);
    server.client().post("/v2/repository/models/n/unload", &[], "").expect(200);
    wait_for("one process to end", || (workers(server.id()).len() == 1).then_some(()));
    server.signal("KILL");
    server.wait();
    wait_for("the other to end", || both.iter().all(is_gone).then_some(()));
}

#[test]
fn a_run_that_does_not_end_is_ended_with_its_process() {
    let repository = Repository::identity("m", &[("fault", "deaf"), ("fault_marker", "888")])
        .with_identity("hang", &[("fault", "hang"), ("fault_marker", "888")]);
    let mut server = process(&repository, &["--run-limit-secs=1"]);
    let before = workers(server.id());
    for model in ["hang", "m"] {
        let mut client = ask(server.address("http"), model, row(888));
        let error = client.reply().error(504);
        assert!(error.contains("longer than 1 s"), "{error}");
    }
    server.wait_for_line("the process of model 'm' ended by signal 9 (SIGKILL)");
    let after =
        wait_for("another process", || Some(workers(server.id())).filter(|it| it.len() == 2));
    assert_eq!(before.iter().filter(|it| after.contains(it)).count(), 1);
    for model in ["hang", "m"] {
        assert_eq!(first_of(&ask_again(&mut server.client(), model, row(3))), 3.0);
    }
}

#[test]
fn what_is_too_large_for_the_memory_of_a_process_names_the_flag() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[ALL, "--worker-arena-bytes=100"]);
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
    let data = vec![1.0; 8 * 4];
    let body =
        json!({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [8, 4], "data": data}]});
    let error = server.post(&infer("m"), body.to_string()).error(400);
    assert!(error.contains("--worker-arena-bytes"), "{error}");
}

#[test]
fn what_a_process_writes_is_in_the_log_with_the_models_name() {
    let mut server = process(&Repository::identity("m", &[("fault", "panic")]), &[]);
    server.client().post(&infer("m"), &[], row(1)).error(500);
    // The line of the request that failed may come first.
    let line = wait_for("a line of the process", || {
        let mut log = server.log().into_iter();
        log.find(|it| it.contains("told to panic") && it.contains("worker="))
    });
    for part in ["model=m", "version=1", "stream=stderr"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn the_last_lines_of_a_process_that_dies_in_a_run_are_in_the_line_of_its_death() {
    let mut server = process(&Repository::identity("m", &[("fault", "abort")]), &[]);
    server.client().post(&infer("m"), &[], row(1)).error(500);
    let line = server.wait_for_line("the process of model 'm' ended by signal 6 (SIGABRT)");
    for part in ["ERROR", "model=m", "version=1", "told to abort by 'fault'"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn the_line_of_a_death_says_where_it_was_what_was_aboard_and_what_becomes_of_that() {
    let abort = [("fault", "abort"), ("fault_marker", "666")];
    let death = "the process of model 'm' ended by signal 6 (SIGABRT)";
    let lines = |parameters: &[(&str, &str)]| {
        let mut server = process(&Repository::identity("m", &[&abort, parameters].concat()), &[]);
        let rows: Vec<u32> = (0..8).flat_map(|it| [if it == 3 { 666 } else { it }; 4]).collect();
        let body = json!({
            "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [8, 4], "data": rows}]
        });
        server.client().post(&infer("m"), &[], body.to_string()).error(500);
        server.wait_for_line(death);
        // The second is written when the next process takes its place.
        server.wait_for_line("a new process serves");
        let log = server.log();
        log.into_iter().filter(|it| it.contains(death) && it.contains("rows=")).collect::<Vec<_>>()
    };
    let both = lines(&[]);
    let aboard = ["device=cpu", "instances=0", "rows=8", "requests=1", "answered="];
    for part in aboard.iter().chain(&["run_again=1", "failed=0"]) {
        assert!(both[0].contains(part), "{part}: {both:?}");
    }
    let once = lines(&[("RERUN", "never")]);
    for part in aboard.iter().chain(&["run_again=0", "failed=1"]) {
        assert!(once[0].contains(part), "{part}: {once:?}");
    }
}

#[test]
fn while_another_process_loads_for_long_the_model_is_not_ready_and_who_comes_is_told_when_to_come_again()
 {
    let gate = Repository::new().file("open", "");
    let open = gate.at("open");
    let repository = Repository::identity("m", &[("creation_gate", open.as_str())]);
    let mut server = process(&repository, &["--strict-readiness=false"]);
    let mut client = server.client();
    client.get("/v2/models/m/ready").expect(200);
    // The next process loads until the file is there again.
    fs::remove_file(&open).unwrap();
    kill(workers(server.id())[0]);
    wait_not_ready(&mut client, "m", "has died, and another loads it");
    let refused = client.post(&infer("m"), &[], row(1));
    assert!(refused.error(503).contains("another loads it"), "{}", refused.text());
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=10).contains(&seconds), "{seconds}");
    fs::write(&open, "").unwrap();
    wait_for("the model to be ready", || {
        (client.get("/v2/models/m/ready").status == 200).then_some(())
    });
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(2))), 2.0);
}

#[test]
fn what_runs_when_its_process_dies_waits_for_the_load_of_another_and_that_is_no_time_of_the_run() {
    let slow = [("creation_delay_sec", "3"), ("execute_delay_ms", "600")];
    let mut server = process(&Repository::identity("m", &slow), &["--run-limit-secs=2"]);
    let http = server.address("http");
    let mut client = ask(http, "m", row(4));
    wait_for("the request to be taken", || {
        (0.0 < Page::read(http).value("muster_bytes_in_flight")).then_some(())
    });
    // A run lasts, so that this comes before its end; where it comes before its beginning, the next process runs it.
    kill(workers(server.id())[0]);
    assert_eq!(first_of(&client.reply()), 4.0);
    server.wait_for_line("a new process serves");
}

/// The niceness of all threads of that process.
fn niceness(process: u32) -> Vec<i32> {
    let stat = |task: io::Result<fs::DirEntry>| -> Option<i32> {
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // Behind the name come the fields from the third on; niceness is the nineteenth.
        stat.rsplit_once(") ")?.1.split(' ').nth(16)?.parse().ok()
    };
    fs::read_dir(format!("/proc/{process}/task")).unwrap().filter_map(stat).collect()
}

#[test]
fn threads_of_a_model_in_a_process_of_its_own_have_the_niceness_of_its_priority() {
    for (priority, above) in [("PRIORITY_MAX", 0), ("PRIORITY_DEFAULT", 3), ("PRIORITY_MIN", 6)] {
        let repository = Repository::identity("m", &[]);
        let config = repository.path().join("m/config.pbtxt");
        let written = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("{written}\noptimization {{ priority: {priority} }}\n"))
            .unwrap();
        let mut server = process(&repository, &[]);
        assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(1))), 1.0);
        let own = niceness(server.id())[0];
        let worker = niceness(workers(server.id())[0]);
        assert!(1 < worker.len(), "{worker:?}");
        let expected = (own + above).min(19);
        assert!(worker.iter().all(|it| *it == expected), "{priority}: {worker:?}, not {expected}");
    }
}

#[test]
fn a_process_that_holds_too_much_memory_is_replaced_and_no_request_notices() {
    const MIB: u64 = 1 << 20;
    // More than a worker needs at first; each run loses one.
    let limit = (64 * MIB).to_string();
    let leak = [("fault", "leak"), ("execute_delay_ms", "5"), ("MEMORY_RECYCLE_BYTES", &limit)];
    let mut server = process(&Repository::identity("m", &leak), &[]);
    let (http, mut client) = (server.address("http"), server.client());
    let before = workers(server.id());
    let mut runs = 0;
    wait_for("a worker to be replaced", || {
        runs += 1;
        assert_eq!(first_of(&client.post(&infer("m"), &[], row(runs))), runs as f64);
        let recycled = || of_worker(&Page::read(http), "m", "restarts_total", "reason=\"recycle\"");
        (runs % 16 == 0 && 1.0 <= recycled()).then_some(())
    });
    wait_for("the old one to end", || {
        let now = workers(server.id());
        (now.len() == 1 && now != before).then_some(())
    });
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(7))), 7.0);
    let page = Page::read(http);
    assert_eq!(of_worker(&page, "m", "restarts_total", "reason=\"signal\""), 0.0);
    assert_eq!(of_worker(&page, "m", "pid", ""), f64::from(workers(server.id())[0]));
}

#[test]
fn a_bound_of_memory_may_be_that_of_all_models_of_an_engine_and_a_model_has_its_own() {
    let allocate = [("fault", "allocate"), ("fault_marker", "666")];
    let own = [&allocate[..], &[("MEMORY_LIMIT_BYTES", "9000000000")]].concat();
    let repository = Repository::identity("m", &allocate).with_identity("own", &own);
    let server = Server::start(
        &repository,
        &[ALL, "--backend-config=identity,MEMORY_LIMIT_BYTES=300000000"],
    );
    server.post(&infer("m"), row(666)).error(507);
    assert_eq!(first_of(&server.post(&infer("own"), row(666))), 666.0);
}

#[test]
fn memory_beyond_the_limit_of_a_process_is_refused_and_it_goes_on() {
    const LIMIT: &str = "300000000";
    let allocate = [("fault", "allocate"), ("fault_marker", "666")];
    let limited = [&allocate[..], &[("MEMORY_LIMIT_BYTES", LIMIT)]].concat();
    let repository = Repository::identity("m", &limited).with_identity("free", &allocate);
    let mut server = process(&repository, &[]);
    let before = workers(server.id());
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
    assert_eq!(first_of(&client.post(&infer("free"), &[], row(666))), 666.0);
    let error = client.post(&infer("m"), &[], row(666)).error(507);
    assert!(error.contains("memory allocation failed"), "{error}");
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(2))), 2.0);
    assert_eq!(workers(server.id()).len(), before.len());
    let mut now = workers(server.id());
    let mut before = before;
    now.sort();
    before.sort();
    assert_eq!(now, before);
}

/// The memory of a worker that is no file's, once it has made so many instances of a model of 64 MiB.
fn anonymous_memory(instances: usize) -> u64 {
    let config =
        format!("max_batch_size: 1 instance_group {{ count: {instances} kind: KIND_CPU }}");
    let repository = Repository::new().file("m/config.pbtxt", config).file("m/1/here", "");
    onnx_file::dense(&repository.path().join("m/1/model.onnx"), 16, 1024, 1).unwrap();
    let mut server = process(&repository, &[]);
    let [worker] = workers(server.id())[..] else { panic!("one worker") };
    let is_lane = |it: io::Result<fs::DirEntry>| {
        let name = fs::read_to_string(it.unwrap().path().join("comm")).unwrap_or_default();
        name.trim() == "lane"
    };
    let lanes = || {
        let tasks = fs::read_dir(format!("/proc/{worker}/task")).unwrap();
        tasks.filter(|it| it.is_ok()).map(is_lane).filter(|it| *it).count()
    };
    let x = Tensor::fp32("x", &[1, 1024], &[1.0; 1024]);
    thread::scope(|scope| {
        (0..4).for_each(|_| {
            let (mut client, x, lanes) = (server.client(), &x, &lanes);
            scope.spawn(move || {
                let mut ask =
                    || client.infer("m", slice::from_ref(x), Form::Binary, "").expect(200);
                (0..20).for_each(|_| drop(ask()));
                wait_for("all instances", || {
                    ask();
                    (lanes() == instances).then_some(())
                });
            });
        });
    });
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn two_instances_in_a_process_of_their_own_have_the_weights_of_their_model_once() {
    let (one, two) = (anonymous_memory(1), anonymous_memory(2));
    assert!(64 << 20 <= one, "{one}");
    assert!(10 * two < 13 * one, "{one} bytes with one instance, {two} with two");
}

//! Answers that are kept: which requests get them, what is counted, and what happens when Redis does not do its part.

use std::{
    io::{Read, Write},
    iter,
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::{NamedTensor, Shape, Tensor};
use inference::request::{InferenceRequest, Parameter};
use serde_json::{Value, json};
use serving::cache::CacheSettings;
use serving::{cache::Cache, infer::Inference};
use telemetry::metrics::{Metrics, MetricsSettings};

use crate::support::{
    Models, Page, Process, Repository, Server, ask, first_of, infer, row, rows, skip, wait_for,
};

/// A model `m` whose answers are kept, with these lines in its configuration.
fn kept(lines: &str) -> Repository {
    Repository::new().model("m", &config(lines))
}

fn config(lines: &str) -> String {
    format!(
        "backend: \"identity\" max_batch_size: 8 response_cache {{ enable: true }}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }}\n{lines}"
    )
}

const LOCAL: &str = "--cache-config=local,size=1MiB";

fn runs(server: &Server) -> f64 {
    Page::read(server.http()).of("m", "nv_inference_exec_count")
}

fn hits(server: &Server) -> f64 {
    Page::read(server.http()).of("m", "nv_cache_num_hits_per_model")
}

#[test]
fn an_equal_request_gets_the_answer_that_is_kept() {
    let server = Server::start(&kept(""), &[LOCAL]);
    for _ in 0..3 {
        assert_eq!(first_of(&server.post(&infer("m"), row(5))), 5.0);
    }
    let page = Page::read(server.http());
    for (family, value) in [
        ("nv_inference_exec_count", 1.0),
        ("nv_inference_count", 1.0),
        ("nv_inference_request_success", 3.0),
        ("nv_cache_num_hits_per_model", 2.0),
        ("nv_cache_num_misses_per_model", 1.0),
    ] {
        assert_eq!(page.of("m", family), value, "{family}");
    }
    for (family, value) in [
        ("nv_cache_num_entries", 1.0),
        ("nv_cache_num_lookups", 3.0),
        ("nv_cache_num_hits", 2.0),
        ("nv_cache_num_misses", 1.0),
        ("nv_cache_num_evictions", 0.0),
    ] {
        assert_eq!(page.value(family), value, "{family}");
    }
    assert!((0.0..0.01).contains(&page.value("nv_cache_util")));
    for family in ["nv_cache_hit_duration_per_model", "nv_cache_miss_duration_per_model"] {
        assert!(page.has(&format!("{family}{{model=\"m\",version=\"1\"}}")), "{family}");
    }
}

#[cfg(feature = "pipelines")]
#[test]
fn an_answer_about_a_text_is_kept_with_the_parameters_that_it_was_asked_with() {
    let config = "max_batch_size: 8 response_cache { enable: true }";
    let repository =
        crate::support::pipelines::repository(&["sst2"]).file("sst2/config.pbtxt", config);
    let server = Server::start(&repository, &[LOCAL]);
    let ask = |text: &str, top_k: usize| {
        let body = json!({"inputs": text, "parameters": {"top_k": top_k}}).to_string();
        let reply = server.post("/v2/models/sst2/pipeline", body).expect(200).json();
        let count = |family: &str| Page::read(server.http()).of("sst2", family);
        let classes = reply[0].as_array().unwrap_or_else(|| reply.as_array().unwrap()).len();
        (classes, count("nv_cache_num_hits_per_model"), count("nv_inference_exec_count"))
    };
    assert_eq!(ask("so happy", 1), (1, 0.0, 1.0));
    assert_eq!(ask("so happy", 2), (2, 0.0, 2.0));
    assert_eq!(ask("so happy", 1), (1, 1.0, 2.0));
    assert_eq!(ask("so happy", 2), (2, 2.0, 2.0));
    assert_eq!(ask("so sad", 2), (2, 2.0, 3.0));
}

#[test]
fn a_request_that_differs_in_anything_is_run() {
    let two = "backend: \"identity\" response_cache { enable: true }
        input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1, -1 ] },
                { name: \"INPUT1\" data_type: TYPE_INT32 dims: [ -1 ] optional: true } ]
        output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1, -1 ] } ]";
    let server = Server::start(&Repository::new().model("m", two), &[LOCAL]);
    let first = json!({"inputs": [
        {"name": "INPUT0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]});
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut other = first.clone();
        change(&mut other);
        other.to_string()
    };
    let others = [
        changed(&|_| ()),
        changed(&|it| it["inputs"][0]["shape"] = json!([2, 2])),
        changed(&|it| it["inputs"][0]["data"][3] = json!(5)),
        changed(&|it| {
            let more = json!({"name": "INPUT1", "shape": [1], "datatype": "INT32", "data": [1]});
            it["inputs"].as_array_mut().unwrap().push(more);
        }),
    ];
    for (number, body) in others.iter().enumerate() {
        server.post(&infer("m"), body).expect(200);
        assert_eq!(runs(&server), (number + 1) as f64, "{body}");
    }
    // All that has been said says nothing about the answer.
    let same = changed(&|it| {
        it["id"] = json!("another");
        it["outputs"] = json!([{"name": "OUTPUT0"}]);
        it["parameters"] = json!({"priority": 1, "timeout": 1_000_000});
    });
    assert_eq!(server.post(&infer("m"), same).expect(200).json()["id"], "another");
    assert_eq!(runs(&server), others.len() as f64);
}

/// Asks for one row in this process, with a parameter of the request.
async fn ask_m(models: &Models, inference: &Inference, parameter: Parameter) -> f32 {
    let tensor = Tensor::from_vec(Shape::new(&[1, 2]), vec![1f32, 2.0]).unwrap();
    let request = InferenceRequest {
        inputs: vec![NamedTensor { name: "INPUT0".into(), tensor }],
        parameters: vec![("style".into(), parameter)],
        ..InferenceRequest::default()
    };
    let model = models.manager.get("m", None).unwrap();
    let response = inference.run(&model, request).await.unwrap();
    response.outputs[0].tensor.as_slice_of::<f32>().unwrap()[0]
}

#[test]
fn parameters_and_loads_of_another_configuration_are_differences_too() {
    let models = Models::load(kept(""));
    let metrics = Metrics::new(MetricsSettings::default());
    let cache = Cache::new(&CacheSettings::Local { size: 1 << 20 }, &metrics);
    let inference = Inference::new(Some(Arc::new(cache)), None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runs = |models: &Models| {
        models.manager.get("m", None).unwrap().metrics.statistics().execution_count
    };
    runtime.block_on(async {
        for parameter in [
            Parameter::Int(1),
            Parameter::Int(2),
            Parameter::Double(1.0),
            Parameter::Bool(true),
            Parameter::Text("true".into()),
            Parameter::Text("1".into()),
        ] {
            let before = runs(&models);
            for _ in 0..2 {
                assert_eq!(ask_m(&models, &inference, parameter.clone()).await, 1.0);
            }
            assert_eq!(runs(&models), before + 1, "{parameter:?}");
        }
        let statistics = models.manager.get("m", None).unwrap().metrics.statistics();
        assert_eq!((statistics.success.count, statistics.queue.count), (12, 12));
        assert_eq!((statistics.inference_count, statistics.compute_infer.count), (6, 6));
        assert_eq!((statistics.cache_hit.count, statistics.cache_miss.count), (6, 6));
        // The same version under another configuration.
        models.reload("m", &config("parameters { key: \"k\" value { string_value: \"v\" } }"));
        let before = runs(&models);
        ask_m(&models, &inference, Parameter::Int(1)).await;
        assert_eq!(runs(&models), before + 1);
    });
}

#[test]
fn only_models_that_ask_for_it_have_their_answers_kept() {
    let repository = Repository::identity("m", &[]).model("other", &config(""));
    let server = Server::start(&repository, &[LOCAL]);
    (0..2).for_each(|_| drop(server.post(&infer("m"), row(1)).expect(200)));
    assert_eq!(runs(&server), 2.0);
    let page = Page::read(server.http());
    assert!(!page.has("nv_cache_num_hits_per_model{model=\"m\",version=\"1\"}"));
    assert_eq!(page.of("other", "nv_cache_num_hits_per_model"), 0.0);
}

#[test]
fn without_a_cache_a_model_that_asks_for_one_is_served_with_a_warning() {
    let repository = kept("");
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    server.wait_for_line("response_cache { enable: true } has no effect");
    for _ in 0..2 {
        assert_eq!(first_of(&server.client().post(&infer("m"), &[], row(5))), 5.0);
    }
    let address = server.address("http");
    assert_eq!(Page::read(address).of("m", "nv_inference_exec_count"), 2.0);
}

#[test]
fn old_answers_make_room_and_what_is_too_large_is_told_once() {
    let repository = kept("");
    let flags = ["--cache-config=local,size=4096"];
    let mut server = Process::start(&repository, &flags, &[]);
    let address = server.address("http");
    server.wait_ready();
    for number in 0..50 {
        server.client().post(&infer("m"), &[], row(number)).expect(200);
    }
    let page = Page::read(address);
    assert!(page.value("nv_cache_num_evictions") > 0.0);
    assert_eq!(page.value("nv_cache_num_evictions") + page.value("nv_cache_num_entries"), 50.0);
    assert!(page.value("nv_cache_util") <= 1.0);
    let large = json!({"inputs": [{"name": "INPUT0", "shape": [1, 2000], "datatype": "FP32",
        "data": vec![1; 2000]}]});
    for _ in 0..2 {
        server.client().post(&infer("m"), &[], large.to_string()).expect(200);
    }
    server.wait_for_line("an answer is larger than the whole cache");
    server.signal("TERM");
    let log = server.wait().log;
    assert_eq!(log.iter().filter(|it| it.contains("larger than the whole cache")).count(), 1);
}

#[test]
fn a_failure_is_not_kept() {
    let fault = "parameters { key: \"fault\" value { string_value: \"fail\" } }
        parameters { key: \"fault_times\" value { string_value: \"1\" } }";
    let server = Server::start(&kept(fault), &[LOCAL]);
    server.post(&infer("m"), row(1)).error(500);
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}

#[test]
fn an_answer_that_is_kept_waits_for_those_before_it_where_order_is_kept() {
    let lines = "dynamic_batching { preserve_ordering: true }
        parameters { key: \"execute_delay_ms\" value { string_value: \"1500\" } }";
    let server = Server::start(&kept(lines), &[LOCAL]);
    server.post(&infer("m"), row(1)).expect(200);
    let mut slow = ask(server.http(), "m", row(2));
    wait_for("the slow request to have been looked for", || {
        let page = Page::read(server.http());
        (page.value("nv_cache_num_misses") == 2.0).then_some(())
    });
    let started = Instant::now();
    assert_eq!(first_of(&ask(server.http(), "m", row(1)).reply()), 1.0);
    assert!(Duration::from_millis(200) < started.elapsed(), "{:?}", started.elapsed());
    assert_eq!(first_of(&slow.reply()), 2.0);
    assert_eq!(hits(&server), 1.0);
}

#[test]
fn answers_of_ensembles_and_of_their_members_are_kept_apart() {
    let ensemble = "platform: \"ensemble\" max_batch_size: 8 response_cache { enable: true }
        input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: \"OUT\" data_type: TYPE_FP32 dims: [ 4 ] }
        ensemble_scheduling { step { model_name: \"m\" model_version: -1
          input_map { key: \"INPUT0\" value: \"INPUT0\" } output_map { key: \"OUTPUT0\" value: \"OUT\" } } }";
    let server = Server::start(&kept("").model("e", ensemble), &[LOCAL]);
    for _ in 0..2 {
        assert_eq!(first_of(&server.post(&infer("e"), row(3))), 3.0);
    }
    let page = Page::read(server.http());
    assert_eq!(page.of("e", "nv_cache_num_hits_per_model"), 1.0);
    assert_eq!(page.of("e", "nv_inference_exec_count"), 1.0);
    // The member was asked once, and what it said was kept, too.
    assert_eq!(page.of("m", "nv_cache_num_misses_per_model"), 1.0);
    assert_eq!(first_of(&server.post(&infer("m"), row(3))), 3.0);
    assert_eq!(hits(&server), 1.0);
}

#[test]
fn an_ensemble_with_a_member_that_takes_sequences_is_run_each_time() {
    let member = config("sequence_batching { }").replace("response_cache { enable: true }", "");
    let ensemble = |of: &str| {
        format!(
            "platform: \"ensemble\" max_batch_size: 8 response_cache {{ enable: true }}
             input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
             output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
             ensemble_scheduling {{ step {{ model_name: \"{of}\" model_version: -1
               input_map {{ key: \"INPUT0\" value: \"INPUT0\" }}
               output_map {{ key: \"OUTPUT0\" value: \"OUTPUT0\" }} }} }}"
        )
    };
    let repository = Repository::new()
        .model("m", &member)
        .model("inner", &ensemble("m"))
        .model("outer", &ensemble("inner"));
    let server = Server::start(&repository, &[LOCAL]);
    for (count, ensemble) in [(1.0, "inner"), (2.0, "inner"), (3.0, "outer"), (4.0, "outer")] {
        let mut body: Value = serde_json::from_str(&row(3)).unwrap();
        body["parameters"] = json!({"sequence_id": count as u64, "sequence_start": true});
        assert_eq!(first_of(&server.post(&infer(ensemble), body.to_string())), 3.0);
        assert_eq!(runs(&server), count, "{ensemble}");
    }
    assert_eq!(Page::read(server.http()).of("outer", "nv_inference_request_success"), 2.0);
}

#[test]
fn a_small_answer_does_not_depend_on_its_batch() {
    let server = Server::start(&kept("dynamic_batching { }"), &[LOCAL, "--scheduler-hold=3"]);
    let clients: Vec<_> = (0..3).map(|it| ask(server.http(), "m", rows(it, 2))).collect();
    for (number, mut client) in clients.into_iter().enumerate() {
        assert_eq!(first_of(&client.reply()), number as f64);
    }
    for number in 0..3 {
        assert_eq!(first_of(&server.post(&infer("m"), rows(number, 2))), f64::from(number));
    }
    assert_eq!(hits(&server), 3.0);
}

// Redis ---------------------------------------------------------------------------------------------------------

/// Where Redis listens: no other test's server takes its port there while it is gone.
const OF_REDIS: &str = "127.0.0.2";

/// A Redis server of its own, ended when it is dropped.
struct RedisServer {
    child: Child,
    port: u16,
}

impl RedisServer {
    /// `None` where there is no program to start, which is said aloud.
    fn start(flags: &[&str]) -> Option<RedisServer> {
        for _ in 0..5 {
            // Redis takes no port 0: one that was free a moment ago most likely still is.
            let port = TcpListener::bind((OF_REDIS, 0)).unwrap().local_addr().unwrap().port();
            match RedisServer::at(port, flags) {
                Ok(Some(server)) => return Some(server),
                Ok(None) => {}
                Err(error) => {
                    skip(&format!(
                        "tests of the cache in Redis: redis-server does not start: {error}"
                    ));
                    return None;
                }
            }
        }
        panic!("redis-server ended each time");
    }

    fn at(port: u16, flags: &[&str]) -> std::io::Result<Option<RedisServer>> {
        let mut child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", OF_REDIS])
            .args(["--save", "", "--appendonly", "no"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let is_up = wait_for("redis-server to listen", || match child.try_wait().unwrap() {
            Some(_) => Some(false),
            None => TcpStream::connect((OF_REDIS, port)).is_ok().then_some(true),
        });
        Ok(is_up.then_some(RedisServer { child, port }))
    }

    fn flags(&self) -> [String; 2] {
        flags_for(self.port)
    }

    /// Sends a command as text, and reads some of its answer.
    fn command(&self, line: &str) -> String {
        let mut stream = TcpStream::connect((OF_REDIS, self.port)).unwrap();
        stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    fn keys(&self) -> usize {
        let answer = self.command("DBSIZE");
        answer.trim().trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{answer}"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn flags_for(port: u16) -> [String; 2] {
    [format!("--cache-config=redis,host={OF_REDIS}"), format!("--cache-config=redis,port={port}")]
}

/// These flags, and times that a busy machine does not exceed by chance.
fn patient(flags: &[String]) -> Vec<&str> {
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend([
        "--cache-config=redis,connect_timeout=5000",
        "--cache-config=redis,socket_timeout=5000",
        "--cache-config=redis,wait_timeout=5000",
    ]);
    flags
}

#[test]
fn servers_share_answers_by_redis() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let (repository, flags) = (kept(""), redis.flags());
    let (one, two) = (
        Server::start(&repository, &patient(&flags)),
        Server::start(&repository, &patient(&flags)),
    );
    assert_eq!(first_of(&one.post(&infer("m"), row(5))), 5.0);
    wait_for("the answer to be in Redis", || (redis.keys() == 1).then_some(()));
    assert_eq!(first_of(&two.post(&infer("m"), row(5))), 5.0);
    assert_eq!((runs(&two), hits(&two)), (0.0, 1.0));
    // Another configuration is another model, whatever its name.
    let other = kept("metric_tags { key: \"stage\" value: \"new\" }");
    let three = Server::start(&other, &patient(&flags));
    assert_eq!(first_of(&three.post(&infer("m"), row(5))), 5.0);
    wait_for("its answer to be in Redis, too", || (redis.keys() == 2).then_some(()));
}

#[test]
fn what_is_no_answer_in_redis_is_not_taken_for_one() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let server = Server::start(&kept(""), &patient(&redis.flags()));
    server.post(&infer("m"), row(5)).expect(200);
    wait_for("the answer to be in Redis", || (redis.keys() == 1).then_some(()));
    let keys = redis.command("KEYS *");
    let key = keys.lines().find(|it| it.starts_with("muster:")).unwrap();
    redis.command(&format!("SET {key} nonsense"));
    assert_eq!(first_of(&server.post(&infer("m"), row(5))), 5.0);
    assert_eq!((runs(&server), hits(&server)), (2.0, 0.0));
}

#[test]
fn a_redis_that_goes_and_comes_back_costs_nobody_an_answer() {
    let Some(mut redis) = RedisServer::start(&[]) else { return };
    let server = Server::start(&kept(""), &patient(&redis.flags()));
    server.post(&infer("m"), row(1)).expect(200);
    let port = redis.port;
    redis.child.kill().unwrap();
    redis.child.wait().unwrap();
    for number in 0..10 {
        assert_eq!(first_of(&server.post(&infer("m"), row(number))), f64::from(number));
    }
    let again = wait_for("redis-server to start again", || RedisServer::at(port, &[]).unwrap());
    wait_for("an answer to be kept again", || {
        server.post(&infer("m"), row(77)).expect(200);
        (again.keys() == 1).then_some(())
    });
    let before = hits(&server);
    server.post(&infer("m"), row(77)).expect(200);
    assert!(before < hits(&server));
}

#[test]
fn a_redis_that_says_nothing_is_waited_for_briefly_and_then_not_asked() {
    let repository = kept("");
    // It takes connections, and never answers.
    let deaf = TcpListener::bind((OF_REDIS, 0)).unwrap();
    let flags = flags_for(deaf.local_addr().unwrap().port());
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend([
        "--cache-config=redis,socket_timeout=40",
        "--cache-config=redis,connect_timeout=40",
    ]);
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let mut client = server.client();
    for number in 0..20 {
        let started = Instant::now();
        assert_eq!(first_of(&client.post(&infer("m"), &[], row(number))), f64::from(number));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
    let line = server.wait_for_line("Redis is not asked for a while");
    assert!(line.contains("no answer within 40 ms"), "{line}");
    let connections = || iter::from_fn(|| deaf.accept().ok()).count();
    deaf.set_nonblocking(true).unwrap();
    assert_ne!(connections(), 0);
    for number in 0..20 {
        client.post(&infer("m"), &[], row(number)).expect(200);
    }
    // Only those that try whether it answers again, of which there is one in a while.
    let asked = connections();
    assert!(asked < 10, "{asked} of 20 requests asked");
    let address = server.address("http");
    assert_eq!(Page::read(address).of("m", "nv_inference_request_success"), 40.0);
}

#[test]
fn a_password_is_given_by_flag_or_variable_and_shown_nowhere() {
    let repository = kept("");
    const PASSWORD: &str = "opensesame77";
    let Some(redis) = RedisServer::start(&["--requirepass", PASSWORD]) else { return };
    let flags = redis.flags();
    let password = format!("--cache-config=redis,password={PASSWORD}");
    let run = |flag: &str, variables: &[(&str, &str)], line: &str| {
        let mut flags = patient(&flags);
        flags.extend(Some(flag).filter(|it| !it.is_empty()));
        let mut server = Process::start(&repository, &flags, variables);
        server.wait_ready();
        server.client().post(&infer("m"), &[], row(1)).expect(200);
        assert!(server.log().iter().all(|it| !it.contains(PASSWORD)));
        server.wait_for_line(line);
    };
    run(&password, &[], "answers are kept in Redis");
    run("", &[("TRITONCACHE_REDIS_PASSWORD", PASSWORD)], "answers are kept in Redis");
    // Who has none gets no answers from there, and is served all the same.
    let mut server = Process::start(&repository, &patient(&flags), &[]);
    server.wait_ready();
    for number in 0..5 {
        server.client().post(&infer("m"), &[], row(number)).expect(200);
    }
    let line = server.wait_for_line("Redis is not asked for a while");
    assert!(line.contains("it says: NOAUTH"), "{line}");
}

#[test]
fn many_requests_at_once_share_few_connections() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let flags = redis.flags();
    let mut flags = patient(&flags);
    flags.push("--cache-config=redis,pool_size=2");
    let server = Server::start(&kept(""), &flags);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.client();
                for number in 0..50 {
                    let reply = client.post(&infer("m"), &[], row(number));
                    assert_eq!(first_of(&reply), f64::from(number));
                }
            });
        }
    });
    assert!(hits(&server) > 0.0);
    let clients = redis.command("CLIENT LIST");
    assert!(clients.matches("addr=").count() <= 3 * 2, "{clients}");
    wait_for("all answers to be in Redis", || (redis.keys() == 50).then_some(()));
}

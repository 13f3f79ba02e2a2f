//! A machine with two GPUs that are not there: NVIDIA's management library is a small one made for the test
//! (`fixtures/nvml.c`), the server and what it makes of it are real.

use std::net::TcpStream;

use serde_json::Value;

use crate::support::{
    Client, NO_GPUS, Page, Process, Repository, first_of,
    gpus::{driver, start},
    infer, row, wait_for,
};

/// Kind, count and GPUs of each group of a model's configuration.
fn groups(server: &mut Process, model: &str) -> Vec<(String, Value, Value)> {
    let path = format!("/v2/models/{model}/config");
    let config = server.client().get(&path).expect(200).json();
    let groups = config["instance_group"].as_array().unwrap().iter();
    let group = |it: &Value| {
        (it["kind"].as_str().unwrap().to_owned(), it["count"].clone(), it["gpus"].clone())
    };
    groups.map(group).collect()
}

const IDENTITY: &str = "backend: \"identity\" max_batch_size: 8
    input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
    output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";

#[test]
fn instances_are_spread_over_the_gpus_and_log_configuration_and_metrics_say_so() {
    let one = format!("{IDENTITY} instance_group {{ kind: KIND_GPU gpus: 1 count: 2 }}");
    let repository = Repository::identity("all", &[]).model("one", &one);
    let mut server = start(&repository, &[], &[]);
    let found = server.wait_for_line("found a GPU gpu=1");
    for part in ["name=\"Fake 1\"", "uuid=GPU-22222222-bbbb", "memory=\"16 GiB\""] {
        assert!(found.contains(part), "{found}");
    }
    let line = server.wait_for_line("model is ready model=all");
    assert!(line.contains("device=\"1 on GPU 0, 1 on GPU 1\" instances=2 threads=1"), "{line}");
    assert!(server.wait_for_line("model is ready model=one").contains("device=\"GPU 1\""));
    let group = |count: u32, gpus: &[u32]| ("KIND_GPU".to_owned(), count.into(), gpus.into());
    assert_eq!(groups(&mut server, "all"), [group(1, &[0, 1])]);
    assert_eq!(groups(&mut server, "one"), [group(2, &[1])]);
    assert_eq!(first_of(&server.client().post(&infer("one"), &[], row(7))), 7.0);

    let page = Page::read(server.address("metrics"));
    assert_eq!(page.of("all", "nv_inference_count"), 0.0);
    let labels = "gpu_uuid=\"GPU-22222222-bbbb\",model=\"one\",version=\"1\"";
    assert_eq!(page.value(&format!("nv_inference_count{{{labels}}}")), 1.0);
}

#[test]
fn a_process_that_has_lost_its_gpu_is_replaced() {
    let parameter = |(key, value): (&str, &str)| {
        format!("parameters {{ key: \"{key}\" value {{ string_value: \"{value}\" }} }} ")
    };
    let parameters =
        [("fault", "lost_gpu"), ("fault_marker", "666"), ("ISOLATION", "process")].map(parameter);
    let on = |kind: &str| format!("{IDENTITY} instance_group {{ {kind} }} {}", parameters.concat());
    let repository = Repository::new()
        .model("m", &on("kind: KIND_GPU gpus: 1"))
        .model("cpu", &on("kind: KIND_CPU"));
    let mut server = start(&repository, &[], &[]);
    let mut client = server.client();
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(1))), 1.0);
    // The request is made again in another process, which it ends as well.
    let error = client.post(&infer("m"), &[], row(666)).error(500);
    assert!(error.contains("device-side assert") && error.contains("lost its GPU"), "{error}");
    assert_eq!(first_of(&client.post(&infer("m"), &[], row(2))), 2.0);
    let restarts = |page: &Page, gpu: &str, model: &str| {
        let labels = format!("{gpu}model=\"{model}\",reason=\"device\",version=\"1\"");
        page.value(&format!("muster_worker_restarts_total{{{labels}}}"))
    };
    let page = Page::read(server.address("metrics"));
    assert_eq!(restarts(&page, "gpu_uuid=\"GPU-22222222-bbbb\",", "m"), 2.0);
    // What such words mean where there is no GPU, nobody knows.
    client.post(&infer("cpu"), &[], row(666)).error(500);
    assert_eq!(restarts(&Page::read(server.address("metrics")), "", "cpu"), 0.0);
}

#[test]
fn what_sensors_say_is_on_the_page_and_what_they_do_not_say_is_told() {
    let mut server = start(&Repository::identity("m", &[]), &[], &[]);
    let metrics = server.address("metrics");
    server.wait_for_line("the power of the GPU is not shown");
    let page = wait_for("the sensors", || {
        let page = Page::read(metrics);
        page.has("nv_gpu_utilization{gpu_uuid=\"GPU-22222222-bbbb\"}").then_some(page)
    });
    let first = |family: &str| page.value(&format!("{family}{{gpu_uuid=\"GPU-11111111-aaaa\"}}"));
    assert_eq!(first("nv_gpu_utilization"), 0.25);
    assert_eq!(first("nv_gpu_memory_total_bytes"), (16u64 << 30) as f64);
    assert_eq!(first("nv_gpu_memory_used_bytes"), (2u64 << 30) as f64);
    assert_eq!(first("nv_gpu_power_usage"), 71.5);
    assert_eq!(first("nv_gpu_power_limit"), 150.0);
    assert_eq!(first("nv_energy_consumption"), 1234.5);
    assert!(!page.has("nv_gpu_power_usage{gpu_uuid=\"GPU-22222222-bbbb\"}"));
}

#[test]
fn a_driver_that_hangs_keeps_neither_the_process_from_being_sampled_nor_the_server_from_stopping() {
    let flags = ["--metrics-interval-ms", "100"];
    let mut server = start(&Repository::identity("m", &[]), &flags, &[("FAKE_NVML_HANG", "1")]);
    let (metrics, http) = (server.address("metrics"), server.address("http"));
    let files = || Page::read(metrics).value("process_open_fds");
    let before = files();
    let open: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(http).unwrap()).collect();
    wait_for("a sample of the process", || (before + 10.0 < files()).then_some(()));
    drop(open);
    server.signal("TERM");
    assert!(server.wait().status.success());
}

#[test]
fn gpus_are_left_out_of_the_metrics_where_they_are_not_wanted() {
    let repository = Repository::identity("m", &[]);
    let mut server = start(&repository, &["--allow-gpu-metrics=false"], &[]);
    let page = Page::read(server.address("metrics"));
    assert!(!page.has("nv_gpu_utilization{gpu_uuid=\"GPU-11111111-aaaa\"}"));
    server.signal("TERM");
    assert!(server.wait().log.iter().all(|it| !it.contains("is not shown")));
}

#[test]
fn the_library_for_the_cpu_takes_a_model_that_leaves_it_open_to_the_cpu_and_no_other() {
    let repository = Repository::of(&["mlp"])
        .file("mlp/config.pbtxt", "optimization { eager_batching: true }")
        .fixture("forced", "mlp")
        .file("forced/config.pbtxt", "instance_group { kind: KIND_GPU }");
    let mut server = start(&repository, &[], &[]);
    let warning = server.wait_for_line("it runs on the CPU, as no GPU can be used");
    assert!(
        warning.contains("was built without CUDA") && warning.contains("model=mlp"),
        "{warning}"
    );
    assert_eq!(groups(&mut server, "mlp")[0].0, "KIND_CPU");
    // It was made twice, and is warned of once.
    let ignored = |it: &&String| it.contains("eager_batching is ignored");
    assert_eq!(server.log().iter().filter(ignored).count(), 1);
    let error = server.wait_for_line("cannot load the model");
    for part in ["'forced'", "KIND_GPU", "no GPU that can be used", "built without CUDA"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn hidden_gpus_are_not_there() {
    let repository = Repository::identity("m", &[]);
    let mut server = start(&repository, &[], &[("CUDA_VISIBLE_DEVICES", "1")]);
    assert!(server.wait_for_line("found a GPU gpu=0").contains("GPU-22222222-bbbb"));
    assert!(server.wait_for_line("model is ready").contains("device=\"GPU 0\""));
    let config = format!("{IDENTITY} instance_group {{ kind: KIND_GPU }}");
    let repository = repository.model("forced", &config);
    let mut server = start(&repository, &[], &[("CUDA_VISIBLE_DEVICES", "-1")]);
    let error = server.wait_for_line("cannot load the model");
    assert!(error.contains("CUDA_VISIBLE_DEVICES is '-1', which hides 2 GPUs"), "{error}");
}

#[test]
fn why_gpus_are_not_used_is_told_as_loudly_as_it_is_unexpected_and_by_each_model() {
    #[track_caller]
    fn told(environment: (&str, &str), level: &str, line: &str, why: &str) {
        let mut server = start(&Repository::identity("m", &[]), &[], &[environment]);
        let told = server.wait_for_line(line);
        assert!(told.contains(level) && told.contains(why), "{told}");
        let ready = server.wait_for_line("model is ready");
        assert!(ready.contains("no GPU can be used") && ready.contains(why), "{ready}");
    }
    let none = "there is no GPU that can be used";
    told(("FAKE_NVML_INIT", "18"), "WARN", none, "the NVIDIA driver does not answer");
    told(("CUDA_VISIBLE_DEVICES", "7"), "WARN", none, "'7' is none of 2 GPUs");
    told(("CUDA_VISIBLE_DEVICES", "1,1"), "WARN", none, "names a GPU twice");
    told(("CUDA_VISIBLE_DEVICES", ""), "INFO", "no GPU is used", "hides 2 GPUs");
}

#[test]
fn a_gpu_whose_memory_is_in_use_has_no_room_for_a_platforms_model() {
    let base = Repository::new().with_identity("models/k/model", &[]);
    let environment = [
        ("LD_LIBRARY_PATH", driver()),
        (NO_GPUS.0, "0,1"),
        ("SAGEMAKER_MULTI_MODEL", "true"),
        ("SAGEMAKER_BIND_TO_PORT", "0"),
        ("SAGEMAKER_BASE_DIR", &base.at("")),
        // 2 of the 16 GiB of each GPU are in use.
        ("SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT", "0.1"),
    ];
    let mut server = Process::command(&["serve"], &environment);
    server.wait_ready();
    let body = format!("{{\"model_name\": \"k\", \"url\": \"{}\"}}", base.at("models/k/model"));
    let json = [("content-type", "application/json")];
    let reply = Client::connect(server.address("sagemaker")).post("/models", &json, body);
    assert!(reply.error(507).contains("--model-load-gpu-limit"), "{}", reply.text());
}

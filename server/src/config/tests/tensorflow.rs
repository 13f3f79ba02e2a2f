//! Facts about the settings of TensorFlow Serving's operators: named models, its command line, its image's
//! environment.

use super::*;
use loading::settings::{ControlMode, LabelRule, NamedModels};

const PATHS: &[&str] = &["models.config", "/models/half/", "/models/model/", "/srv/half/"];

fn started(args: &str, variables: &[&str]) -> ServerConfig {
    config_at(PATHS, args, variables)
}

#[track_caller]
fn refused(args: &str, parts: &[&str]) {
    let error = read_at(PATHS, args, &[]).expect_err("it must not be taken");
    let problems = error.problems();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    for part in parts {
        assert!(problems[0].contains(part), "no '{part}' in: {}", problems[0]);
    }
}

fn one(name: &str, base_path: &str) -> ModelsFrom {
    ModelsFrom::Named(NamedModels::One { name: name.to_owned(), base_path: base_path.into() })
}

fn file(every: Option<f64>) -> ModelsFrom {
    let every = every.map(Duration::from_secs_f64);
    ModelsFrom::Named(NamedModels::File { path: "models.config".into(), every })
}

#[test]
fn models_are_named_by_a_file_or_one_by_its_directory() {
    let config = started("--model-config-file=models.config", &[]);
    assert_eq!(config.repository.from, file(None));
    assert_eq!(config.control.mode, ControlMode::Poll(Duration::from_secs(1)));
    assert_eq!(config.control.labels, LabelRule::Available);
    let args = "--model-config-file models.config --model-config-file-poll-wait-seconds 30 \
                --file-system-poll-wait-seconds=0 --allow-version-labels-for-unavailable-models=true";
    let config = started(args, &[]);
    assert_eq!(config.repository.from, file(Some(30.0)));
    assert_eq!(config.control.mode, ControlMode::None);
    assert_eq!(config.control.labels, LabelRule::NewOnesAnywhere);
    let config = started("--model-base-path=/models/half", &[]);
    assert_eq!(config.repository.from, one("default", "/models/half"));
    let config = started("", &["MUSTER_MODEL_BASE_PATH=/models/half", "MUSTER_MODEL_NAME=m"]);
    assert_eq!(config.repository.from, one("m", "/models/half"));
}

#[test]
fn what_does_not_go_together_is_named() {
    refused("--model-config-file=x", &["--model-config-file 'x'", "there is none"]);
    refused("--model-config-file=/models/half", &["this is a directory"]);
    refused("--model-base-path=s3://b/m", &["--model-repository"]);
    let both = "--model-config-file=models.config --model-repository=/models/half";
    refused(both, &["--model-repository", "does not go with --model-config-file"]);
    let explicit = "--model-config-file=models.config --model-control-mode=explicit";
    refused(explicit, &["expected none or poll"]);
    let args = "--model-repository=/models/half --model-config-file-poll-wait-seconds=5";
    refused(args, &["needs --model-config-file"]);
    refused("serve m.onnx --model-config-file=models.config", &["give one of them"]);
}

#[test]
fn its_command_line_works_behind_its_name() {
    for command in ["tensorflow_model_server", "/usr/bin/tensorflow_model_server"] {
        let args = format!(
            "{command} --rest_api_port=9501 --model_name=half --model_base_path=/srv/half --port=9500 \
             --rest_api_timeout_in_ms=5000 --tensorflow_intra_op_parallelism=3 --max_num_load_retries=2 \
             --file_system_poll_wait_seconds=7 --enable_model_warmup --num_load_threads=0 \
             --enable_signature_method_name_check"
        );
        let config = started(&args, &[]);
        assert_eq!(config.repository.from, one("half", "/srv/half"));
        assert_eq!(config.control.mode, ControlMode::Poll(Duration::from_secs(7)));
        assert_eq!((ports(&config), config.control.retries), ([9501, 0, 0], 2));
        assert_eq!(config.listeners.grpc, None);
        assert_eq!(config.scheduling.request_timeout, Some(Duration::from_secs(5)));
        assert_eq!(config.model_defaults.intra_op_threads.map(|it| it.get()), Some(3));
        assert!(config.engines.tensorflow_checks_methods);
        assert_eq!(notices(&config), "");
    }
}

#[test]
fn muster_s_own_flags_stand_beside_them_and_count_more() {
    let args = "tensorflow_model_server --rest_api_port=9501 --model_base_path /srv/half --http-port=9000 \
                --allow-metrics=true --metrics-port=9002";
    assert_eq!(ports(&started(args, &[])), [9000, 0, 9002]);
}

#[test]
fn flags_without_effect_get_a_line_each_and_dangerous_ones_are_refused() {
    let base = "tensorflow_model_server --rest_api_port=1 --model_base_path=/srv/half";
    let text = notices(&started(
        &format!(
            "{base} --grpc_max_threads=8 --total_model_memory_limit_bytes=9 --enable_per_model_batching_parameters"
        ),
        &[],
    ));
    assert!(text.contains("Info: without effect (muster chooses its threads"), "{text}");
    assert!(
        text.contains("(a model's config.pbtxt says how it is batched): --enable_per"),
        "{text}"
    );
    refused(&format!("{base} --ssl_config_file=x"), &["--ssl_config_file=x", "--grpc-use-ssl"]);
    refused(
        &format!("{base} --rest_api_prot=1"),
        &["unknown option --rest_api_prot", "--rest_api_port?"],
    );
    refused(&format!("{base} --rest_api_port"), &["option --rest_api_port needs a value"]);
    refused(
        &format!("{base} --rest_api_port=x"),
        &["--rest_api_port=x (command line), for --http-port: expected a port"],
    );
    let plain = problems("--rest_api_port=1", &[]);
    assert!(plain[0].contains("unknown option --rest_api_port"), "{plain:?}");
}

/// All flags that `tensorflow_model_server --help` prints but `--version`, which is muster's own as well, each with a
/// value that is not its default, and what becomes of it.
const PUBLISHED: [(&str, Becomes); 47] = {
    use Becomes::{Honoured, Noted, Refused};
    [
        ("port=9500", Honoured),
        ("grpc_socket_path=/tmp/socket", Refused),
        ("rest_api_port=9501", Honoured),
        ("rest_api_num_threads=3", Noted),
        ("rest_api_timeout_in_ms=9", Honoured),
        ("rest_api_enable_cors_support", Honoured),
        ("enable_batching", Honoured),
        ("allow_version_labels_for_unavailable_models", Honoured),
        ("batching_parameters_file=b", Refused),
        ("enable_per_model_batching_parameters", Noted),
        ("model_config_file=models.config", Honoured),
        ("model_config_file_poll_wait_seconds=3", Honoured),
        ("model_name=half", Honoured),
        ("model_base_path=/models/half", Honoured),
        ("num_load_threads=3", Honoured),
        ("num_unload_threads=3", Noted),
        ("max_num_load_retries=3", Honoured),
        ("load_retry_interval_micros=3", Noted),
        ("file_system_poll_wait_seconds=3", Honoured),
        ("flush_filesystem_caches=false", Noted),
        ("tensorflow_session_parallelism=3", Honoured),
        ("tensorflow_session_config_file=s", Noted),
        ("tensorflow_intra_op_parallelism=3", Honoured),
        ("tensorflow_inter_op_parallelism=3", Honoured),
        ("use_alts_credentials", Refused),
        ("ssl_config_file=s", Refused),
        ("platform_config_file=p", Noted),
        ("per_process_gpu_memory_fraction=0.5", Noted),
        ("saved_model_tags=serve,gpu", Honoured),
        ("grpc_channel_arguments=a=b", Noted),
        ("grpc_max_threads=3", Noted),
        ("enable_model_warmup=false", Honoured),
        ("num_request_iterations_for_warmup=3", Honoured),
        ("monitoring_config_file=m", Refused),
        ("remove_unused_fields_from_bundle_metagraph", Noted),
        ("prefer_tflite_model", Noted),
        ("num_tflite_pools=3", Noted),
        ("num_tflite_interpreters_per_pool=3", Noted),
        ("enable_signature_method_name_check", Honoured),
        ("xla_cpu_compilation_enabled", Noted),
        ("xla_gpu_compilation_enabled", Noted),
        ("enable_profiler", Noted),
        ("thread_pool_factory_config_file=t", Noted),
        ("mixed_precision=bfloat16", Honoured),
        ("skip_initialize_tpu", Noted),
        ("enable_grpc_healthcheck_service", Noted),
        ("enable_serialization_as_tensor_content", Noted),
    ]
};

/// What becomes of a flag.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Becomes {
    /// Its setting has its value.
    Honoured,
    /// It has no effect, and one line says why.
    Noted,
    /// The server does not start, and one line says why: it has no such thing, or the file that the flag names cannot
    /// be read.
    Refused,
}

#[test]
fn every_published_flag_is_honoured_or_told_of_by_its_name() {
    let start = |others: &str, flag: &str| -> Result<ServerConfig, ConfigError> {
        let args = format!("tensorflow_model_server {others} {flag}");
        read_at(PATHS, &args, &[]).map(|it| match it {
            Command::Serve(config) => *config,
            other => panic!("{flag}: {other:?}"),
        })
    };
    let settings =
        |config: ServerConfig| format!("{:?}", ServerConfig { notices: Vec::new(), ..config });
    for (flag, expected) in PUBLISHED {
        let name = flag.split('=').next().unwrap();
        let others = match name {
            "model_config_file" => "",
            "model_config_file_poll_wait_seconds" => "--model_config_file=models.config",
            "batching_parameters_file" => "--model_base_path=/srv/half --enable_batching",
            _ => "--model_base_path=/srv/half",
        };
        let found = match start(others, &format!("--{flag}")) {
            Err(error) => {
                let spelled = [format!("--{name}"), format!("--{}", name.replace('_', "-"))];
                let problems = error.problems();
                assert_eq!(problems.len(), 1, "{problems:#?}");
                assert!(spelled.iter().any(|it| problems[0].contains(it)), "{problems:#?}");
                Becomes::Refused
            }
            Ok(config) => {
                let told = notices(&config);
                let is_told = told.contains(&format!(": --{name}"));
                let is_same = start(others, "").is_ok_and(|it| settings(it) == settings(config));
                assert_eq!(is_told, is_same, "{flag}: {told}");
                if is_told { Becomes::Noted } else { Becomes::Honoured }
            }
        };
        assert_eq!(found, expected, "{flag}");
    }
}

#[test]
fn tags_and_precision_are_those_of_the_engine_and_empty_texts_are_none() {
    let base = "tensorflow_model_server --rest_api_port=1 --model_base_path=/srv/half";
    let engines = |flags: &str| started(&format!("{base} {flags}"), &[]).engines;
    let given = engines("--saved_model_tags=serve,gpu --mixed_precision=bfloat16");
    assert_eq!(Vec::from_iter(given.tensorflow_tags), ["gpu", "serve"]);
    assert!(given.tensorflow_is_bfloat16);
    let none = engines(
        "--saved_model_tags= --mixed_precision= --batching_parameters_file= --monitoring_config_file= \
         --model_config_file= --num_request_iterations_for_warmup=0",
    );
    assert_eq!(none, engines(""));
    assert_eq!((none.tensorflow_tags.len(), none.tensorflow_warmup_iterations), (0, 1));
    let refused_as =
        |flag: &str, expected: &str| refused(&format!("{base} {flag}"), &[flag, expected]);
    refused_as("--mixed_precision=float16", "off or bfloat16");
    refused_as("--saved_model_tags=serve,", "as serve,gpu");
}

#[test]
fn rest_is_off_unless_it_has_a_port() {
    let args = "tensorflow_model_server --model_base_path=/srv/half --rest_api_port=0 --allow-metrics=true";
    assert_eq!(ports(&started(args, &[])), [0, 0, 8002]);
}

#[test]
fn its_image_names_the_model_in_the_environment() {
    let variables = ["MODEL_NAME=half"];
    let image = started("tensorflow_model_server", &variables);
    assert_eq!((&image.repository.from, ports(&image)[0]), (&one("half", "/models/half"), 8501));
    let elsewhere = ["MODEL_NAME=half", "MODEL_BASE_PATH=/srv"];
    assert_eq!(
        started("tensorflow_model_server", &elsewhere).repository.from,
        one("half", "/srv/half")
    );
    let script = started("/usr/bin/tf_serving_entrypoint.sh --rest_api_port=9501", &[]);
    assert_eq!(
        (&script.repository.from, ports(&script)[0]),
        (&one("model", "/models/model"), 9501)
    );
    let named = started("tf_serving_entrypoint.sh --model_config_file=models.config", &variables);
    assert_eq!((&named.repository.from, ports(&named)[0]), (&file(None), 8501));
    // Under the name `muster` these variables have no effect.
    let own = config("", &variables);
    assert_eq!(own.repository.from, ModelsFrom::Repositories(vec!["model_repository".into()]));
}

#[test]
fn a_batching_parameters_file_needs_batching_behind_its_name() {
    let base = "tensorflow_model_server --rest_api_port=1 --model_base_path=/srv/half";
    let error = read_at(PATHS, &format!("{base} --batching_parameters_file=b"), &[]).unwrap_err();
    assert!(error.problems()[0].contains("needs --enable_batching=true"), "{error}");
    let both = format!("{base} --enable_batching --batching_parameters_file=b");
    refused(&both, &["--batching-parameters-file: cannot read b: b is made up"]);
    started(&format!("{base} --enable_batching"), &[]);
}

#[test]
fn metrics_are_shown_where_the_settings_say() {
    let path = |args: &str| config(args, &[]).metrics.tensorflow_path;
    assert_eq!(path(""), None);
    assert_eq!(path("--tfs-metrics=true").unwrap(), "/monitoring/prometheus/metrics");
    assert_eq!(path("--tfs-metrics=true --tfs-metrics-path=/m").unwrap(), "/m");
    check_refused("--tfs-metrics-path=m", &[], &["expected a path that begins with '/'"]);
}

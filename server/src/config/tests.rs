//! Tables over a made-up environment: the settings, and the configuration that results.

mod by_name;
mod cache;
mod command_line;
mod explain;
mod grpc;
mod health;
mod isolation;
mod multi_model;
mod onednn;
mod other_flags;
mod recommending;
mod sagemaker;
mod tensorflow;
#[cfg(feature = "embeddings")]
mod text_embeddings;
mod trace;
mod vertex;

use std::{collections::HashMap, ffi::OsString, net::SocketAddr, path::Path, time::Duration};

use super::{flags, *};
use crate::tools::{BENCH, PREDICT, RECOMMEND};
use configuration::{ConfigError, Environment, PathKind, compat::triton_command};
use frontend::settings::TlsPorts;
use inference::access::{Categories, Category};
use loading::settings::{ControlMode, GpuLimit, ModelsFrom};
use machine::{Machine, gpus::Visibility};
use schedule::admission::LongestStay;
use stores::Variables;
use telemetry::logging::LogFormat;

const GIB: u64 = 1 << 30;

/// Variables and paths that exist; a path that ends in a slash is a directory.
#[derive(Default)]
struct Fake {
    variables: HashMap<String, OsString>,
    paths: Vec<&'static str>,
    /// The command line of process 1, separated by blanks.
    first_process: &'static str,
}

impl Environment for Fake {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.variables.keys().cloned().collect()
    }

    fn kind_of(&self, path: &Path) -> Option<PathKind> {
        let text = path.to_str()?;
        self.paths.iter().find_map(|it| match it.strip_suffix('/') {
            Some(it) if it == text => Some(PathKind::Directory),
            None if *it == text => Some(PathKind::File),
            _ => None,
        })
    }

    fn is_empty_directory(&self, path: &Path) -> bool {
        let inside = |it: &&&str| Path::new(it).starts_with(path) && Path::new(it) != path;
        self.kind_of(path) == Some(PathKind::Directory) && self.paths.iter().find(inside).is_none()
    }

    fn text_of(&self, path: &Path) -> std::io::Result<String> {
        Err(std::io::Error::other(format!("{} is made up", path.display())))
    }

    fn first_process(&self) -> Option<Vec<OsString>> {
        let known = !self.first_process.is_empty();
        known.then(|| self.first_process.split(' ').map(OsString::from).collect())
    }
}

fn machine() -> Machine {
    Machine {
        cpus: 2,
        cpu_reason: "2 processors".to_owned(),
        memory: Some(16 * GIB),
        memory_reason: "16 GiB".to_owned(),
        open_files: Some(1024),
        address_space: None,
        largest_file: None,
    }
}

/// `args` separated by blanks; `variables` as `NAME=value`; besides `paths`, `./model_repository` exists.
fn read_at(paths: &[&'static str], args: &str, variables: &[&str]) -> Result<Command, ConfigError> {
    let variables = variables.iter().filter_map(|it| it.split_once('='));
    let fake = Fake {
        variables: variables.map(|(name, value)| (name.to_owned(), value.into())).collect(),
        paths: paths.to_vec(),
        first_process: "",
    };
    let args = std::iter::once("muster").chain(args.split(' ').filter(|it| !it.is_empty()));
    read(args.map(OsString::from), &fake, &machine())
}

fn read_text(args: &str, variables: &[&str]) -> Result<Command, ConfigError> {
    read_at(&["model_repository/"], args, variables)
}

#[track_caller]
fn config(args: &str, variables: &[&str]) -> ServerConfig {
    config_at(&["model_repository/"], args, variables)
}

#[track_caller]
fn config_at(paths: &[&'static str], args: &str, variables: &[&str]) -> ServerConfig {
    match read_at(paths, args, variables) {
        Ok(Command::Serve(config)) => *config,
        other => panic!("expected a configuration, found {other:?}"),
    }
}

/// The problems; there must be some.
#[track_caller]
fn problems(args: &str, variables: &[&str]) -> Vec<String> {
    read_text(args, variables).expect_err("it must not be taken").problems().to_vec()
}

/// There is one problem, and its text holds all of `parts`.
#[track_caller]
fn check_refused(args: &str, variables: &[&str], parts: &[&str]) {
    let problems = problems(args, variables);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    for part in parts {
        assert!(problems[0].contains(part), "no '{part}' in: {}", problems[0]);
    }
}

fn notices(config: &ServerConfig) -> String {
    config.notices.iter().map(|it| format!("{:?}: {}\n", it.level, it.text)).collect()
}

/// The name of a model elsewhere.
fn name(text: &str) -> sources::Name {
    sources::Name::parse(text).unwrap().unwrap()
}

fn socket(text: &str) -> Option<SocketAddr> {
    Some(text.parse().unwrap())
}

/// The ports of HTTP, SageMaker and metrics; 0 for off.
fn ports(config: &ServerConfig) -> [u16; 3] {
    let it = &config.listeners;
    [it.http, it.sagemaker, it.metrics].map(|it| it.map_or(0, |it| it.port()))
}

#[test]
fn a_repository_in_a_store_is_an_address_and_takes_its_variables_along() {
    let secret = "AWS_SECRET_ACCESS_KEY=x";
    let config = config("--model-repository=s3://bucket/models", &[secret, "OTHER=y"]);
    assert_eq!(config.repository.from, ModelsFrom::Repositories(vec!["s3://bucket/models".into()]));
    assert_eq!(config.stores.variables.get("AWS_SECRET_ACCESS_KEY"), Some("x"));
    assert_eq!(config.stores.variables.get("OTHER"), None);
    let served = self::config("serve gs://bucket", &[]);
    assert_eq!(served.repository.from, ModelsFrom::Repositories(vec!["gs://bucket".into()]));
    let local = self::config("", &[secret]);
    assert_eq!(local.stores.variables, Variables::default(), "nobody needs it");
}

#[test]
fn the_error_of_a_wrong_store_address_lists_the_forms_without_credentials() {
    for args in ["--model-repository=s3://key:hunter2@host/b", "serve s3://key:hunter2@host/b"] {
        let error = read_text(args, &[]).unwrap_err().to_string();
        assert!(error.contains("gs://bucket/path") && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn without_arguments_the_defaults_are_these() {
    let config = config("", &[]);
    assert_eq!(config.id, "triton");
    assert!(!config.hosted);
    assert_eq!(config.listeners.http, socket("127.0.0.1:8000"));
    assert_eq!(config.listeners.sagemaker, socket("127.0.0.1:8080"));
    assert_eq!(config.listeners.metrics, socket("127.0.0.1:8002"));
    assert_eq!(config.repository.from, ModelsFrom::Repositories(vec!["model_repository".into()]));
    assert!(config.repository.auto_complete);
    assert_eq!(config.repository.load_threads.get(), 2);
    assert_eq!(config.repository.default_max_batch_size("onnxruntime"), None);
    assert_eq!(config.limits.body_bytes, GIB);
    assert_eq!(config.limits.inflight_bytes, 4 * GIB);
    assert_eq!(config.limits.connections.get(), 768);
    assert_eq!(config.limits.timeouts.head, Duration::from_secs(10));
    assert_eq!(config.limits.timeouts.idle, Duration::from_secs(75));
    assert_eq!(config.scheduling.longest_stay, LongestStay::Auto);
    assert_eq!(config.scheduling.request_timeout, None);
    assert!(!config.scheduling.caller_runs_below.is_zero());
    assert_eq!(config.lifecycle.exit_timeout, Duration::from_secs(25));
    assert_eq!(config.lifecycle.drain_delay, Duration::from_secs(2));
    assert!(!config.lifecycle.exit_on_error && config.lifecycle.strict_readiness);
    assert_eq!(config.log.format, LogFormat::Text);
    let said = notices(&config);
    assert!(said.lines().count() == 1 && said.contains("--http-address=0.0.0.0 opens"), "{said}");
}

#[test]
fn the_defaults_in_the_table_are_the_defaults() {
    let plain = config("", &[]);
    for setting in flags::table().flags().filter(|it| !it.default.is_empty()) {
        let mut given = config(&format!("--{}={}", setting.name, setting.default), &[]);
        // To give a port is to ask for it, whichever it is.
        given.listeners.spare.clone_from(&plain.listeners.spare);
        assert_eq!(given, plain, "--{}={}", setting.name, setting.default);
    }
}

#[test]
fn every_setting_is_read_and_refuses_nothing_as_a_value() {
    let names: Vec<&str> = flags::table().flags().map(|it| it.name).collect();
    let args: Vec<String> = names.iter().map(|it| format!("--{it}=")).collect();
    let problems = problems(&args.join(" "), &[]);
    for name in names {
        let found = problems.iter().filter(|it| it.starts_with(&format!("--{name} "))).count();
        assert_eq!(found, 1, "--{name} in {problems:#?}");
    }
}

#[test]
fn what_the_environment_says_of_gpus_is_taken_as_it_is() {
    let plain = config("", &[]);
    assert!(plain.metrics.gpu_metrics);
    assert_eq!(plain.gpu_visibility, Visibility::default());
    let hidden = config("--allow-gpu-metrics=false", &["CUDA_VISIBLE_DEVICES="]);
    assert!(!hidden.metrics.gpu_metrics);
    assert_eq!(hidden.gpu_visibility.cuda.as_deref(), Some(""));
}

#[test]
fn flags_work_before_and_after_the_word_serve() {
    for args in ["--http-port 9000", "serve --http-port 9000", "--http-port=9000 serve"] {
        assert_eq!(ports(&config(args, &[]))[0], 9000, "{args}");
    }
    let both = config("--http-port 1 --id=a serve --http-port 2", &[]);
    assert_eq!((ports(&both)[0], &*both.id), (2, "a"));
    assert_eq!(ports(&config("--http-port 1 --http-port 2", &[]))[0], 2);
}

#[test]
fn the_command_lines_of_tritons_containers_work_behind_its_name() {
    for command in ["tritonserver", "/opt/tritonserver/bin/tritonserver"] {
        let config = config(&format!("{command} --http-port 9000 --log-verbose=true"), &[]);
        assert_eq!((ports(&config)[0], config.log.verbose), (9000, 1));
        // The defaults of the other server, where its users would miss them.
        assert_eq!((config.listeners.sagemaker, config.log.format), (None, LogFormat::Default));
        assert!(!config.clients.health_bodies);
    }
}

#[test]
fn other_machines_may_administrate_where_the_operator_or_the_place_has_said_who_can_reach_the_server()
 {
    for (args, variables, is_allowed) in [
        ("", vec![], false),
        ("--http-port 9000", vec![], false),
        ("--allow-remote-administration=true", vec![], true),
        ("--http-address=0.0.0.0", vec![], true),
        ("--grpc-address=127.0.0.1", vec![], true),
        ("--http-address=0.0.0.0 --allow-remote-administration=false", vec![], false),
        ("", vec!["KUBERNETES_SERVICE_HOST=10.0.0.1"], true),
        ("--sagemaker-multi-model=true", vec![], true),
        ("tritonserver", vec![], true),
        ("tritonserver --allow-remote-administration=false", vec![], false),
    ] {
        let administration = config(args, &variables).access.remote_administration;
        assert_eq!(
            administration.is_allowed, is_allowed,
            "{args} {variables:?}: {administration:?}"
        );
    }
}

#[test]
fn the_command_line_beats_our_variables_which_beat_foreign_ones() {
    let foreign = "SAGEMAKER_BIND_TO_PORT=7001";
    let own = "MUSTER_SAGEMAKER_PORT=7002";
    assert_eq!(ports(&config("", &[]))[1], 8080);
    assert_eq!(ports(&config("", &[foreign]))[1], 7001);
    assert_eq!(ports(&config("", &[foreign, own]))[1], 7002);
    assert_eq!(ports(&config("--sagemaker-port 7003", &[foreign, own]))[1], 7003);
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let config = config("", &["MUSTER_HTTP_PORT=", "SAGEMAKER_BIND_TO_PORT=", "OMP_NUM_THREADS="]);
    assert_eq!(ports(&config), [8000, 8080, 8002]);
    assert_eq!(config.model_defaults.intra_op_threads, None);
}

#[test]
fn booleans_come_in_many_spellings() {
    for (text, expect) in [
        ("true", true),
        ("True", true),
        ("1", true),
        ("YES", true),
        ("on", true),
        ("false", false),
        ("0", false),
        ("No", false),
        ("OFF", false),
    ] {
        let variable = format!("MUSTER_EXIT_ON_ERROR={text}");
        assert_eq!(config("", &[&variable]).lifecycle.exit_on_error, expect, "{text}");
    }
    check_refused("", &["MUSTER_EXIT_ON_ERROR=maybe"], &["'maybe'", "expected true or false"]);
}

#[test]
fn all_bad_settings_are_reported_at_once_with_their_origin() {
    let problems = problems(
        "--http-port 80000 --idel-timeout-secs 5 --log-format xml",
        &["MUSTER_LOG_INFO=maybe", "OMP_NUM_THREADS=many", "SAGEMAKER_CONTAINER_LOG_LEVEL=loud"],
    );
    let text = problems.join("\n");
    assert_eq!(problems.len(), 6, "{text}");
    for part in [
        "--http-port '80000' (command line): expected a port, 0..65535",
        "unknown option --idel-timeout-secs; did you mean --idle-timeout-secs?",
        "--log-format 'xml' (command line): expected text, json, default or ISO8601",
        "MUSTER_LOG_INFO='maybe' (environment): expected true or false",
        "OMP_NUM_THREADS='many' (environment, for --default-intra-op-threads): expected",
        "SAGEMAKER_CONTAINER_LOG_LEVEL='loud' (environment): expected 10, 20",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
}

#[test]
fn the_error_counts_its_problems() {
    let one = read_text("--http-port x", &[]).unwrap_err().to_string();
    assert!(one.starts_with("muster cannot start: --http-port 'x'"), "{one}");
    let two = read_text("--http-port x --id=", &[]).unwrap_err().to_string();
    assert!(two.starts_with("muster cannot start, 2 settings are wrong:\n  "), "{two}");
}

#[test]
fn what_is_no_option_or_command_is_named() {
    check_refused("--http-prot 1", &[], &["unknown option --http-prot", "--http-port"]);
    check_refused("--colour=red", &[], &["unknown option --colour;", "--help"]);
    check_refused("--http-port", &[], &["option --http-port needs a value"]);
    check_refused("--http-port --log-verbose 1", &[], &["option --http-port needs a value"]);
    check_refused("sevre", &[], &["unknown command 'sevre'", "'serve'"]);
    check_refused("x/model.onnx", &[], &["muster serve x/model.onnx"]);
    check_refused("--version=3", &[], &["'--version'"]);
    check_refused("serve model_repository extra", &[], &["unexpected argument 'extra'"]);
}

#[test]
fn train_is_refused_in_one_line() {
    let error = read_at(&[], "train", &["MUSTER_HTTP_PORT=x"]).unwrap_err().to_string();
    assert!(error.contains("'train'") && error.contains("does not train"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn help_and_version_are_texts_to_print() {
    let Ok(Command::Print(version)) = read_text("--version", &[]) else { panic!() };
    assert_eq!(version.trim(), format!("muster {}", env!("CARGO_PKG_VERSION")));
    let printed = |args: &str| match read_text(args, &[]) {
        Ok(Command::Print(help)) => help,
        other => panic!("{args}: {other:?}"),
    };
    let table = flags::table();
    for args in ["--help-all", "serve --help-all", "--http-port x --help-all"] {
        let help = printed(args);
        for setting in table.flags() {
            assert!(help.contains(&format!("--{}", setting.name)), "{}: {args}", setting.name);
        }
        assert!(!help.contains("--backend-directory"), "options without effect are not advertised");
    }
    for args in ["--help", "-h", "serve --help"] {
        let help = printed(args);
        for name in flags::COMMON {
            let forms = [format!("--{name} "), format!("--{name}[")];
            assert!(forms.iter().any(|it| help.contains(it)), "{name}: {args}: {help}");
        }
        assert!(help.contains("--help-all") && help.contains("muster serve model.onnx"), "{help}");
        assert!(!help.contains("--grpc-keepalive-time"), "{help}");
    }
}

#[test]
fn what_follows_the_word_of_a_tool_is_left_alone() {
    let given = ["--help", "-n", "3", "http://localhost:8000", "--http-port=x"];
    let expect = given.map(OsString::from).to_vec();
    let parsed =
        |word: &str| read_text(&format!("{word} {}", given.join(" ")), &["MUSTER_HTTP_PORT=x"]);
    assert_eq!(parsed("bench"), Ok(Command::Tool(BENCH, expect.clone())));
    assert_eq!(parsed("predict"), Ok(Command::Tool(PREDICT, expect.clone())));
    assert_eq!(parsed("recommend"), Ok(Command::Tool(RECOMMEND, expect)));
}

#[test]
fn the_place_of_models_is_configured_or_the_usual_one() {
    let hosted = "/opt/ml/model/";
    let local = "model_repository/";
    let path = |it: &str| ModelsFrom::Path(it.into());
    let repositories =
        |them: &[&str]| ModelsFrom::Repositories(them.iter().map(Into::into).collect());
    for (paths, args, variables, expect) in [
        (&[local][..], "serve", &[][..], repositories(&["model_repository"])),
        (&[hosted, local], "serve", &[], path("/opt/ml/model")),
        (&[hosted, local], "", &[], path("/opt/ml/model")),
        (&[hosted, "/m/model/"], "serve", &["SAGEMAKER_BASE_DIR=/m"], path("/m/model")),
        (
            &[hosted, "/m/model/", "/n/"],
            "serve",
            &["SAGEMAKER_BASE_DIR=/m", "SAGEMAKER_MODEL_PATH=/n"],
            path("/n"),
        ),
        (
            &[hosted, "a/", "b/"],
            "--model-store a --model-repository b",
            &[],
            repositories(&["a", "b"]),
        ),
        (&["a/", "b/"], "", &["MUSTER_MODEL_REPOSITORY=a; b"], repositories(&["a", "b"])),
        (
            &["a/", "b/"],
            "--model-repository a --model-repository b --model-repository a",
            &[],
            repositories(&["a", "b"]),
        ),
        (&[hosted, "a/"], "serve", &["MUSTER_MODEL_REPOSITORY=a"], repositories(&["a"])),
        (&["x/model.onnx"], "serve x/model.onnx", &[], path("x/model.onnx")),
        (&["x/"], "serve x", &["MUSTER_MODEL_REPOSITORY=a"], path("x")),
    ] {
        assert_eq!(
            config_at(paths, args, variables).repository.from,
            expect,
            "{args} {variables:?}"
        );
    }
}

#[test]
fn models_that_are_not_there_are_missed() {
    let text = |paths, args| read_at(paths, args, &[]).unwrap_err().to_string();
    let none = text(&[], "");
    assert!(none.contains("/opt/ml/model") && none.contains("--model-repository"), "{none}");
    assert!(text(&[], "serve x.onnx").ends_with("'x.onnx' does not exist"));
    let word = text(&[], "serve bert-base-uncased");
    assert!(word.contains("does not exist; of Hugging Face's hub it is hf://bert-base"), "{word}");
    for args in ["serve models/x.onnx", "serve ./BAAI/bge", "serve a/b/c", "serve /a/b"] {
        assert!(text(&[], args).contains("does not exist"), "{args}");
    }
    assert!(text(&["f"], "--model-repository f").contains("this is a file"));
    assert!(text(&[], "--model-repository f").contains("--model-repository 'f' (command line)"));
    assert!(text(&["f"], "serve f --model-repository f").contains("give one of them"));
    let folder = read_at(&[], "serve", &["SAGEMAKER_MODEL_PATH=/n"]).unwrap_err().to_string();
    assert!(folder.contains("SAGEMAKER_MODEL_PATH") && folder.contains("'/n'"), "{folder}");
}

#[test]
fn a_hosted_server_has_one_port_unless_more_are_asked_for() {
    let bound = "SAGEMAKER_BIND_TO_PORT=8080";
    for (args, variables, expect) in [
        ("serve", &[bound][..], [0, 8080, 0]),
        ("", &[bound], [8000, 8080, 8002]),
        ("serve", &[], [8000, 8080, 8002]),
        ("serve --http-port 8000", &[bound], [8000, 8080, 0]),
        ("serve", &[bound, "MUSTER_ALLOW_HTTP=true"], [8000, 8080, 0]),
        ("serve", &[bound, "MUSTER_METRICS_PORT=9"], [0, 8080, 9]),
        ("serve --allow-metrics=off", &[bound, "MUSTER_METRICS_PORT=9"], [0, 8080, 0]),
        ("serve", &[bound, "SAGEMAKER_TRITON_ALLOW_METRICS=true"], [0, 8080, 8002]),
    ] {
        let config = config(args, variables);
        assert_eq!(ports(&config), expect, "{args} {variables:?}");
    }
    let by_folder = config_at(&["/opt/ml/model/"], "serve", &[]);
    assert_eq!((ports(&by_folder), by_folder.hosted), ([0, 8080, 0], true));
    let plain = config_at(&["/opt/ml/model/"], "", &[]);
    assert_eq!((ports(&plain), plain.hosted), ([8000, 8080, 8002], false));
}

#[test]
fn ports_that_are_not_given_are_taken_from_the_safe_range() {
    let range = "SAGEMAKER_SAFE_PORT_RANGE=9000-9002";
    let config = config("", &[range, "SAGEMAKER_BIND_TO_PORT=8080"]);
    assert_eq!(ports(&config), [9001, 8080, 9002]);
    assert_eq!(config.listeners.grpc, socket("0.0.0.0:9000"));
    assert!(notices(&config).contains("HTTP service takes port 9001"), "{}", notices(&config));
    let config = super::tests::config("--metrics-port 9000 --sagemaker-port 8080", &[range]);
    assert_eq!(ports(&config), [9002, 8080, 9000]);
    check_refused("--sagemaker-port 9000", &[range], &["9000-9002", "no port left", "metrics"]);
}

#[test]
fn a_chosen_port_outside_the_safe_range_is_refused() {
    check_refused(
        "--http-port 8000 --allow-metrics false --sagemaker-safe-port-range 9000-9010",
        &[],
        &["port 8000", "HTTP", "9000-9010"],
    );
    check_refused("--sagemaker-safe-port-range 9-1", &[], &["'9-1'", "the lower one first"]);
}

#[test]
fn two_services_on_one_port_are_refused_naming_both() {
    let container = ["KUBERNETES_SERVICE_HOST=10.0.0.1"];
    check_refused("--http-port 8080", &container, &["HTTP", "SageMaker", "port 8080"]);
    check_refused(
        "--http-port 8002 --metrics-address 127.0.0.1",
        &container,
        &["HTTP", "metrics", "port 8002"],
    );
    check_refused("--http-port 80 --grpc-port 80", &[], &["gRPC", "HTTP", "port 80"]);
    check_refused("--grpc-port 8000", &[], &["gRPC", "HTTP", "port 8000"]);
    let apart = config("--http-address ::1 --metrics-address 127.0.0.1 --metrics-port 8000", &[]);
    assert_eq!(apart.listeners.http, socket("[::1]:8000"));
    assert_eq!(apart.listeners.sagemaker, socket("[::1]:8080"));
    let free = config("--http-port 0 --sagemaker-port 0 --metrics-port 0", &[]);
    assert_eq!(free.listeners.http, socket("127.0.0.1:0"));
    check_refused(
        "--allow-http 0 --allow-grpc 0 --allow-sagemaker 0 --allow-metrics 0",
        &[],
        &["nothing to listen on"],
    );
}

#[test]
fn ports_are_open_to_this_machine_alone_outside_of_containers() {
    let http = |args: &str, variables: &[&str]| {
        let config = config(args, variables);
        (config.listeners.http.unwrap().ip().to_string(), notices(&config))
    };
    let (ip, said) = http("", &[]);
    assert!(ip == "127.0.0.1" && said.contains("--http-address=0.0.0.0 opens them"), "{said}");
    for (args, variables, expect) in [
        ("--http-address=0.0.0.0", vec![], "0.0.0.0"),
        ("--host=0.0.0.0", vec![], "0.0.0.0"),
        ("--http-address=127.0.0.1", vec![], "127.0.0.1"),
        ("", vec!["MUSTER_HTTP_ADDRESS=0.0.0.0"], "0.0.0.0"),
        ("", vec!["KUBERNETES_SERVICE_HOST=10.0.0.1"], "0.0.0.0"),
        ("", vec!["container=podman"], "0.0.0.0"),
        ("tritonserver", vec![], "0.0.0.0"),
        ("--sagemaker-multi-model=true", vec![], "0.0.0.0"),
    ] {
        let (ip, said) = http(args, &variables);
        assert_eq!(ip, expect, "{args} {variables:?}");
        assert!(!said.contains("opens them"), "{args} {variables:?}: {said}");
    }
    let docker = config_at(&["model_repository/", "/.dockerenv"], "", &[]);
    assert_eq!(docker.listeners.metrics, socket("0.0.0.0:8002"));
    let one = config("--grpc-address=0.0.0.0", &[]);
    assert_eq!(one.listeners.http, socket("127.0.0.1:8000"));
    assert!(!notices(&one).contains("only this machine"), "one is open");
}

#[test]
fn services_that_nobody_asked_for_make_way_outside_of_containers() {
    let spare = |args: &str, variables: &[&str]| config(args, variables).listeners.spare;
    assert_eq!(spare("", &[]), ["sagemaker", "metrics", "grpc"]);
    assert_eq!(spare("--grpc-port 8001 --allow-metrics=true", &[]), ["sagemaker"]);
    assert_eq!(spare("--allow-http=false", &[]), [""; 0]);
    assert_eq!(spare("", &["KUBERNETES_SERVICE_HOST=10.0.0.1"]), [""; 0]);
    assert_eq!(spare("tritonserver", &[]), [""; 0]);
    let moved = config("--port 8080", &[]);
    assert_eq!(ports(&moved), [8080, 0, 8002]);
    let said = notices(&moved);
    assert!(
        said.contains("SageMaker service is off") && said.contains("--sagemaker-port"),
        "{said}"
    );
    check_refused("--port 8080 --sagemaker-port 8080", &[], &["HTTP", "SageMaker", "port 8080"]);
}

#[test]
fn modes_that_do_not_exist_yet_are_refused() {
    check_refused("--model-control-mode=x", &[], &["expected none, poll or explicit"]);
    check_refused("--load-model a", &[], &["--load-model 'a'", "--model-control-mode=explicit"]);
    let explicit = "--model-control-mode=explicit --load-model=";
    check_refused(&format!("{explicit}* --load-model=a"), &[], &["no other --load-model"]);
    check_refused("--model-memory-budget=1GiB", &[], &["needs --model-load-on-demand=true"]);
    let poll = "--model-control-mode=poll --model-load-on-demand=true";
    check_refused(poll, &[], &["expected --model-control-mode none or explicit"]);
}

#[test]
fn tritons_other_options_are_taken_with_a_warning() {
    let names = triton_command::WITHOUT_EFFECT.iter().flat_map(|it| it.1);
    let args: Vec<String> = names.clone().map(|it| format!("--{it} 1")).collect();
    let said = notices(&config(&args.join(" "), &[]));
    for name in names {
        assert!(said.contains(&format!("--{name} '1'")), "{name} in {said}");
    }
    let none = "--model-namespacing false --allow-cpu-metrics=false --http-address=0.0.0.0";
    assert_eq!(config(none, &[]).notices, []);
}

#[test]
fn a_limit_of_gpu_memory_is_for_one_gpu_or_for_all() {
    let limits = |args, variables| config(args, variables).repository.gpu_limits;
    let limit = |gpu, fraction| GpuLimit { gpu, fraction };
    assert_eq!(limits("--model-load-gpu-limit=0:0.9", &[]), [limit(Some(0), 0.9)]);
    let all = ["SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT=0.8"];
    assert_eq!(limits("", &all), [limit(None, 0.8)]);
    for text in ["x", "0:", "0:2", "-1:0.5", ":0.5", "0:-0.1", "0:nan"] {
        check_refused(&format!("--model-load-gpu-limit={text}"), &[], &["as 0:0.9"]);
    }
    let blind = "--model-load-gpu-limit=0.5 --allow-gpu-metrics=false";
    check_refused(blind, &[], &["--allow-gpu-metrics=true"]);
}

#[test]
fn a_variable_that_is_almost_ours_gets_a_warning() {
    let said = notices(&config("", &["MUSTER_HTP_PORT=1", "MUSTER_SERVICE_HOST=10.0.0.1"]));
    assert!(said.contains("Warning: unknown variable MUSTER_HTP_PORT"), "{said}");
    assert!(said.contains("MUSTER_HTTP_PORT?") && !said.contains("SERVICE_HOST"), "{said}");
}

#[test]
fn the_link_to_a_kubernetes_service_is_no_port() {
    let config = config("", &["MUSTER_HTTP_PORT=tcp://10.0.0.7:80"]);
    assert_eq!(ports(&config)[0], 8000);
    assert!(notices(&config).contains("Debug: MUSTER_HTTP_PORT"), "{}", notices(&config));
}

#[test]
fn foreign_variables_become_settings() {
    let config = config(
        "",
        &[
            "SAGEMAKER_TFS_DEFAULT_MODEL_NAME=tfs",
            "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=triton",
            "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT=text/csv",
            "SAGEMAKER_BATCH=True",
            "SAGEMAKER_MAX_PAYLOAD_IN_MB=6",
            "MAX_CONTENT_LENGTH=1000",
            "OMP_NUM_THREADS=4,2",
            "SAGEMAKER_MODEL_SERVER_WORKERS=3",
            "SAGEMAKER_MODEL_SERVER_TIMEOUT=60",
            "ORT_DYLIB_PATH=/lib/ort.so",
            "TRITONSERVER_DELAY_SCHEDULER=8",
            "TRITONSERVER_BACKLOG_DELAY_SCHEDULER=2",
            "SAGEMAKER_REGION=eu-central-1",
            "SAGEMAKER_TELEPATHY=1",
            "SAGEMAKER_GUNICORN_WORKERS=2",
        ],
    );
    assert_eq!(config.sagemaker.default_model.as_deref(), Some("triton"));
    assert_eq!(config.sagemaker.default_accept.as_deref(), Some("text/csv"));
    assert!(config.sagemaker.batch);
    assert_eq!(config.scheduling.longest_stay, LongestStay::Unbounded);
    assert_eq!(config.limits.body_bytes, 6 << 20);
    assert_eq!(config.model_defaults.intra_op_threads.map(|it| it.get()), Some(4));
    assert_eq!(config.model_defaults.instance_count.map(|it| it.get()), Some(3));
    assert_eq!(config.scheduling.request_timeout, Some(Duration::from_secs(60)));
    assert_eq!(config.engines.onnxruntime_library.as_deref(), Some(Path::new("/lib/ort.so")));
    assert_eq!((config.scheduling.hold, config.scheduling.hold_backlog), (8, 2));
    let said = notices(&config);
    assert!(said.contains("SAGEMAKER_MAX_PAYLOAD_IN_MB: --http-max-input-size 6MiB"), "{said}");
    assert!(!said.contains("MAX_CONTENT_LENGTH"), "it was not applied: {said}");
    assert!(said.contains("without effect: SAGEMAKER_GUNICORN_WORKERS"), "{said}");
    assert!(said.contains("noted from the environment: SAGEMAKER_REGION=eu-central-1"), "{said}");
    assert!(said.contains("Debug: unknown variables: SAGEMAKER_TELEPATHY"), "{said}");
}

#[test]
fn a_payload_of_0_mb_leaves_the_default() {
    assert_eq!(config("", &["SAGEMAKER_MAX_PAYLOAD_IN_MB=0"]).limits.body_bytes, GIB);
}

#[test]
fn levels_of_python_become_switches_of_the_log() {
    for (level, expect) in [
        ("10", (1, true, true, true)),
        ("20", (0, true, true, true)),
        ("30", (0, false, true, true)),
        ("ERROR", (0, false, false, true)),
        ("50", (0, false, false, false)),
    ] {
        let log = config("", &[&format!("SAGEMAKER_CONTAINER_LOG_LEVEL={level}")]).log;
        assert_eq!((log.verbose, log.info, log.warning, log.error), expect, "{level}");
    }
    assert_eq!(config("--log-verbose=true", &[]).log.verbose, 1);
}

#[test]
fn further_options_may_come_in_a_variable() {
    let variable = "SAGEMAKER_TRITON_ADDITIONAL_ARGS=--http-port 9000 --id='a b' --http-prot 1";
    check_refused("", &[variable], &["SAGEMAKER_TRITON_ADDITIONAL_ARGS", "--http-prot"]);
    let config = config("", &["SAGEMAKER_TRITON_ADDITIONAL_ARGS=--http-port 9000 --id='a b'"]);
    assert_eq!((ports(&config)[0], &*config.id), (9000, "a b"));
}

#[test]
fn one_body_always_fits_into_the_budget_of_all() {
    for (args, expect) in [
        ("", (GIB, 4 * GIB)),
        ("--max-inflight-bytes 100MiB", (100 << 20, 100 << 20)),
        ("--http-max-input-size 64M", (64 << 20, 4 * GIB)),
        ("--http-max-input-size 6GiB", (6 * GIB, 6 * GIB)),
    ] {
        let limits = config(args, &[]).limits;
        assert_eq!((limits.body_bytes, limits.inflight_bytes), expect, "{args}");
    }
    check_refused(
        "--http-max-input-size 2000 --max-inflight-bytes 1000",
        &[],
        &["--http-max-input-size '2000'", "no more than --max-inflight-bytes '1000'"],
    );
    check_refused("--http-max-input-size 0", &[], &["from 1"]);
}

#[test]
fn the_drain_delay_is_part_of_the_exit_timeout() {
    check_refused(
        "--drain-delay-secs 30",
        &[],
        &["--drain-delay-secs '30'", "--exit-timeout-secs, 25"],
    );
    let config = config("--exit-timeout-secs 0.5", &[]);
    assert_eq!(config.lifecycle.drain_delay, Duration::from_millis(500));
}

#[test]
fn settings_of_an_engine_beat_those_of_all() {
    let config = config(
        "--backend-config=default-max-batch-size=8 --backend-config=onnxruntime,default-max-batch-size=16 \
         --backend-config=onnxruntime,intra_op_thread_count=2",
        &[],
    );
    let repository = config.repository;
    assert_eq!(repository.default_max_batch_size("onnxruntime"), Some(16));
    assert_eq!(repository.default_max_batch_size("pytorch"), Some(8));
    assert_eq!(repository.backend_setting("onnxruntime", "intra_op_thread_count"), Some("2"));
    assert_eq!(repository.backend_setting("pytorch", "intra_op_thread_count"), None);
    check_refused("--backend-config=x", &[], &["[<backend>,]<key>=<value>"]);
    check_refused("--backend-config=default-max-batch-size=x", &[], &["whole number"]);
}

#[test]
fn auto_complete_is_switched_off_by_either_name() {
    for args in [
        "--disable-auto-complete-config",
        "--disable-auto-complete-config serve",
        "--strict-model-config=true",
    ] {
        assert!(!config(args, &[]).repository.auto_complete, "{args}");
    }
    assert!(!config("", &["MUSTER_DISABLE_AUTO_COMPLETE_CONFIG=yes"]).repository.auto_complete);
}

#[test]
fn a_slow_body_earns_time_by_arriving() {
    let pace = config("--body-grace-secs 5 --body-min-rate 100", &[]).limits.body_pace;
    assert_eq!(pace.allowed(0), Some(Duration::from_secs(5)));
    assert_eq!(pace.allowed(1000), Some(Duration::from_secs(15)));
    // Twice as much has to come ever faster: it earns no more than 84 seconds, however much it is.
    let allowed = |received| pace.allowed(received).unwrap().as_secs();
    assert_eq!((allowed(12_000), allowed(24_000), allowed(48_000)), (125, 208, 291));
    assert!(allowed(1 << 40) < 40 * 60);
    assert_eq!(config("--body-min-rate 0", &[]).limits.body_pace.allowed(1), None);
}

#[test]
fn a_hosting_platforms_requests_wait_as_long_as_it_does_unless_told_otherwise() {
    let hosted = |args: &str| config_at(&["/opt/ml/model/"], args, &[]).scheduling.longest_stay;
    let minute = LongestStay::Fixed(Duration::from_secs(60));
    assert_eq!(hosted("serve"), minute);
    assert_eq!(hosted("serve --max-queue-wait-ms auto"), minute);
    assert_eq!(hosted("serve --max-queue-wait-ms 0"), LongestStay::Unbounded);
    assert_eq!(hosted(""), LongestStay::Auto);
    let many = config("", &["SAGEMAKER_MULTI_MODEL=true"]);
    assert_eq!(many.scheduling.longest_stay, minute);
}

#[test]
fn waits_may_be_bounded_or_not() {
    for (text, expect) in [
        ("auto", LongestStay::Auto),
        ("0", LongestStay::Unbounded),
        ("250", LongestStay::Fixed(Duration::from_millis(250))),
    ] {
        let args = format!("--max-queue-wait-ms {text}");
        assert_eq!(config(&args, &[]).scheduling.longest_stay, expect, "{text}");
    }
    check_refused("--max-queue-wait-ms -5", &[], &["'-5'", "auto, 0"]);
    check_refused("--worker-spin-us 2000", &[], &["'2000'", "0 to 1000"]);
    assert!(config("--caller-runs off", &[]).scheduling.caller_runs_below.is_zero());
    assert_eq!(config("", &[]).scheduling.spin, Duration::from_micros(200));
    let spin = config("--worker-spin-us 50", &[]).scheduling.spin;
    assert_eq!(spin, Duration::from_micros(50));
}

#[cfg(unix)]
#[test]
fn text_that_is_not_utf8_is_refused_and_named() {
    use std::os::unix::ffi::OsStringExt;
    let bad = OsString::from_vec(vec![0xff]);
    let fake = Fake {
        variables: HashMap::from([("MUSTER_ID".to_owned(), bad.clone())]),
        paths: vec!["model_repository/"],
        first_process: "",
    };
    let args = ["muster".into(), "--http-port".into(), bad];
    let error = read(args, &fake, &machine()).unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
}

#[test]
fn optimised_models_are_kept_only_where_a_directory_is_given() {
    let cache = |args, variables: &[&str]| config(args, variables).engines.model_cache_dir;
    assert_eq!(cache("", &[]), None);
    assert_eq!(cache("--model-cache-dir /cache", &[]).as_deref(), Some(Path::new("/cache")));
    let variable = ["MUSTER_MODEL_CACHE_DIR=/cache"];
    assert_eq!(cache("", &variable).as_deref(), Some(Path::new("/cache")));
}

#[test]
fn metrics_are_chosen_as_in_triton() {
    let metrics = |args| config(args, &[]).metrics;
    let plain = metrics("");
    assert_eq!(
        (plain.cpu_metrics, plain.counter_latencies, plain.histogram_latencies),
        (true, true, false)
    );
    assert!(plain.summary_quantiles.is_empty());
    let summaries = metrics("--metrics-config summary_latencies=true --allow-cpu-metrics=false");
    assert_eq!(summaries.summary_quantiles, [0.5, 0.9, 0.95, 0.99, 0.999]);
    assert!(!summaries.cpu_metrics);
    let chosen = metrics(
        "--metrics-config summary_quantiles=0.25:0.1 --metrics-config summary_latencies=1 \
         --metrics-config counter_latencies=false --metrics-config histogram_latencies=true",
    );
    assert_eq!(chosen.summary_quantiles, [0.25]);
    assert_eq!((chosen.counter_latencies, chosen.histogram_latencies), (false, true));
    for (value, part) in [
        ("summaries=true", "summary_latencies="),
        ("summary_latencies=maybe", "true or false"),
        ("summary_quantiles=2:1", "from 0 to 1"),
    ] {
        check_refused(&format!("--metrics-config {value}"), &[], &["--metrics-config", part]);
    }
}

#[test]
fn log_formats_have_tritons_names_and_two_more() {
    let format = |args: &str| config(args, &[]).log.format;
    assert_eq!(format(""), LogFormat::Text);
    for (name, expect) in [
        ("json", LogFormat::Json),
        ("default", LogFormat::Default),
        ("ISO8601", LogFormat::Iso8601),
        ("iso8601", LogFormat::Iso8601),
    ] {
        assert_eq!(format(&format!("--log-format {name}")), expect, "{name}");
    }
    assert!(!config("", &[]).log.requests && config("--log-requests=true", &[]).log.requests);
}

#[test]
fn every_setting_is_documented_with_its_default() {
    let page = include_str!("../../../docs/reference/flags.md");
    let table = flags::table();
    let written = table.flags().map(|it| match it.default {
        "" => format!("`--{}`", it.name),
        default => format!("`--{}={default}`", it.name),
    });
    let others = table.all_names().filter(|it| table.flag(it).is_none());
    let missing: Vec<String> = written
        .chain(others.map(|it| format!("`--{it}`")))
        .filter(|it| !page.contains(it.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/reference/flags.md lacks {missing:?}");
    // The first cells of its tables, up to the list of flags that have no effect.
    let cells = page.lines().filter_map(|it| it.strip_prefix("| `--")?.split(" | ").next());
    let named =
        cells.flat_map(|it| it.split("`, `--")).filter_map(|it| it.split(['=', '`', ' ']).next());
    let names: Vec<&str> = table.all_names().collect();
    let invented: Vec<&str> = named.filter(|it| *it != "no-emf" && !names.contains(it)).collect();
    assert!(invented.is_empty(), "docs/reference/flags.md names {invented:?}");
}

#[test]
fn no_sentence_of_the_help_is_longer_than_a_reader_can_hold() {
    let mut long = Vec::new();
    for flag in flags::table().flags() {
        for sentence in flag.help.split(['.', ':', ';']) {
            let words = sentence.split_whitespace().filter(|it| it.contains(char::is_alphanumeric));
            if 30 < words.count() {
                long.push(format!("--{}:{sentence}", flag.name));
            }
        }
    }
    assert!(long.is_empty(), "at most 30 words:\n{}", long.join("\n"));
}

#[test]
fn restrictions_are_read_and_their_secrets_never_shown() {
    let two = "--http-restricted-api=health,trace:a=hush --http-restricted-api=logging:b=hush";
    assert_eq!(config(two, &[]).access.http.restrictions.len(), 2);
    let variable = ["MUSTER_GRPC_RESTRICTED_PROTOCOL=inference:a=x;health:b=y"];
    let config = config("", &variable);
    assert_eq!(config.access.grpc.restrictions.len(), 2);
    assert_eq!(config.access.http.restrictions, []);
    let twice = "--http-restricted-api=health,trace:a=hush --http-restricted-api=trace:b=hush";
    check_refused(twice, &[], &["--http-restricted-api", "'trace' is in two groups"]);
    let texts = ["x:y=hush", "health:=hush", "health:y:hush", "hush", "health:=hush=hush"];
    for text in texts {
        for problem in problems(&format!("--http-restricted-api={text}"), &[]) {
            assert!(!problem.contains("hush"), "{problem}");
        }
    }
}

#[test]
fn names_by_which_pages_know_the_server_are_hosts_without_ports() {
    let hosts = config("--allowed-hosts models.example,gateway", &[]).access.hosts;
    assert!(hosts.lead_here(b"gateway:8000") && !hosts.lead_here(b"other"));
    check_refused("--allowed-hosts a:80", &[], &["--allowed-hosts 'a:80'", "without ports"]);
}

#[test]
fn pages_that_may_read_replies_are_origins() {
    let clients =
        config("--cors-allow-origin https://app.example,http://localhost:3000", &[]).clients;
    assert!(clients.origins.allow(b"http://localhost:3000") && clients.server_timing);
    assert!(!config("", &[]).clients.origins.allow(b"http://localhost:3000"));
    let wrong = &["--cors-allow-origin 'app.example'", "https://app.example"];
    check_refused("--cors-allow-origin app.example", &[], wrong);
}

#[test]
fn what_is_watched_is_looked_at_every_second_unless_another_time_is_given() {
    let every = |args: &str| match config(args, &[]).control.mode {
        ControlMode::Poll(every) => every.as_secs(),
        other => panic!("{args}: {other:?}"),
    };
    assert_eq!(every("--watch"), 1);
    assert_eq!(every("--watch --model-control-mode=poll"), 1);
    assert_eq!(every("--watch --repository-poll-secs=7"), 7);
    let wrong = &["--watch", "expected no control mode but poll beside it", "explicit"];
    check_refused("--watch --model-control-mode=explicit", &[], wrong);
}

#[test]
fn what_is_open_without_a_token_is_said_by_category() {
    let open = |args| config(args, &[]).access.open;
    assert_eq!(open(""), Categories::only(&[Category::Health]));
    assert_eq!(open("--auth-open none"), Categories::default());
    let both = Categories::only(&[Category::Health, Category::Metrics]);
    assert_eq!(open("--auth-open health,metrics"), both);
    check_refused("--auth-open all", &[], &["--auth-open 'all'", "none, or categories"]);
}

#[test]
fn tls_is_a_certificate_with_its_key() {
    assert_eq!(config("", &[]).tls, None);
    let tls = config("--http-tls-cert=a --http-tls-key=b", &[]).tls.unwrap();
    assert_eq!(
        tls.ports,
        TlsPorts { http: true, sagemaker: true, vertex_ai: true, metrics: false }
    );
    assert_eq!(tls.files.client_ca, None);
    assert_eq!(tls.files.key.to_string(), "--http-tls-key 'b'");
    let all = "--http-tls-cert=a --http-tls-key=b --http-tls-client-ca=c --http-tls-ports=metrics,vertex-ai";
    let tls = config(all, &[]).tls.unwrap();
    assert_eq!(
        tls.ports,
        TlsPorts { http: false, sagemaker: false, vertex_ai: true, metrics: true }
    );
    assert!(tls.files.client_ca.is_some());
    check_refused("--http-tls-cert=a", &[], &["--http-tls-cert 'a'", "--http-tls-key, too"]);
    check_refused("--http-tls-key=a", &[], &["--http-tls-key 'a'", "--http-tls-cert, too"]);
    let neither = "--http-tls-cert and --http-tls-key, too";
    check_refused("--http-tls-client-ca=a", &[], &["--http-tls-client-ca 'a'", neither]);
    check_refused("--http-tls-ports=grpc", &[], &["http, sagemaker, vertex-ai, metrics"]);
}

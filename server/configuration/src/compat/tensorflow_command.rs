//! The command line of TensorFlow Serving: called by its name, muster understands its flags and has its defaults.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use crate::{
    environment::{Environment, variable_text},
    given::{Given, Origin, Typed},
    report::Notice,
    sources::Sources,
};
use inference::signature::nearest;

/// What the command is called.
const COMMAND: &str = "tensorflow_model_server";

/// What the image of TensorFlow Serving starts: the command, with flags from the environment.
const SCRIPT: &str = "tf_serving_entrypoint.sh";

/// Called by that name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TensorFlow {
    /// As its image starts it.
    script: bool,
    /// Lines about flags that do nothing.
    notices: Vec<Notice>,
}

/// What one of its flags becomes.
#[derive(Debug, Clone, Copy)]
enum Means {
    /// The setting's own text.
    Same(&'static str),
    /// The same; nothing where it is empty, as that is its default.
    Text(&'static str),
    /// A number; nothing where it is below 1, as that is no number there.
    FromOne(&'static str),
    /// A port; 0 switches the second setting off.
    Port(&'static str, &'static str),
    /// One text for two settings.
    Both(&'static str, &'static str),
    /// That text for a setting, unless it is off.
    On(&'static str, &'static str),
    /// Nothing, and why.
    Nothing(&'static str),
    /// Nothing; and why, unless it is off.
    NothingOn(&'static str),
    /// It must not be given, unless it is off, and what to do instead.
    Refused(&'static str),
}

use Means::{Both, FromOne, Nothing, NothingOn, On, Port, Refused, Same, Text};

const NOT_LITE: &str = "files of TensorFlow Lite are not served, the SavedModels beside them are";
const NOT_XLA: &str = "graphs are not compiled by XLA";
const OWN_FLAGS: &str =
    "threads, precision and batches have flags of their own, and config.pbtxt of each model";
const TUNES_ITSELF: &str = "muster chooses its threads by the processors";

/// Those of the releases up to 2.21, with some that older ones had. Source: `main.cc` of
/// <https://github.com/tensorflow/serving>, which `--help` prints.
#[rustfmt::skip]
const FLAGS: &[(&str, Means)] = &[
    ("port", Port("tfs-grpc-port", "allow-tfs-grpc")),
    ("rest_api_port", Port("http-port", "allow-http")),
    ("model_name", Same("model-name")),
    ("model_base_path", Same("model-base-path")),
    ("model_config_file", Text("model-config-file")),
    ("model_config_file_poll_wait_seconds", Same("model-config-file-poll-wait-seconds")),
    ("file_system_poll_wait_seconds", Same("file-system-poll-wait-seconds")),
    ("allow_version_labels_for_unavailable_models", Same("allow-version-labels-for-unavailable-models")),
    ("force_allow_any_version_labels_for_unavailable_models", Same("force-allow-any-version-labels-for-unavailable-models")),
    ("monitoring_config_file", Text("monitoring-config-file")),
    ("enable_batching", Same("default-dynamic-batching")),
    ("batching_parameters_file", Text("batching-parameters-file")),
    ("rest_api_timeout_in_ms", Same("request-timeout-ms")),
    ("max_num_load_retries", Same("model-load-retry-count")),
    ("num_load_threads", Same("model-load-thread-count")),
    ("tensorflow_intra_op_parallelism", Same("default-intra-op-threads")),
    ("tensorflow_inter_op_parallelism", Same("default-inter-op-threads")),
    ("tensorflow_session_parallelism", Both("default-intra-op-threads", "default-inter-op-threads")),
    ("enable_model_warmup", Same("tensorflow-warmup")),
    ("num_request_iterations_for_warmup", FromOne("tensorflow-warmup-iterations")),
    ("enable_signature_method_name_check", Same("tensorflow-method-name-check")),
    ("saved_model_tags", Text("tensorflow-tags")),
    ("mixed_precision", Text("tensorflow-mixed-precision")),
    ("load_retry_interval_micros", Nothing("a load that failed is tried again at once")),
    ("rest_api_num_threads", Nothing(TUNES_ITSELF)),
    ("grpc_max_threads", Nothing(TUNES_ITSELF)),
    ("num_unload_threads", Nothing(TUNES_ITSELF)),
    ("num_initial_load_threads", Nothing(TUNES_ITSELF)),
    ("flush_filesystem_caches", Nothing("muster leaves the system's caches alone")),
    ("total_model_memory_limit_bytes", Nothing("models that are named are all loaded; see --model-memory-budget for models of a repository")),
    ("enable_per_model_batching_parameters", NothingOn("a model's config.pbtxt says how it is batched")),
    ("grpc_channel_arguments", Nothing("see --grpc-keepalive-time and its neighbours")),
    ("rest_api_enable_cors_support", On("cors-allow-origin", "*")),
    ("enable_grpc_healthcheck_service", NothingOn("the service is always there")),
    ("enable_serialization_as_tensor_content", NothingOn("replies have elements in the lists of their types, which all clients read")),
    ("platform_config_file", Nothing(OWN_FLAGS)),
    ("tensorflow_session_config_file", Nothing(OWN_FLAGS)),
    ("thread_pool_factory_config_file", Nothing(OWN_FLAGS)),
    ("per_process_gpu_memory_fraction", NothingOn("SavedModels run on the processors")),
    ("xla_cpu_compilation_enabled", NothingOn(NOT_XLA)),
    ("xla_gpu_compilation_enabled", NothingOn(NOT_XLA)),
    ("skip_initialize_tpu", NothingOn("no TPU is used")),
    ("prefer_tflite_model", NothingOn(NOT_LITE)),
    ("num_tflite_pools", Nothing(NOT_LITE)),
    ("num_tflite_interpreters_per_pool", Nothing(NOT_LITE)),
    ("remove_unused_fields_from_bundle_metagraph", Nothing("no graph is kept beside TensorFlow's own")),
    ("enable_profiler", NothingOn("there is no profiler; see --trace-config")),
    ("ssl_config_file", Refused("give the certificate as files: --grpc-use-ssl, --grpc-server-cert, --grpc-server-key, --grpc-root-cert")),
    ("use_alts_credentials", Refused("there is TLS: --grpc-use-ssl")),
    ("grpc_socket_path", Refused("muster listens on ports only")),
];

/// Switches of its own that stand alone.
const SWITCHES: [&str; 17] = [
    "allow_version_labels_for_unavailable_models",
    "force_allow_any_version_labels_for_unavailable_models",
    "enable_batching",
    "enable_model_warmup",
    "flush_filesystem_caches",
    "enable_per_model_batching_parameters",
    "rest_api_enable_cors_support",
    "enable_grpc_healthcheck_service",
    "enable_serialization_as_tensor_content",
    "prefer_tflite_model",
    "xla_cpu_compilation_enabled",
    "xla_gpu_compilation_enabled",
    "skip_initialize_tpu",
    "remove_unused_fields_from_bundle_metagraph",
    "enable_signature_method_name_check",
    "enable_profiler",
    "use_alts_credentials",
];

/// Its defaults, where muster's are others.
const DEFAULTS: [(&str, &str); 8] = [
    ("allow-http", "false"),
    ("allow-grpc", "false"),
    ("allow-sagemaker", "false"),
    ("allow-metrics", "false"),
    ("allow-tfs-grpc", "true"),
    ("tfs-grpc-port", "8500"),
    // It takes reloads from everywhere.
    ("allow-remote-administration", "true"),
    // There any number of rows is taken.
    ("default-max-batch-size", "1000"),
];

/// Is that one of its names?
pub fn is_name(argument: &OsStr) -> bool {
    let name = Path::new(argument).file_name();
    [COMMAND, SCRIPT].iter().any(|it| name == Some(OsStr::new(it)))
}

/// Takes its name and its flags out of the arguments, program name first; what is left is muster's own. `None` where
/// the program was not called by that name.
pub fn take(
    args: &mut Vec<OsString>,
    problems: &mut Vec<String>,
) -> Option<(TensorFlow, Vec<Typed>)> {
    // An image whose entry point is muster gets the name as its first argument.
    let word = args.get(1).is_some_and(|it| is_name(it));
    let name = args.get(usize::from(word)).filter(|it| is_name(it))?.clone();
    if word {
        args.remove(1);
    }
    let script = Path::new(&name).file_name() == Some(OsStr::new(SCRIPT));
    let mut found = TensorFlow { script, notices: Vec::new() };
    let (mut typed, mut others) = (Vec::new(), Vec::new());
    let mut all = std::mem::take(args).into_iter();
    others.extend(all.next());
    while let Some(argument) = all.next() {
        let text = argument.to_string_lossy();
        let bare = text.strip_prefix("--").unwrap_or_default();
        let (name, value) =
            bare.split_once('=').map_or((bare, None), |(it, value)| (it, Some(value)));
        let Some((name, means)) = FLAGS.iter().find(|it| it.0 == name) else {
            if name.contains('_') {
                problems.push(unknown(name));
            } else {
                others.push(argument);
            }
            continue;
        };
        let value = match value {
            Some(value) => value.to_owned(),
            None if SWITCHES.contains(name) => "true".to_owned(),
            None => match all.next() {
                Some(value) => value.to_string_lossy().into_owned(),
                None => {
                    problems.push(format!("option --{name} needs a value"));
                    continue;
                }
            },
        };
        found.flag(name, *means, &value, &mut typed, problems);
    }
    *args = others;
    Some((found, typed))
}

fn unknown(name: &str) -> String {
    let hint = nearest(name, FLAGS.iter().map(|it| it.0));
    let hint = hint.map_or("muster --help lists muster's own".to_owned(), |it| {
        format!("did you mean --{it}?")
    });
    format!("unknown option --{name} of {COMMAND}; {hint}")
}

impl TensorFlow {
    /// One of its flags.
    fn flag(
        &mut self,
        name: &str,
        means: Means,
        value: &str,
        typed: &mut Vec<Typed>,
        problems: &mut Vec<String>,
    ) {
        let spelled = format!("--{name}={value} (command line)");
        let mut set = |setting: &'static str, value: &str| {
            typed.push(Typed {
                name: setting,
                value: value.into(),
                spelled: Some(spelled.clone()),
            });
        };
        let is_off = ["", "false", "0", "0.0"].contains(&&*value.to_ascii_lowercase());
        let mut nothing = |why: &str| {
            let text = format!("without effect ({why}): --{name}={value}");
            self.notices.push(Notice::info(text));
        };
        match means {
            // 0 is the server's choice there.
            Same("model-load-thread-count") if is_off => {}
            Text(_) if value.is_empty() => {}
            FromOne(_) if is_off || value.starts_with('-') => {}
            Same(setting) | Text(setting) | FromOne(setting) => set(setting, value),
            Port(_, allow) if value == "0" => set(allow, "false"),
            Port(setting, allow) => {
                set(setting, value);
                set(allow, "true");
            }
            Both(one, other) => {
                set(one, value);
                set(other, value);
            }
            On(..) | NothingOn(_) | Refused(_) if is_off => {}
            On(setting, text) => set(setting, text),
            Nothing(why) | NothingOn(why) => nothing(why),
            Refused(instead) => {
                problems
                    .push(format!("--{name}={value} (command line) is not supported: {instead}"));
            }
        }
    }

    /// Settings that are not given have the defaults of the image of TensorFlow Serving.
    pub fn offer_image(
        &self,
        sources: &mut Sources<'_>,
        environment: &dyn Environment,
        problems: &mut Vec<String>,
    ) {
        sources.notices.extend(self.notices.iter().cloned());
        let is_named = ["model-config-file", "model-base-path"];
        let is_named = is_named.iter().any(|it| sources.last(it).is_some());
        sources.offer(self.image(is_named, environment, problems));
    }

    /// Settings that are still not given have the defaults of TensorFlow Serving.
    pub fn offer_defaults(&self, sources: &mut Sources<'_>) {
        let origin = || Origin::Other(format!("default of {COMMAND}"));
        let default =
            |(name, text): (&'static str, &str)| Given::new(name, text.to_owned(), origin());
        sources.offer(DEFAULTS.map(default).into());
    }

    /// What its image makes of the environment: a model below the directory of models, and the port of REST.
    fn image(
        &self,
        is_named: bool,
        environment: &dyn Environment,
        problems: &mut Vec<String>,
    ) -> Vec<Given> {
        let mut variable = |name| variable_text(environment, name, problems);
        let (name, base_path) = (variable("MODEL_NAME"), variable("MODEL_BASE_PATH"));
        let is_image = self.script || name.is_some() || base_path.is_some();
        if !is_image || (is_named && !self.script) {
            return Vec::new();
        }
        let name = name.unwrap_or_else(|| "model".to_owned());
        let path = Path::new(base_path.as_deref().unwrap_or("/models")).join(&name);
        let given = |setting, text: String, variable: &str| {
            let origin = Origin::Other(format!("{variable}: '{text}' (environment)"));
            Given::new(setting, text, origin)
        };
        let mut all = vec![
            given("http-port", "8501".to_owned(), "the image of TensorFlow Serving"),
            given("allow-http", "true".to_owned(), "the image of TensorFlow Serving"),
        ];
        if !is_named {
            let path = path.display().to_string();
            all.push(given("model-base-path", path, "MODEL_BASE_PATH/MODEL_NAME"));
            all.push(given("model-name", name, "MODEL_NAME"));
        }
        all
    }
}

/// What to do in place of one of its flags, where the program has another name; `None` where it is no flag of its own.
pub(crate) fn in_words(name: &str) -> Option<String> {
    let means = FLAGS.iter().find(|it| it.0 == name)?.1;
    let own = match means {
        Same(one) | Text(one) | FromOne(one) | Port(one, _) => format!("here it is --{one}"),
        Both(one, other) => format!("here it is --{one} and --{other}"),
        On(one, text) => format!("here it is --{one}={text}"),
        Nothing(why) | NothingOn(why) => format!("muster has none like it: {why}"),
        Refused(instead) => format!("in its place: {instead}"),
    };
    Some(format!("{own}. `muster {COMMAND}` takes the flags of TensorFlow Serving as they are"))
}

/// Every flag, and the settings that it may be about, those of its defaults at the end: for a test that there are such
/// flags.
pub fn meant_settings() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let of_flags = FLAGS.iter().map(|(name, means)| match *means {
        Same(one) | Text(one) | FromOne(one) | On(one, _) => (*name, vec![one]),
        Port(one, other) | Both(one, other) => (*name, vec![one, other]),
        Nothing(_) | NothingOn(_) | Refused(_) => (*name, vec![]),
    });
    of_flags.chain(DEFAULTS.iter().map(|it| (it.0, vec![it.0])))
}

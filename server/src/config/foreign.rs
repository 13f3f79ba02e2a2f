//! Variables of the containers that muster replaces, and the settings that they mean. Within a setting
//! the more specific family wins: Triton, TensorFlow Serving, TorchServe, toolkits, anybody's.

use std::collections::HashMap;

use super::{
    command_line,
    environment::Environment,
    report::Notice,
    sources::{Given, Origin, variable_text},
    value::Parse,
    vertex,
};

/// What a variable's text says.
#[derive(Debug, Clone, Copy)]
enum Means {
    /// The setting's own text.
    Same(&'static str),
    /// A size in MiB.
    Megabytes(&'static str),
    /// A time in seconds, for a setting in milliseconds.
    Seconds(&'static str),
    /// One number for each level of OpenMP's nesting; the outermost counts.
    FirstOfList(&'static str),
    /// A level of Python's logging, for `--log-*`.
    PythonLevel,
    /// What Vertex AI has started the process for; a switch that is on if that is to predict.
    VertexMode(&'static str),
}

use Means::{FirstOfList, Megabytes, PythonLevel, Same, Seconds, VertexMode};

/// For one setting the first row that says something counts.
#[rustfmt::skip]
const VARIABLES: &[(&str, Means)] = &[
    ("SAGEMAKER_BIND_TO_PORT", Same("sagemaker-port")),
    ("SAGEMAKER_SAFE_PORT_RANGE", Same("sagemaker-safe-port-range")),
    ("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", Same("sagemaker-default-model")),
    ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", Same("sagemaker-default-model")),
    ("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", Same("default-accept")),
    ("SAGEMAKER_BATCH", Same("sagemaker-batch")),
    ("SAGEMAKER_INFERENCE_OUTPUT", Same("sagemaker-inference-output")),
    ("SAGEMAKER_ENABLE_CLOUDWATCH_METRICS", Same("emf")),
    ("SAGEMAKER_MULTI_MODEL", Same("sagemaker-multi-model")),
    ("SAGEMAKER_MULTI_MODE", Same("sagemaker-multi-model")),

    ("SAGEMAKER_ENABLE_STATEFUL_SESSIONS", Same("sessions")),
    ("SAGEMAKER_SESSIONS_EXPIRATION", Same("session-ttl")),

    (vertex::MODE, VertexMode("allow-vertex-ai")),
    ("AIP_HTTP_PORT", Same("vertex-ai-port")),
    ("AIP_PREDICT_ROUTE", Same("vertex-ai-predict-route")),
    ("AIP_HEALTH_ROUTE", Same("vertex-ai-health-route")),

    ("TS_MAX_REQUEST_SIZE", Same("http-max-input-size")),
    ("SAGEMAKER_MAX_REQUEST_SIZE", Same("http-max-input-size")),
    ("MMS_MAX_REQUEST_SIZE", Same("http-max-input-size")),
    ("SAGEMAKER_MAX_PAYLOAD_IN_MB", Megabytes("http-max-input-size")),
    ("MAX_CONTENT_LENGTH", Same("http-max-input-size")),

    ("SAGEMAKER_TRITON_ALLOW_GRPC", Same("allow-grpc")),
    ("SAGEMAKER_TRITON_GRPC_PORT", Same("grpc-port")),
    ("SAGEMAKER_TRITON_ALLOW_METRICS", Same("allow-metrics")),
    ("SAGEMAKER_TRITON_METRICS_PORT", Same("metrics-port")),
    ("SAGEMAKER_TRITON_THREAD_COUNT", Same("http-thread-count")),
    ("SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT", Same("buffer-manager-thread-count")),
    ("SAGEMAKER_TRITON_MODEL_LOAD_GPU_LIMIT", Same("model-load-gpu-limit")),

    ("SAGEMAKER_TRITON_LOG_VERBOSE", Same("log-verbose")),
    ("SAGEMAKER_TRITON_LOG_INFO", Same("log-info")),
    ("SAGEMAKER_TRITON_LOG_WARNING", Same("log-warning")),
    ("SAGEMAKER_TRITON_LOG_ERROR", Same("log-error")),
    ("SAGEMAKER_CONTAINER_LOG_LEVEL", PythonLevel),

    ("SAGEMAKER_TFS_INSTANCE_COUNT", Same("default-instance-count")),
    ("SAGEMAKER_TFS_NUM_BATCH_THREADS", Same("default-instance-count")),
    ("SAGEMAKER_TS_MAX_WORKERS", Same("default-instance-count")),
    ("TS_DEFAULT_WORKERS_PER_MODEL", Same("default-instance-count")),
    ("SAGEMAKER_MODEL_SERVER_WORKERS", Same("default-instance-count")),
    ("SAGEMAKER_NUM_MODEL_WORKERS", Same("default-instance-count")),
    ("MMS_DEFAULT_WORKERS_PER_MODEL", Same("default-instance-count")),
    ("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", Same("default-intra-op-threads")),
    ("OMP_NUM_THREADS", FirstOfList("default-intra-op-threads")),
    ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", Same("default-inter-op-threads")),

    ("SAGEMAKER_TS_RESPONSE_TIMEOUT", Seconds("request-timeout-ms")),
    ("SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS", Seconds("request-timeout-ms")),
    ("SAGEMAKER_MODEL_SERVER_TIMEOUT", Seconds("request-timeout-ms")),
    ("SAGEMAKER_RESPONSE_TIMEOUT", Seconds("request-timeout-ms")),
    ("MMS_DEFAULT_RESPONSE_TIMEOUT_SECONDS", Seconds("request-timeout-ms")),
    ("MMS_DEFAULT_RESPONSE_TIMEOUT", Seconds("request-timeout-ms")),

    ("ORT_DYLIB_PATH", Same("onnxruntime-library")),
    ("TRITONSERVER_DELAY_SCHEDULER", Same("scheduler-hold")),
];

/// Holds further options, separated as a shell does.
const FURTHER_OPTIONS: &str = "SAGEMAKER_TRITON_ADDITIONAL_ARGS";

/// Where the platform puts models, by two variables: the folder itself, or the one above `model`.
pub(super) const MODEL_PATH: &str = "SAGEMAKER_MODEL_PATH";
pub(super) const BASE_DIR: &str = "SAGEMAKER_BASE_DIR";
/// The port that the platform chose; with it the process is surely hosted.
pub(super) const BIND_TO_PORT: &str = "SAGEMAKER_BIND_TO_PORT";

/// Variables that are known and do nothing; set, they get one line together.
const WITHOUT_EFFECT: &[&str] = &[
    "SAGEMAKER_BATCH_STRATEGY",
    "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS",
    "SAGEMAKER_TFS_ENABLE_BATCHING",
    "SAGEMAKER_TFS_MAX_BATCH_SIZE",
    "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS",
    "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
    "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN",
    "SAGEMAKER_TFS_WAIT_TIME_SECONDS",
    "SAGEMAKER_TFS_NGINX_LOGLEVEL",
    "SAGEMAKER_TFS_VERSION",
    "SAGEMAKER_GUNICORN_WORKERS",
    "SAGEMAKER_GUNICORN_THREADS",
    "SAGEMAKER_GUNICORN_WORKER_CLASS",
    "SAGEMAKER_GUNICORN_LOGLEVEL",
    "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS",
    "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS",
    "SAGEMAKER_STARTUP_TIMEOUT",
    "SAGEMAKER_MODEL_JOB_QUEUE_SIZE",
    "SAGEMAKER_MAX_RESPONSE_SIZE",
    "SAGEMAKER_TS_BATCH_SIZE",
    "SAGEMAKER_TS_MAX_BATCH_DELAY",
    "SAGEMAKER_TS_MIN_WORKERS",
    "SAGEMAKER_SESSIONS_PATH",
    "SAGEMAKER_HEALTH_CHECK_OVERRIDE",
    "SAGEMAKER_INFERENCE_ENSEMBLE",
    "SAGEMAKER_TRITON_PING_MODE",
    "SAGEMAKER_TRITON_OVERRIDE_PING_MODE",
    "SAGEMAKER_TRITON_INFERENCE_TYPE",
    "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE",
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE",
    "SAGEMAKER_TRITON_TENSORFLOW_VERSION",
    "MMS_MAX_RESPONSE_SIZE",
    "TS_MAX_RESPONSE_SIZE",
    "MMS_JOB_QUEUE_SIZE",
    "TS_JOB_QUEUE_SIZE",
];

/// Offers the texts of foreign variables, best first.
pub(super) fn offer(
    environment: &dyn Environment,
    problems: &mut Vec<String>,
    offer: &mut dyn FnMut(Vec<Given>),
) {
    further_options(environment, problems, offer);
    for &(variable, means) in VARIABLES {
        let Some(text) = variable_text(environment, variable, problems) else { continue };
        match means.settings(&text) {
            Ok(settings) => offer(Vec::from_iter(settings.into_iter().map(|(name, value)| {
                Given { name, text: value, origin: Origin::Foreign(variable, text.clone()) }
            }))),
            Err(allowed) => {
                problems.push(format!("{variable}='{text}' (environment): expected {allowed}"));
            }
        }
    }
}

fn further_options(
    environment: &dyn Environment,
    problems: &mut Vec<String>,
    offer: &mut dyn FnMut(Vec<Given>),
) {
    let Some(text) = variable_text(environment, FURTHER_OPTIONS, problems) else { return };
    let mut inner = Vec::new();
    let typed = command_line::parse_words(words(&text), &mut inner);
    problems.extend(inner.into_iter().map(|it| format!("{FURTHER_OPTIONS} (environment): {it}")));
    let given = typed.into_iter().filter_map(|it| {
        let value = it.value.into_string().ok()?;
        let origin = Origin::Foreign(FURTHER_OPTIONS, value.clone());
        Some(Given { name: it.name, text: value, origin })
    });
    offer(given.collect());
}

/// What became of foreign variables: a line for those that were applied, one for those without effect,
/// one for those that nobody knows.
pub(super) fn notices(
    environment: &dyn Environment,
    given: &HashMap<&'static str, Vec<Given>>,
    notices: &mut Vec<Notice>,
) {
    let mut applied: Vec<String> = given
        .values()
        .flatten()
        .filter_map(|it| match &it.origin {
            Origin::Foreign(variable, _) => Some(format!("{variable}: --{} {}", it.name, it.text)),
            Origin::CommandLine | Origin::Own(_) | Origin::Triton => None,
        })
        .collect();
    applied.sort_unstable();
    if !applied.is_empty() {
        notices.push(Notice::info(format!("applied from the environment: {}", applied.join("; "))));
    }
    let mut names = environment.names();
    names.sort_unstable();
    let idle: Vec<&str> =
        names.iter().map(|it| &**it).filter(|it| WITHOUT_EFFECT.contains(it)).collect();
    if !idle.is_empty() {
        notices.push(Notice::info(format!("variables without effect: {}", idle.join(", "))));
    }
    let unknown: Vec<&str> = names
        .iter()
        .map(|it| &**it)
        .filter(|it| it.starts_with("SAGEMAKER_") && !is_known(it))
        .collect();
    if !unknown.is_empty() {
        notices.push(Notice::debug(format!("unknown variables: {}", unknown.join(", "))));
    }
}

fn is_known(name: &str) -> bool {
    VARIABLES.iter().any(|it| it.0 == name)
        || WITHOUT_EFFECT.contains(&name)
        || [FURTHER_OPTIONS, MODEL_PATH, BASE_DIR].contains(&name)
}

impl Means {
    /// The settings and their texts; none where the variable says nothing, and what is allowed where it
    /// cannot be read.
    fn settings(self, text: &str) -> Parse<Vec<(&'static str, String)>> {
        match self {
            Same(name) => Ok(vec![(name, text.to_owned())]),
            Megabytes(name) => match text.parse::<u32>() {
                // "No limit" to the platform; our own default stays as the guard.
                Ok(0) => Ok(vec![]),
                Ok(size) => Ok(vec![(name, format!("{size}MiB"))]),
                Err(_) => Err("a whole number of megabytes, 0 for no limit".to_owned()),
            },
            Seconds(name) => match text.parse::<i64>() {
                // "No limit" in most of these containers.
                Ok(seconds) if seconds <= 0 => Ok(vec![]),
                Ok(seconds) => Ok(vec![(name, seconds.saturating_mul(1000).to_string())]),
                Err(_) => Err("a whole number of seconds".to_owned()),
            },
            FirstOfList(name) => Ok(text
                .split(',')
                .next()
                .map(|it| (name, it.trim().to_owned()))
                .into_iter()
                .collect()),
            VertexMode(name) => {
                let predicts = text == vertex::PREDICTION;
                Ok(predicts.then(|| (name, "true".to_owned())).into_iter().collect())
            }
            PythonLevel => {
                let level = python_level(text)
                    .ok_or_else(|| "10, 20, 30, 40 or 50, or a name as info".to_owned())?;
                let switches = [
                    (level <= 10, "log-verbose", "1"),
                    (level > 20, "log-info", "false"),
                    (level > 30, "log-warning", "false"),
                    (level > 40, "log-error", "false"),
                ];
                let said = switches.into_iter().filter(|it| it.0);
                Ok(said.map(|(_, name, value)| (name, value.to_owned())).collect())
            }
        }
    }

    /// The setting that it is about; `None` for those about several.
    #[cfg(test)]
    fn name(self) -> Option<&'static str> {
        match self {
            Same(name) | Megabytes(name) | Seconds(name) | FirstOfList(name) | VertexMode(name) => {
                Some(name)
            }
            PythonLevel => None,
        }
    }
}

/// A level by number or name.
fn python_level(text: &str) -> Option<u32> {
    match &*text.to_ascii_lowercase() {
        "debug" => Some(10),
        "info" => Some(20),
        "warning" | "warn" => Some(30),
        "error" => Some(40),
        "critical" | "fatal" => Some(50),
        other => other.parse().ok(),
    }
}

/// Splits at blanks, but for those in quotes or behind a backslash. Nothing is expanded.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::flags;

    #[test]
    fn every_variable_means_a_setting_that_exists() {
        for (variable, name) in VARIABLES.iter().filter_map(|it| Some((it.0, it.1.name()?))) {
            assert!(flags::all_names().any(|it| it == name), "{variable}: --{name}");
        }
    }

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(words("--a 1  --b='x y' \"\" c\\ d"), ["--a", "1", "--b=x y", "", "c d"]);
        assert_eq!(words("  "), [""; 0]);
    }
}

//! The table of settings: name, default, help. Names and defaults are Triton's where it has the option.

mod access;
mod aws;
mod cache;
mod capture;
mod defaults;
mod grpc;
mod hosting;
mod limits;
mod log;
mod memory;
mod metrics;
mod models;
mod ports;
mod sagemaker;
mod scheduling;
mod server;
mod sessions;
mod stores;
mod tensorflow;
mod trace;
mod vertex;

/// One setting: the flag `--<name>` and the variable `MUSTER_<NAME>`.
pub(super) struct Setting {
    /// Without dashes in front.
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// The default as one would write it; empty where there is none, or where it depends.
    pub(super) default: &'static str,
    /// For `--help`.
    pub(super) help: &'static str,
    /// Its heading in `--help`.
    pub(super) section: &'static str,
}

/// How a setting is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// `--name value`; the last one counts.
    Value,
    /// As often as one likes; in a variable the values are separated by `;`.
    Many,
    /// `--name` alone is true.
    Switch,
}

const fn value(
    section: &'static str,
    name: &'static str,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, takes: Takes::Value, default, help, section }
}

const fn many(section: &'static str, name: &'static str, help: &'static str) -> Setting {
    Setting { name, takes: Takes::Many, default: "", help, section }
}

/// Every setting that does something, by section, in the order of `--help`.
const SECTIONS: &[&[Setting]] = &[
    server::SETTINGS,
    models::SETTINGS,
    defaults::SETTINGS,
    stores::SETTINGS,
    ports::SETTINGS,
    grpc::SETTINGS,
    sagemaker::SETTINGS,
    aws::SETTINGS,
    sessions::SETTINGS,
    hosting::SETTINGS,
    access::SETTINGS,
    vertex::SETTINGS,
    tensorflow::SETTINGS,
    memory::SETTINGS,
    limits::SETTINGS,
    scheduling::SETTINGS,
    metrics::SETTINGS,
    capture::SETTINGS,
    cache::SETTINGS,
    log::SETTINGS,
    trace::SETTINGS,
];

/// Every setting that does something.
pub(super) fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().copied().flatten()
}

/// Other spellings of a setting, in Triton. All HTTP ports have the same threads.
pub(super) const ALIASES: &[(&str, &str)] =
    &[("model-store", "model-repository"), ("sagemaker-thread-count", "http-thread-count")];

/// Triton's options that are taken and do nothing, and why.
pub(super) const WITHOUT_EFFECT: &[(&str, &[&str])] = &[
    (
        "the HTTP/2 library has no such setting",
        &[
            "grpc-keepalive-permit-without-calls",
            "grpc-http2-max-pings-without-data",
            "grpc-http2-min-recv-ping-interval-without-data",
            "grpc-http2-max-ping-strikes",
        ],
    ),
    ("not in this version", &["host-policy", "min-supported-compute-capability"]),
    (
        "not needed here",
        &[
            "vertex-ai-thread-count",
            "grpc-infer-thread-count",
            "grpc-infer-allocation-pool-size",
            "grpc-max-response-pool-size",
            "cache-directory",
            "backend-directory",
            "repoagent-directory",
            "pinned-memory-pool-byte-size",
            "cuda-memory-pool-byte-size",
            "cuda-virtual-address-size",
            "buffer-manager-thread-count",
            "enable-peer-access",
        ],
    ),
];

/// What of a setting's text may be shown: all of it, or what stands before a secret.
pub(super) fn shown<'a>(name: &str, text: &'a str) -> &'a str {
    match access::SECRET.contains(&name) {
        true => match text.find('=').or_else(|| text.find(':')) {
            Some(end) => text.get(..=end).unwrap_or_default(),
            None => "",
        },
        false => text,
    }
}

/// The setting of that name.
pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    settings().find(|it| it.name == name)
}

/// Names of all options that can be given, those without effect included.
pub(super) fn all_names() -> impl Iterator<Item = &'static str> {
    let without_effect = WITHOUT_EFFECT.iter().flat_map(|(_, names)| names.iter().copied());
    settings().map(|it| it.name).chain(ALIASES.iter().map(|it| it.0)).chain(without_effect)
}

/// `http-port` → `MUSTER_HTTP_PORT`.
pub(super) fn variable_of(name: &str) -> String {
    format!("MUSTER_{}", name.to_ascii_uppercase().replace('-', "_"))
}

//! The command line of Triton: its other spellings, its options without effect, its defaults.

use crate::{
    flags::{Alias, WithoutEffect},
    given::{Given, Origin},
    sources::Sources,
};

/// What the command of Triton's containers is called: with it in front, their command lines work as they are.
pub(crate) const COMMAND: &str = "tritonserver";

/// Other spellings of a setting. All HTTP ports have the same threads.
pub const ALIASES: &[Alias] =
    &[("model-store", "model-repository"), ("sagemaker-thread-count", "http-thread-count")];

/// Options that are taken and do nothing, and why.
pub const WITHOUT_EFFECT: &[WithoutEffect] = &[
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

/// Defaults that are others here, and that its users would miss.
const DEFAULTS: [(&str, &str); 4] = [
    ("allow-sagemaker", "false"),
    ("log-format", "default"),
    ("allow-remote-administration", "true"),
    ("health-bodies", "false"),
];

/// Called as `tritonserver`: settings that are not given have the defaults of Triton.
pub fn offer_defaults(sources: &mut Sources<'_>) {
    let given =
        |(name, text): (&'static str, &str)| Given::new(name, text.to_owned(), Origin::Triton);
    sources.offer(DEFAULTS.map(given).into());
}

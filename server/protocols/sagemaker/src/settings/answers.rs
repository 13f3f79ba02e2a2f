//! Settings of the answers that a hosting platform gets beside inference.

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("sagemaker-ping-mode", "ready", "/ping is answered with 200 when the default model is ready, or, in the mode live, as soon as the port is open").named("MODE"),
    Flag::boolean("sagemaker-echo-custom-attributes", "true", "Give X-Amzn-SageMaker-Custom-Attributes back with the reply; the platform hands on only what the container gives back"),
    Flag::value("sagemaker-max-payload-mb", "6", "MaxPayloadInMB, as /execution-parameters tells it; lowered so that it and MaxConcurrentTransforms make at most 100 MB").named("MEGABYTES"),
];

/// How the platform is answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostingSettings {
    /// `--sagemaker-ping-mode`.
    pub ping: PingMode,
    /// `--sagemaker-echo-custom-attributes`.
    pub echo_attributes: bool,
    /// `--sagemaker-max-payload-mb`: the payload that batch jobs are advised to send, before its product with the
    /// requests is limited. At least 1.
    pub max_payload_mb: u64,
}

/// When `/ping` is answered with 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingMode {
    /// When inference is.
    Ready,
    /// As soon as anything is.
    Live,
}

/// Reads it.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> HostingSettings {
    let echo = sources.read("sagemaker-echo-custom-attributes", value::boolean, problems);
    let ping = sources.read("sagemaker-ping-mode", ping_mode, problems);
    let payload = sources.read("sagemaker-max-payload-mb", value::count, problems);
    HostingSettings {
        ping: ping.unwrap_or(PingMode::Ready),
        echo_attributes: echo.unwrap_or(true),
        max_payload_mb: payload.and_then(|it| it.get().try_into().ok()).unwrap_or(6),
    }
}

fn ping_mode(text: &str) -> Parse<PingMode> {
    match &*text.to_ascii_lowercase() {
        "ready" => Ok(PingMode::Ready),
        "live" => Ok(PingMode::Live),
        _ => Err("ready or live".to_owned()),
    }
}

//! Settings of the server's start, stop and readiness.

use std::time::Duration;

use configuration::{Flag, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("exit-on-error", "false", "End the start when a model fails to load. Triton's default is true; here what loaded is served, and readiness tells"),
    Flag::boolean("strict-readiness", "true", "Ready only when every model asked for at the start is"),
    Flag::value("exit-timeout-secs", "25", "Time from SIGTERM to the end, all steps together. Platforms kill after 30 s, so the default is less than Triton's 30").named("SECONDS"),
    Flag::value("drain-delay-secs", "2", "Time after SIGTERM in which requests are still taken, while readiness says no; part of the exit timeout").named("SECONDS"),
];

/// Start, stop, readiness.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifecycle {
    /// `--exit-on-error`: one model that fails to load ends the start.
    pub exit_on_error: bool,
    /// `--strict-readiness`: ready only when every model of the start is.
    pub strict_readiness: bool,
    /// `--exit-timeout-secs`: from the signal to the end, all steps together.
    pub exit_timeout: Duration,
    /// `--drain-delay-secs`: from the signal to the moment that ports close; not ready, still serving.
    /// Part of `exit_timeout`.
    pub drain_delay: Duration,
}

impl Lifecycle {
    /// How long running work may go on after nothing new is accepted. The rest of the time is for writing its
    /// results.
    pub fn patience(&self) -> Duration {
        self.exit_timeout.saturating_sub(self.drain_delay).mul_f64(0.8)
    }
}

/// Reads the settings.
pub(super) fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Lifecycle {
    let exit_timeout = sources
        .read("exit-timeout-secs", value::seconds, problems)
        .unwrap_or(Duration::from_secs(25));
    let drain_delay = sources.read("drain-delay-secs", value::seconds, problems);
    if let (Some(given), Some(delay)) = (sources.last("drain-delay-secs"), drain_delay)
        && delay > exit_timeout
    {
        problems.push(format!(
            "{given}: expected no more than --exit-timeout-secs, {}, of which it is a part",
            exit_timeout.as_secs_f64()
        ));
    }
    Lifecycle {
        exit_on_error: sources.read("exit-on-error", value::boolean, problems).unwrap_or(false),
        strict_readiness: sources
            .read("strict-readiness", value::boolean, problems)
            .unwrap_or(true),
        exit_timeout,
        drain_delay: drain_delay.unwrap_or(Duration::from_secs(2).min(exit_timeout)),
    }
}

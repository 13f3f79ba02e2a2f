//! Limits of the bytes, connections and time that clients may use.

use std::{num::NonZeroUsize, time::Duration};

use configuration::{Flag, Notice, Sources, value};
use machine::Machine;

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("http-max-input-size", "1GiB", "Largest body in bytes, without the raw tensors behind JSON, which --max-inflight-bytes bounds. Lowered to --max-inflight-bytes where that is less and this is not given").named("BYTES"),
    Flag::value("max-inflight-bytes", "", "Bytes of all bodies and replies in memory at one time. Default: a quarter of the memory of the machine or container").named("BYTES"),
    Flag::value("max-connections", "", "Open connections, all ports together. Default: by the limit of open files, at most 65536").named("COUNT"),
    Flag::value("header-timeout-secs", "10", "Time for the headers of a request").named("SECONDS"),
    Flag::value("idle-timeout-secs", "75", "Time that a connection may be idle between requests").named("SECONDS"),
    Flag::value("body-grace-secs", "10", "Time that every body has to arrive").named("SECONDS"),
    Flag::value("body-min-rate", "1KiB", "Bytes per second: a body gets a further second for each such amount that has arrived, or for a 120th of all that has where that is more; 0 for no limit of time").named("BYTES"),
    Flag::boolean("http-compression", "true", "Take bodies in gzip and deflate, and send replies so to clients that ask for it"),
];

/// Limits of the resources that clients may use.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitSettings {
    /// `--http-max-input-size`: bytes of one body. At most `inflight_bytes`.
    pub body_bytes: u64,
    /// `--max-inflight-bytes`: bytes of all bodies and replies in memory at one time.
    pub inflight_bytes: u64,
    /// `--max-connections`: open connections, all ports together.
    pub connections: NonZeroUsize,
    /// The longest times that a peer may take.
    pub timeouts: Timeouts,
    /// The lowest rate at which a body may arrive.
    pub body_pace: BodyPace,
    /// `--http-compression`: may bodies and replies be compressed?
    pub http_compression: bool,
}

/// The longest times that a peer may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timeouts {
    /// `--idle-timeout-secs`: between two requests, or without a call.
    pub idle: Duration,
    /// `--header-timeout-secs`: from the first byte of a request's head to its last, or from the start of a connection
    /// to the preface of HTTP/2.
    pub head: Duration,
    /// While a part of a reply waits and the peer takes nothing of it.
    pub stall: Duration,
}

/// The lowest rate at which a body may arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BodyPace {
    /// `--body-grace-secs`: time that every body has.
    pub grace: Duration,
    /// `--body-min-rate`: bytes per second that earn more time; 0 for no limit at all.
    pub bytes_per_second: u64,
}

impl BodyPace {
    /// How long a body may have taken by the time that `received` bytes of it have come; `None` for any time.
    ///
    /// A second is earned by [`BodyPace::bytes_per_second`], or by the `DOUBLING`th part of what has come where that
    /// is more: a body must come the faster the more memory it holds, so that the time grows by its logarithm only.
    pub fn allowed(&self, received: u64) -> Option<Duration> {
        let earned = received.checked_div(self.bytes_per_second)?;
        let earned = match earned.checked_div(DOUBLING).filter(|&it| 1 <= it) {
            None => Duration::from_secs(earned),
            Some(_) => {
                let times = earned as f64 / DOUBLING as f64;
                Duration::from_secs_f64(DOUBLING as f64 * (1.0 + times.ln()))
            }
        };
        Some(self.grace.saturating_add(earned))
    }
}

/// A body that holds memory must come so fast that it would come once more within that many seconds.
const DOUBLING: u64 = 120;

const GIB: u64 = 1 << 30;

/// The body limit of a server with memory to spare. See the setting's help for why it is not 64 MiB.
const BODY_LIMIT: u64 = GIB;

/// The budget for bodies where the memory limit is unknown.
const UNKNOWN_MEMORY_BUDGET: u64 = GIB;

/// Connections cost some 2 KiB each even when idle; how many can be in use at one time is a matter of their memory.
const MOST_CONNECTIONS: u64 = 65_536;

/// File descriptors for models, logs and listeners, which connections must leave.
const RESERVED_FILES: u64 = 256;

/// Reads the limits.
pub fn resolve(
    sources: &mut Sources,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> LimitSettings {
    let (body_bytes, inflight_bytes) = bytes_limits(sources, machine, problems);
    let by_files = machine.open_files.map_or(MOST_CONNECTIONS, |files| {
        files.saturating_sub(RESERVED_FILES.min(files / 2)).min(MOST_CONNECTIONS)
    });
    let by_files = usize::try_from(by_files).ok().and_then(NonZeroUsize::new);
    let mut time = |name, parse: fn(&str) -> value::Parse<Duration>, default| {
        sources.read(name, parse, problems).unwrap_or(Duration::from_secs(default))
    };
    let head = time("header-timeout-secs", value::seconds_above_zero, 10);
    let idle = time("idle-timeout-secs", value::seconds_above_zero, 75);
    let grace = time("body-grace-secs", value::seconds_above_zero, 10);
    LimitSettings {
        body_bytes,
        inflight_bytes,
        connections: sources
            .read("max-connections", value::places, problems)
            .or(by_files)
            .unwrap_or(NonZeroUsize::MIN),
        timeouts: Timeouts { idle, head, stall: idle },
        body_pace: BodyPace {
            grace,
            bytes_per_second: sources.read("body-min-rate", value::bytes, problems).unwrap_or(1024),
        },
        http_compression: sources
            .read("http-compression", value::boolean, problems)
            .unwrap_or(true),
    }
}

/// The limit of one body and that of all of them. One body must fit into the budget, because otherwise its client
/// would retry for ever. A default yields to a given limit.
fn bytes_limits(
    sources: &mut Sources,
    machine: &Machine,
    problems: &mut Vec<String>,
) -> (u64, u64) {
    let body = sources.read("http-max-input-size", value::bytes_from_one, problems);
    let budget = sources.read("max-inflight-bytes", value::bytes_from_one, problems);
    let by_memory = machine.memory.map_or(UNKNOWN_MEMORY_BUDGET, |it| it / 4).max(1);
    match (body, budget) {
        (Some(body), Some(budget)) => {
            let given = sources.last("http-max-input-size").filter(|_| body > budget);
            let other = sources.last("max-inflight-bytes");
            if let (Some(given), Some(other)) = (given, other) {
                problems.push(format!("{given}: expected no more than {other}"));
            }
            (body, budget)
        }
        (Some(body), None) => {
            if body > by_memory {
                sources.notices.push(Notice::warning(format!(
                    "the body limit of {body} bytes is more than a quarter of the memory ({}); the \
                     budget for all bodies (--max-inflight-bytes) is raised to it",
                    machine.memory_reason
                )));
            }
            (body, by_memory.max(body))
        }
        (None, budget) => {
            let budget = budget.unwrap_or(by_memory);
            (BODY_LIMIT.min(budget), budget)
        }
    }
}

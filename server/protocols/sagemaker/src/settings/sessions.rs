//! Stateful sessions: whether there are any, how many, for how long.

use std::{num::NonZeroUsize, time::Duration};

use configuration::{Flag, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("sessions", "false", "Take stateful sessions on /invocations (X-Amzn-SageMaker-Session-Id)"),
    Flag::value("session-ttl", "1200", "Seconds from the opening of a session to its end").named("SECONDS"),
    Flag::value("max-sessions", "10000", "Sessions open at once").named("COUNT"),
];

const LIFE: Duration = Duration::from_secs(1200);
const MOST: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is above 0");

/// Sessions, where they are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSettings {
    /// `--session-ttl`, `SAGEMAKER_SESSIONS_EXPIRATION`: from the opening of a session to its end.
    pub life: Duration,
    /// `--max-sessions`: open at once.
    pub most: NonZeroUsize,
}

/// Reads them; `None` without `--sessions`.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Option<SessionSettings> {
    let life = sources.read("session-ttl", value::seconds_above_zero, problems);
    let most = sources.read("max-sessions", value::count, problems);
    let is_on = sources.read("sessions", value::boolean, problems).unwrap_or(false);
    is_on.then(|| SessionSettings { life: life.unwrap_or(LIFE), most: most.unwrap_or(MOST) })
}

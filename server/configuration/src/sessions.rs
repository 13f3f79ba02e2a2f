//! Stateful sessions: whether there are any, how many, for how long.

use std::{num::NonZeroUsize, time::Duration};

use super::{sources::Sources, value};

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
pub(super) fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Option<SessionSettings> {
    let life = sources.read("session-ttl", value::seconds_above_zero, problems);
    let most = sources.read("max-sessions", value::count, problems);
    let is_on = sources.read("sessions", value::boolean, problems).unwrap_or(false);
    is_on.then(|| SessionSettings { life: life.unwrap_or(LIFE), most: most.unwrap_or(MOST) })
}

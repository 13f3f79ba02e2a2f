//! How models are loaded and run, as far as the server decides it.

use std::{num::NonZeroUsize, sync::Arc};

use crate::settings::{model_defaults::ModelDefaults, repository::Repository};
use machine::gpus::Gpus;
use schedule::{Busy, SchedulingSettings, Watchdog, ratelimit::RateLimiter};

/// How models are loaded and run, as far as the server decides it.
#[derive(Debug, Clone)]
pub struct LoadSettings {
    /// What a model gets that does not say.
    pub defaults: ModelDefaults,
    /// Completion, settings of engines, parallel loads.
    pub repository: Repository,
    /// Processors to share out.
    pub cpus: NonZeroUsize,
    /// GPUs to run on.
    pub gpus: Gpus,
    /// How requests wait and run.
    pub scheduling: SchedulingSettings,
    /// Ends runs that take too long.
    pub watchdog: Arc<Watchdog>,
    /// Knows what they run.
    pub busy: Busy,
    /// Does the server keep answers?
    pub has_cache: bool,
    /// May there be several hundred models? Small ones then have no threads of their own inside a run.
    pub has_many_models: bool,
    /// Lets instances run whose configuration names resources; `None` where rate limiting is off.
    pub rate_limiter: Option<Arc<RateLimiter>>,
}

//! How models are loaded and run, as far as the server decides it.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use crate::settings::{model_defaults::ModelDefaults, repository::Repository};
use machine::gpus::Gpus;
use schedule::{admission::LongestStay, ratelimit::RateLimiter};

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
    /// How long a request may stay.
    pub longest_stay: LongestStay,
    /// Runs shorter than this are made where the request was read. Zero: none.
    pub caller_runs_below: Duration,
    /// Longest that a worker without work looks for some before it sleeps. Zero: it sleeps at once.
    pub spin: Duration,
    /// Jobs that must wait before the first batch runs; 0 but in tests.
    pub hold: usize,
    /// Does the server keep answers?
    pub has_cache: bool,
    /// May there be several hundred models? Small ones then have no threads of their own inside a run.
    pub has_many_models: bool,
    /// Who lets instances run whose configuration names resources; `None`: nobody looks at them.
    pub rate_limiter: Option<Arc<RateLimiter>>,
}

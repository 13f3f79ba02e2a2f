//! What has been counted of a model version: plain numbers, which metrics fill and protocols write.

/// A number of events and the time that they took together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Total {
    /// How many.
    pub count: u64,
    /// How long, in nanoseconds.
    pub ns: u64,
}

/// The statistics of one model version since it was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// When a request was last answered, in milliseconds since 1970; 0 for never.
    pub last_inference_ms: u64,
    /// Rows of all requests that were answered by running the model.
    pub inference_count: u64,
    /// Runs of the model.
    pub execution_count: u64,
    /// Requests that were answered, cached ones included: from acceptance to the response.
    pub success: Total,
    /// Requests that were not answered with a result, those that were refused at once included; not those that fit no
    /// model, which are not counted.
    pub fail: Total,
    /// From acceptance to the start of the run, or to the look into the cache where it held the answer.
    pub queue: Total,
    /// Gathering inputs.
    pub compute_input: Total,
    /// The engine.
    pub compute_infer: Total,
    /// Scattering outputs.
    pub compute_output: Total,
    /// Answers from the cache.
    pub cache_hit: Total,
    /// Looks into the cache that found nothing, and what was put in.
    pub cache_miss: Total,
    /// By the rows of a run, ascending.
    pub batches: Vec<BatchStatistics>,
    /// Of a decoupled model: its responses by their place in the answer, ascending; the first ones.
    pub responses: Vec<ResponseStatistics>,
    /// Memory that the model takes, where that is known.
    pub memory: Vec<MemoryUsage>,
}

/// The runs of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchStatistics {
    /// Rows of the whole run.
    pub rows: u64,
    /// Gathering inputs.
    pub compute_input: Total,
    /// The engine.
    pub compute_infer: Total,
    /// Scattering outputs.
    pub compute_output: Total,
}

/// The responses of a decoupled model at one place of its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseStatistics {
    /// Their number within their answers, from 0 on.
    pub place: usize,
    /// From the response before, or from the acceptance of the request; those that were cancelled are left out.
    pub compute_infer: Total,
    /// Those that were given.
    pub compute_output: Total,
    /// Those that were given.
    pub success: Total,
    /// Errors.
    pub fail: Total,
    /// Ends of answers that came by themselves.
    pub empty_response: Total,
    /// Those that nobody waited for any more.
    pub cancel: Total,
}

/// Memory of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUsage {
    /// `CPU`, `CPU_PINNED` or `GPU`.
    pub kind: &'static str,
    /// Number of the device.
    pub id: i64,
    /// Bytes.
    pub bytes: u64,
}

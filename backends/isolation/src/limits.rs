//! What a model's configuration says of what its worker may take: memory, and requests before another takes its place.

use backend::{BackendError, MODEL_STACK, ModelSource};
use rustix::process::{Resource, Rlimit};

/// The most private memory of a worker.
const LIMIT: &str = "MEMORY_LIMIT_BYTES";

/// No engine comes up in less memory. A smaller bound is a number of megabytes, or a slip.
const LEAST: u64 = 16 << 20;

/// With more private memory a worker is replaced.
pub(crate) const RECYCLE_ABOVE: &str = "MEMORY_RECYCLE_BYTES";

/// After so many requests, too.
pub(crate) const RECYCLE_AFTER: &str = "RECYCLE_AFTER_REQUESTS";

/// What a worker may take; `None` for any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WorkerLimits {
    /// Bytes of memory beyond that are refused to the worker.
    pub(crate) most: Option<u64>,
    /// When another takes its place.
    pub(crate) recycling: Recycling,
}

/// When another worker takes the place of one that works; never where there is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Recycling {
    /// Once it has more private bytes.
    pub(crate) above_bytes: Option<u64>,
    /// Once it has answered so many requests.
    pub(crate) after_requests: Option<u64>,
}

impl WorkerLimits {
    /// Those of a model.
    ///
    /// # Errors
    /// [`BackendError::Load`] for what is no number of bytes, or of requests, and for a bound in which no engine comes
    /// up.
    pub(crate) fn of(source: &ModelSource) -> Result<WorkerLimits, BackendError> {
        let number = |name: &str, what: &str| {
            let given = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            let Some((_, text)) = given else { return Ok(None) };
            let number = text.trim().parse::<u64>().ok().filter(|it| 0 < *it);
            number.map(Some).ok_or_else(|| {
                BackendError::Load(format!(
                    "model '{}': parameter '{name}': expected a number of {what} above 0, given '{text}'",
                    source.name
                ))
            })
        };
        let above_bytes = number(RECYCLE_ABOVE, "bytes")?;
        let after_requests = number(RECYCLE_AFTER, "requests")?;
        let recycling = Recycling { above_bytes, after_requests };
        let most = number(LIMIT, "bytes")?;
        if let Some(bytes) = most.filter(|it| *it < LEAST) {
            return Err(BackendError::Load(format!(
                "model '{}': parameter '{LIMIT}': expected at least {LEAST} bytes, as no engine comes up in less; given \
                 '{bytes}'",
                source.name
            )));
        }
        Ok(WorkerLimits { most, recycling })
    }

    /// Do they bound the worker's memory?
    pub(crate) fn bound_memory(self) -> bool {
        self.most.is_some() || self.recycling.above_bytes.is_some()
    }

    /// The names of those that are set.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let memory = self.most.map(|_| LIMIT);
        memory.into_iter().chain(self.recycling.names()).collect()
    }

    /// Refuses to replace the workers of a model that keeps state: another would not have it.
    ///
    /// # Errors
    /// [`BackendError::Load`].
    pub(crate) fn check_state(self, model: &str, keeps_state: bool) -> Result<(), BackendError> {
        match self.recycling.names().next().filter(|_| keeps_state) {
            None => Ok(()),
            Some(name) => Err(BackendError::Load(format!(
                "model '{model}': parameter '{name}': its runs leave something behind for later ones, which \
                 another process would not have; leave the parameter out"
            ))),
        }
    }
}

impl Recycling {
    /// The names of what is set.
    fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [(RECYCLE_ABOVE, self.above_bytes), (RECYCLE_AFTER, self.after_requests)];
        all.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name)
    }
}

/// The bound of this process's private memory, in a worker. Stacks of threads that run models do not count: little is
/// used of what they reserve.
#[derive(Debug, Default)]
pub(crate) struct MemoryBound(Option<u64>);

impl MemoryBound {
    /// From now on the process has what the model's configuration says, and the stack of a thread.
    pub(crate) fn begin(&mut self, source: &ModelSource) {
        // The server has looked at the parameters: they are right.
        self.0 = WorkerLimits::of(source).ok().and_then(|it| it.most);
        self.add_thread();
    }

    /// One more thread that runs the model.
    pub(crate) fn add_thread(&mut self) {
        let Some(bytes) = &mut self.0 else { return };
        *bytes = bytes.saturating_add(MODEL_STACK as u64);
        let maximum = rustix::process::getrlimit(Resource::Data).maximum;
        let current = Some(maximum.map_or(*bytes, |it| it.min(*bytes)));
        if let Err(error) = rustix::process::setrlimit(Resource::Data, Rlimit { current, maximum })
        {
            eprintln!("WARN {LIMIT} has no effect: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, value: &str) -> Result<WorkerLimits, BackendError> {
        let mut source = ModelSource::new("m", "/m");
        source.options.insert(key.into(), value.into());
        WorkerLimits::of(&source)
    }

    #[test]
    fn all_are_numbers_above_zero_however_their_names_are_written() {
        let none = WorkerLimits::default();
        assert_eq!(of("other", "x"), Ok(none));
        assert_eq!(of(LIMIT, " 16777216 "), Ok(WorkerLimits { most: Some(LEAST), ..none }));
        let recycling = |it| Ok(WorkerLimits { recycling: it, ..none });
        let above = Recycling { above_bytes: Some(8), ..Recycling::default() };
        assert_eq!(of("memory_recycle_bytes", "8"), recycling(above));
        let after = Recycling { after_requests: Some(9), ..Recycling::default() };
        assert_eq!(of("recycle_after_requests", "9"), recycling(after));
        for (name, what) in
            [(LIMIT, "bytes"), (RECYCLE_ABOVE, "bytes"), (RECYCLE_AFTER, "requests")]
        {
            for wrong in ["", "0", "-1", "1GB"] {
                let expected = format!(
                    "model 'm': parameter '{name}': expected a number of {what} above 0, given '{wrong}'"
                );
                assert_eq!(of(name, wrong), Err(BackendError::Load(expected)));
            }
        }
    }

    #[test]
    fn a_bound_of_memory_in_which_no_engine_comes_up_is_refused_by_its_name() {
        for few in ["1", "512", "16777215"] {
            let expected = format!(
                "model 'm': parameter 'MEMORY_LIMIT_BYTES': expected at least 16777216 bytes, as no engine comes up in \
                 less; given '{few}'"
            );
            assert_eq!(of(LIMIT, few), Err(BackendError::Load(expected)));
        }
    }

    #[test]
    fn the_process_of_a_model_that_keeps_state_is_not_replaced() {
        for name in [RECYCLE_ABOVE, RECYCLE_AFTER] {
            let limits = of(name, "8").unwrap();
            assert_eq!(limits.names(), [name]);
            assert!(limits.check_state("m", true).unwrap_err().to_string().contains(name));
            assert_eq!(limits.check_state("m", false), Ok(()));
        }
        assert_eq!(of(LIMIT, "16777216").unwrap().check_state("m", true), Ok(()));
    }
}

//! What a model's configuration says of the memory of its worker.

use backend::{BackendError, MODEL_STACK, ModelSource};
use rustix::process::{Resource, Rlimit};

/// The most private memory of a worker.
const LIMIT: &str = "MEMORY_LIMIT_BYTES";

/// With more private memory a worker is replaced.
const RECYCLE: &str = "MEMORY_RECYCLE_BYTES";

/// The memory that a worker may take, in bytes; `None` for any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemoryLimits {
    /// Memory beyond that is refused to the worker.
    pub(crate) most: Option<u64>,
    /// Above that another takes its place.
    pub(crate) recycle_above: Option<u64>,
}

impl MemoryLimits {
    /// Those of a model.
    ///
    /// # Errors
    /// [`BackendError::Load`] for what is no number of bytes.
    pub(crate) fn of(source: &ModelSource) -> Result<MemoryLimits, BackendError> {
        let bytes = |name: &str| {
            let given = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            let Some((_, text)) = given else { return Ok(None) };
            let bytes = text.trim().parse::<u64>().ok().filter(|it| 0 < *it);
            bytes.map(Some).ok_or_else(|| {
                BackendError::Load(format!(
                    "model '{}': parameter '{name}': expected a number of bytes above 0, given '{text}'",
                    source.name
                ))
            })
        };
        Ok(MemoryLimits { most: bytes(LIMIT)?, recycle_above: bytes(RECYCLE)? })
    }

    /// The names of those that are set.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let all = [(LIMIT, self.most), (RECYCLE, self.recycle_above)];
        all.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect()
    }

    /// Refuses to replace the workers of a model that keeps state: another would not have it.
    ///
    /// # Errors
    /// [`BackendError::Load`].
    pub(crate) fn check_state(self, model: &str, keeps_state: bool) -> Result<(), BackendError> {
        match self.recycle_above.filter(|_| keeps_state) {
            None => Ok(()),
            Some(_) => Err(BackendError::Load(format!(
                "model '{model}': parameter '{RECYCLE}': its runs leave something behind for later ones, which \
                 another process would not have; leave the parameter out"
            ))),
        }
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
        self.0 = MemoryLimits::of(source).ok().and_then(|it| it.most);
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

    fn of(key: &str, value: &str) -> Result<MemoryLimits, BackendError> {
        let mut source = ModelSource::new("m", "/m");
        source.options.insert(key.into(), value.into());
        MemoryLimits::of(&source)
    }

    #[test]
    fn both_are_numbers_of_bytes_however_their_names_are_written() {
        let none = MemoryLimits::default();
        assert_eq!(of("other", "x"), Ok(none));
        assert_eq!(of(LIMIT, " 7 "), Ok(MemoryLimits { most: Some(7), ..none }));
        assert_eq!(
            of("memory_recycle_bytes", "8"),
            Ok(MemoryLimits { recycle_above: Some(8), ..none })
        );
        for wrong in ["", "0", "-1", "1GB"] {
            let error = of(LIMIT, wrong).unwrap_err().to_string();
            let expected = format!("expected a number of bytes above 0, given '{wrong}'");
            assert!(error.contains(LIMIT) && error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn the_process_of_a_model_that_keeps_state_is_not_replaced() {
        let limits = of(RECYCLE, "8").unwrap();
        assert_eq!(limits.names(), [RECYCLE]);
        assert!(limits.check_state("m", true).unwrap_err().to_string().contains(RECYCLE));
        assert_eq!(limits.check_state("m", false), Ok(()));
        assert_eq!(of(LIMIT, "8").unwrap().check_state("m", true), Ok(()));
    }
}

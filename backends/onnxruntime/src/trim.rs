//! How the instances of a model learn that memory is scarce: by a count that the model raises, and that each of them
//! compares with what it has seen.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// How often the instances of a model were to give memory back. Any thread may raise it.
#[derive(Debug, Default)]
pub(crate) struct Trims(Arc<AtomicU64>);

/// The same, as one instance sees it.
#[derive(Debug)]
pub(crate) struct SeenTrims {
    asked: Arc<AtomicU64>,
    seen: u64,
}

impl Trims {
    /// From now on the next run of each instance is to give memory back.
    pub(crate) fn ask(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// For an instance that has kept nothing yet.
    pub(crate) fn of_instance(&self) -> SeenTrims {
        SeenTrims { asked: self.0.clone(), seen: self.0.load(Relaxed) }
    }
}

impl SeenTrims {
    /// Is the run that begins to give memory back? True once for any number of times that it was asked for meanwhile.
    pub(crate) fn is_due(&mut self) -> bool {
        let asked = self.asked.load(Relaxed);
        std::mem::replace(&mut self.seen, asked) != asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_trims_once_for_what_was_asked_since_its_last_run() {
        let trims = Trims::default();
        let (mut one, mut other) = (trims.of_instance(), trims.of_instance());
        assert!(!one.is_due());
        trims.ask();
        trims.ask();
        assert!(one.is_due() && !one.is_due());
        assert!(other.is_due() && !other.is_due());
        assert!(!trims.of_instance().is_due());
    }
}

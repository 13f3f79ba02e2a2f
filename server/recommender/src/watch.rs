//! What looks at the steps of a job while it is being done.

use std::{fmt, sync::Arc};

use crate::step::Step;

/// Is shown each step as soon as it is over; nothing by default.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<Watching>>);

type Watching = dyn Fn(&Step) + Send + Sync;

impl Watch {
    /// Calls this for each step.
    pub fn new(watching: impl Fn(&Step) + Send + Sync + 'static) -> Watch {
        Watch(Some(Arc::new(watching)))
    }

    /// Shows a step.
    pub(crate) fn show(&self, step: &Step) {
        if let Some(watching) = &self.0 {
            watching(step);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

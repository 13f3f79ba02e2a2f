//! What looks at the steps of a job while it is being done.

use std::{fmt, sync::Arc};

use crate::step::Step;

/// Is shown each step as soon as it is over, and told of its windows before; nothing by default.
#[derive(Clone, Default)]
pub struct Watch {
    watching: Option<Arc<Watching>>,
    telling: Option<Arc<Telling>>,
}

type Watching = dyn Fn(&Step) + Send + Sync;
type Telling = dyn Fn(&str) + Send + Sync;

impl Watch {
    /// Calls this for each step.
    pub fn new(watching: impl Fn(&Step) + Send + Sync + 'static) -> Watch {
        Watch { watching: Some(Arc::new(watching)), telling: None }
    }

    /// The same, which calls that with a line for each window of a step.
    pub fn telling(self, telling: impl Fn(&str) + Send + Sync + 'static) -> Watch {
        Watch { telling: Some(Arc::new(telling)), ..self }
    }

    /// Shows a step.
    pub(crate) fn show(&self, step: &Step) {
        if let Some(watching) = &self.watching {
            watching(step);
        }
    }

    /// Tells of a window.
    pub(crate) fn tell(&self, line: &str) {
        if let Some(telling) = &self.telling {
            telling(line);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

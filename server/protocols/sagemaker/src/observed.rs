//! Records of an invocation: counts for lines of metrics, and captured data. Both are off by default, and cost
//! nothing then.

use std::sync::Arc;

use crate::{emf::Invocation, front::Hosting};
use frontend::{
    exchange::rendering::Rendering,
    http::{answer::Answer, captures, parts::Parts},
};
use serving::ServedModel;
use telemetry::capture::Captured;

/// An invocation that has begun.
pub struct Observed {
    counted: Option<Invocation>,
    captured: Option<Arc<Captured>>,
}

impl Observed {
    /// Begins the records of an invocation of that model.
    pub fn begin(hosting: &Hosting<'_>, model: &ServedModel, parts: &Parts) -> Observed {
        let name = &model.shown_name;
        let counted = hosting.recorder.as_ref().map(|it| it.begin(name));
        let captured = captures::begin(hosting.http, model, parts, None);
        Observed { counted, captured }
    }

    /// The capture that takes the body before it is decoded; `None` where this invocation is not captured.
    pub fn captured(&self) -> Option<Arc<Captured>> {
        self.captured.clone()
    }

    /// Records the answer. A failure is counted but not captured, because it has no output.
    pub fn end(self, answer: &mut Answer) {
        let Observed { counted, captured } = self;
        captures::end(captured, answer);
        let Some(mut counted) = counted else { return };
        match answer {
            Ok(response) => {
                counted.answered(response.status().as_u16());
                response.body_mut().keep(counted);
            }
            Err(failure) => counted.answered(Rendering::of(&failure.error).http.as_u16()),
        }
    }
}

//! The sequences of a model as those see them who open and close them in place of its clients; those of an ensemble
//! are its members'.

use crate::serving::served::{Engine, ServedModel};
use inference::request::SequenceId;

impl ServedModel {
    /// Can a sequence have that id?
    pub fn takes_sequence(&self, id: &SequenceId) -> bool {
        match &self.engine {
            Engine::Sequences(scheduler) => scheduler.takes(id),
            Engine::Instances(_) => true,
            Engine::Ensemble(_) => self.members().iter().all(|it| it.takes_sequence(id)),
        }
    }

    /// Is there an open sequence of that id? Never where the model takes no sequences.
    pub fn has_sequence(&self, id: &SequenceId) -> bool {
        match &self.engine {
            Engine::Sequences(scheduler) => scheduler.is_open(id),
            Engine::Instances(_) => false,
            Engine::Ensemble(_) => self.members().iter().any(|it| it.has_sequence(id)),
        }
    }

    /// Ends the sequence of that id once its requests are answered. The model itself is not told, as when a sequence
    /// has been idle for too long: there is no request to tell it with.
    pub fn leave_sequence(&self, id: &SequenceId) {
        match &self.engine {
            Engine::Sequences(scheduler) => scheduler.leave(id),
            Engine::Instances(_) => {}
            Engine::Ensemble(_) => self.members().iter().for_each(|it| it.leave_sequence(id)),
        }
    }

    /// The members of an ensemble, as far as they are there.
    fn members(&self) -> Vec<std::sync::Arc<ServedModel>> {
        let Engine::Ensemble(ensemble) = &self.engine else { return Vec::new() };
        let resolved = ensemble.resolve().map(|it| it.members).unwrap_or_default();
        resolved.into_iter().map(|it| it.model).collect()
    }
}

//! Models that serve follow the processors of this process: those whose instances or threads the server has chosen get
//! the ones that it would choose now.

use std::sync::Arc;

use crate::{
    lifecycle::{
        converge::{Converger, Target},
        decide::decide,
    },
    load::placement::Plan,
};
use inference::error::Error;
use machine::Machine;
use serving::{
    lock::lock,
    manager::Versions,
    model_id::ModelId,
    served::{Dispatch, ServedModel},
    state::Reason,
};

/// A model may take so many times as much memory as its files.
const TIMES_FILES: u64 = 2;

/// What becomes of a model version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// It gets more or fewer instances.
    Instances,
    /// It is loaded again, beside itself: threads of a session cannot change.
    Reload,
}

/// From one plan to another.
fn change(before: &Plan, now: &Plan) -> Change {
    match (before.threads == now.threads, before.devices == now.devices) {
        (true, true) => Change::Nothing,
        (true, false) => Change::Instances,
        (false, _) => Change::Reload,
    }
}

impl Converger {
    /// Brings every model that serves to the processors that there are now, one after the other. Blocking.
    pub(super) fn adapt_all(&self) {
        for id in self.table.ids() {
            if let Err(reason) = self.adapt(&id) {
                tracing::warn!(
                    model = %id,
                    "it keeps the instances and threads that it has until it is loaded anew: {reason}"
                );
            }
        }
    }

    fn adapt(&self, id: &ModelId) -> Result<(), Error> {
        let shared = self.table.record(id);
        let mut record = lock(&shared);
        let serving = self.manager.serving(id);
        if !serving.values().any(|it| self.is_due(it)) {
            return Ok(());
        }
        let given = record.given.clone();
        let found = self.found(id, given.as_ref())?;
        // Nothing is loaded that was not asked for: what has changed in the repository is still to be seen to have.
        let settled = record.settled.clone();
        let target = self.target(&mut record, found, given.as_ref());
        record.settled = settled;
        let target = target?;
        let serves: Vec<u64> = serving.keys().copied().collect();
        if !decide(record.loaded.as_ref(), &serves, &[], target.sources(), &serves).is_nothing() {
            return Err(Error::Unavailable("its files, or its configuration, have changed".into()));
        }
        let mut next = Versions::new();
        let mut problem = Ok(());
        for (version, model) in serving.iter() {
            let adapted = self.adapted(&target, *version, model).unwrap_or_else(|reason| {
                problem = Err(reason);
                None
            });
            next.insert(*version, adapted.unwrap_or_else(|| model.clone()));
        }
        if next.iter().any(|(version, it)| !Arc::ptr_eq(it, &serving[version])) {
            self.publisher.switch(id, next, Reason::Unloaded);
            drop(record);
            self.manager.revalidate_ensembles(id);
        }
        problem
    }

    fn is_due(&self, model: &ServedModel) -> bool {
        let has_instances = !matches!(model.dispatch, Dispatch::Ensemble(_));
        has_instances && model.planned.cpus != self.loader.cpus()
    }

    /// The version as the server would load it now. `None` where that is how it is.
    fn adapted(
        &self,
        target: &Target,
        version: u64,
        model: &Arc<ServedModel>,
    ) -> Result<Option<Arc<ServedModel>>, Error> {
        let Some(path) = target.path_of(version).filter(|_| self.is_due(model)) else {
            return Ok(None);
        };
        let plan = |cpus| self.loader.plan_anew(target.found(), target.raw(), path, cpus);
        let cpus = self.loader.cpus();
        let (before, now) = (plan(model.planned.cpus)?, plan(cpus)?);
        let change = change(&before, &now);
        if change == Change::Nothing {
            return Ok(None);
        }
        if change == Change::Reload {
            if model.planned.keeps_state || matches!(model.dispatch, Dispatch::Sequences(_)) {
                let problem = "it keeps something of a request for the next one";
                return Err(Error::Unavailable(problem.to_owned()));
            }
            let needs = target.sources().stamps.bytes([version].into_iter()) * TIMES_FILES;
            let left = memory_left();
            if left < needs {
                return Err(Error::Unavailable(format!(
                    "to load it beside itself takes about {needs} bytes of memory, and {left} are left"
                )));
            }
        }
        let reason = &now.reason;
        let model_name = &target.found().name;
        tracing::info!(model = model_name, version, %cpus, "it follows the processors: {reason}");
        Ok(Some(match change {
            Change::Instances => self.keep(target, version, model, true)?,
            Change::Nothing | Change::Reload => self.load_again(target, version)?,
        }))
    }
}

/// Bytes that this process may still take.
fn memory_left() -> u64 {
    let limit = Machine::read().memory.unwrap_or(u64::MAX);
    let left = limit.saturating_sub(machine::anonymous_bytes());
    left.min(machine::available_bytes().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use backend::Device;

    use super::*;

    fn plan(instances: usize, threads: usize) -> Plan {
        Plan {
            devices: vec![Device::Cpu; instances],
            threads: NonZeroUsize::new(threads).unwrap(),
            ..Plan::none(String::new())
        }
    }

    #[test]
    fn other_threads_are_another_session_and_other_instances_are_not() {
        assert_eq!(change(&plan(2, 1), &plan(2, 1)), Change::Nothing);
        assert_eq!(change(&plan(1, 1), &plan(2, 1)), Change::Instances);
        assert_eq!(change(&plan(2, 1), &plan(2, 2)), Change::Reload);
    }
}

//! More or fewer instances of a model that serves, as its configuration says now.

use std::{path::Path, sync::Arc};

use backend::{Device, Processes};

use crate::{
    config::complete::Completed,
    load::{load_error::LoadError, loader::Loader},
    repository::local::FoundModel,
};
use serving::{
    config::{model::ModelConfig, raw},
    served::{Dispatch, LastUsed, Planned, ServedModel},
};

impl Loader {
    /// The same model with the instances that its configuration now asks for: the same engine, queue and
    /// counters, of which nothing stops. Threads of a run stay as they were. `None` where that cannot be done
    /// in place. Blocking.
    ///
    /// # Errors
    /// When the groups are not valid, or an instance cannot be made; then nothing has changed.
    pub(crate) fn resize(
        &self,
        served: &ServedModel,
        found: &FoundModel,
        raw: Option<&raw::ModelConfig>,
        path: &Path,
    ) -> Result<Option<ServedModel>, LoadError> {
        let scheduler = match &served.dispatch {
            Dispatch::Batches(scheduler) => scheduler,
            // Sequences sit on their instances: these do not go while a sequence is open.
            Dispatch::Sequences(_) | Dispatch::Ensemble(_) => return Ok(None),
        };
        let cpus = self.cpus();
        let plan = self.plan_anew(found, raw, path, cpus)?;
        let mut completed = Completed {
            raw: served.config_message.clone(),
            config: served.config.clone(),
            warnings: Vec::new(),
        };
        let groups = raw.map(|it| it.instance_group.clone()).unwrap_or_default();
        let policy = raw.and_then(|it| it.version_policy.clone());
        completed.regroup(groups, policy, &self.descriptions)?;
        let groups = completed.config.instance_groups.iter();
        if groups.chain(&served.config.instance_groups).any(|it| it.limits.is_some()) {
            // Each instance is registered for its resources as it is made at a load.
            return Ok(None);
        }
        let keeps_standby = |it: &ModelConfig| it.instance_groups.iter().any(|it| it.passive);
        let is_apart = !served.processes.is_empty();
        if is_apart && keeps_standby(&completed.config) != keeps_standby(&served.config) {
            // Only a load begins or ends the process that is kept ready.
            return Ok(None);
        }
        completed.show_instances(&plan.groups);
        let placed = plan.placements();
        let wanted: Vec<_> = placed.iter().map(|it| (it.device, it.instances.get())).collect();
        if empties_process(&served.processes, &wanted) {
            return Ok(None);
        }
        if !scheduler.resize(&wanted).map_err(|it| it.to_string())? {
            return Ok(None);
        }
        let (model, version) = (&served.signature.model, served.signature.version);
        tracing::info!(%model, version, instances = plan.instances(), "instances have changed in place");
        let used = LastUsed::default();
        used.now(served.used.get());
        Ok(Some(ServedModel {
            shown_name: served.shown_name.clone(),
            signature: served.signature.clone(),
            // What waits was given its key by the other one.
            shape_hashes: served.shape_hashes.clone(),
            run_room: served.run_room.clone(),
            pipeline: served.pipeline.clone(),
            config: completed.config,
            others: served.others.clone(),
            config_json: self.reader.to_json(&completed.raw).to_string().into(),
            config_message: completed.raw,
            answers_calls: served.answers_calls,
            streams: served.streams,
            is_decoupled: served.is_decoupled,
            model: served.model.clone(),
            own_readiness: served.own_readiness.clone(),
            processes: served.processes.clone(),
            dispatch: Dispatch::Batches(Arc::clone(scheduler)),
            metrics: served.metrics.clone(),
            content_hash: served.content_hash,
            answers_zeros: served.answers_zeros,
            decided: served.decided.clone(),
            loaded: served.loaded,
            planned: Planned { cpus, ..served.planned },
            used,
            bytes: served.bytes,
            files: served.files.clone(),
        }))
    }
}

/// Would one of these processes have no instance any more? Only a load ends it: left alone, it would go on as one that
/// can serve, and keep its memory.
fn empties_process(processes: &Processes, wanted: &[(Device, usize)]) -> bool {
    let is_wanted = |on: Device| wanted.iter().any(|(device, count)| *device == on && 0 < *count);
    processes.iter().any(|it| !is_wanted(it.device))
}

#[cfg(test)]
mod tests {
    use backend::{DeviceProcess, ModelProcess, Outage, ProcessFigures};

    use super::*;

    struct Serving;

    impl ModelProcess for Serving {
        fn figures(&self) -> ProcessFigures {
            ProcessFigures::default()
        }

        fn outage(&self) -> Option<Outage> {
            None
        }
    }

    #[test]
    fn a_model_is_loaded_anew_where_a_device_that_has_a_process_of_it_loses_its_last_instance() {
        let [first, second] = [Device::Gpu(0), Device::Gpu(1)];
        let on = |device| DeviceProcess { device, process: Arc::new(Serving) };
        let processes: Processes = [on(first), on(second)].into_iter().collect();
        assert!(!empties_process(&processes, &[(first, 3), (second, 1)]));
        assert!(empties_process(&processes, &[(first, 1)]));
        assert!(empties_process(&processes, &[(first, 1), (second, 0)]));
        assert!(!empties_process(&Processes::default(), &[(first, 1)]), "all are in the server");
    }
}

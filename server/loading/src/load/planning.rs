//! Where the instances of a model go on this machine, and what that means for its engine's settings.

use std::{collections::BTreeMap, num::NonZeroUsize};

use backend::{Device, Placement};

use crate::load::{
    gpu_limit,
    load_error::LoadError,
    load_log::LoadLog,
    loader::Loader,
    options::gpu_share,
    placement::{NoGpus, Places, Plan, plan},
    version_load::Load,
};
use machine::gpus::Gpu;
use serving::config::{model::ConfigErrors, raw};

/// Most threads of one model version. A system has some tens of thousands, for all that runs on it.
const MOST_THREADS: usize = 4096;

/// Most threads within operators of one instance, and most among them, by the settings of the engines.
const MOST_OF_ONE: usize = 1024;

/// What is wrong where the threads of all instances together, within operators and among them, are too many. Before any
/// of them is started: a system that is out of threads gives none to anybody.
fn too_many_threads(
    plan: &Plan,
    options: &BTreeMap<String, String>,
    inter_op_keys: &[&str],
) -> Option<String> {
    let given = inter_op_keys.iter().filter_map(|key| options.get(*key)?.trim().parse().ok());
    let among: usize = given.max().unwrap_or(0);
    let (instances, within) = (plan.instances().get(), plan.threads.get());
    // An engine refuses as many as that for one instance, and says so itself.
    if MOST_OF_ONE < within.max(among) {
        return None;
    }
    let each = within.saturating_add(among);
    match instances.saturating_mul(each) {
        0..=MOST_THREADS => None,
        all => Some(format!(
            "instance_group: {instances} instances of {each} threads, within operators and among them, are {all}; expected \
             at most {MOST_THREADS} threads of a model, as each is one of the system's and takes memory"
        )),
    }
}

impl Loader {
    /// Has a GPU of the plan too much of its memory in use for one more model? Looks at it now.
    pub(super) fn check_gpu_limits(&self, plan: &Plan) -> Result<(), LoadError> {
        let limits = &self.settings.repository.gpu_limits;
        if limits.is_empty() || !plan.uses_gpus() {
            return Ok(());
        }
        self.metrics.sample_gpus();
        let readings = self.metrics.resources().gpus;
        gpu_limit::check(plan, limits, &self.settings.gpus.found, &readings)
    }

    /// The instances of a model, on the GPUs that are there or without.
    pub(super) fn plan_here(
        &self,
        model: &str,
        raw: Option<&raw::ModelConfig>,
        options: &BTreeMap<String, String>,
        cpus: NonZeroUsize,
    ) -> Result<Plan, ConfigErrors> {
        let gpus = &self.settings.gpus;
        match gpus.found.as_slice() {
            [] => {
                let is_there = gpus.lack.is_of_some();
                self.plan(model, raw, options, cpus, Err(NoGpus { reason: &gpus.reason, is_there }))
            }
            found => self.plan(model, raw, options, cpus, Ok(found)),
        }
    }

    /// The same, on these GPUs or without, for the reason given.
    pub(super) fn plan(
        &self,
        model: &str,
        raw: Option<&raw::ModelConfig>,
        options: &BTreeMap<String, String>,
        cpus: NonZeroUsize,
        gpus: Result<&[Gpu], NoGpus<'_>>,
    ) -> Result<Plan, ConfigErrors> {
        let groups = raw.map(|it| it.instance_group.as_slice()).unwrap_or_default();
        let thread_keys = &self.descriptions.intra_op_keys();
        let places = Places { cpus, gpus, thread_keys };
        let of_model = |problems| ConfigErrors { model: model.to_owned(), problems };
        let plan = plan(groups, options, &self.settings.defaults, places).map_err(of_model)?;
        match too_many_threads(&plan, options, &self.descriptions.inter_op_keys()) {
            Some(problem) => Err(of_model(vec![problem])),
            None => Ok(plan),
        }
    }

    /// The settings of the engine, with the part of the GPUs' memory that is the model's by the server's settings.
    pub(super) fn options_here(
        &self,
        load: &Load<'_>,
        plan: &Plan,
        log: &mut LoadLog<'_>,
    ) -> BTreeMap<String, String> {
        let mut options = load.options.clone();
        let description = self.descriptions.description(&load.choice.backend);
        if let (Some(key), Some(threads)) =
            (description.intra_op_threads, self.settings.defaults.intra_op_threads)
            && description.threads_are_of_sessions
        {
            options.entry(key.to_owned()).or_insert_with(|| threads.to_string());
        }
        let Some(margin) = self.settings.defaults.gpu_memory_margin else { return options };
        let key = description.gpu_memory_limit;
        if !plan.uses_gpus() || key.is_some_and(|it| options.contains_key(it)) {
            return options;
        }
        match (gpu_share(margin, plan, &self.settings.gpus.found), key) {
            (Some(bytes), Some(key)) => {
                options.insert(key.to_owned(), bytes.to_string());
            }
            (Some(_), None) => log.warn("--gpu-memory-margin has no effect on models of its engine"),
            (None, _) => log.warn(
                "--gpu-memory-margin has no effect: the driver does not say how much memory there is",
            ),
        }
        options
    }

    /// The GPU on which all instances run, if that is one.
    pub(super) fn only_gpu(&self, plan: &Plan) -> Option<String> {
        let [Placement { device: Device::Gpu(number), .. }] = plan.placements()[..] else {
            return None;
        };
        let gpu = self.settings.gpus.found.iter().find(|it| it.number == number);
        gpu.map(|it| it.uuid.clone())
    }
}

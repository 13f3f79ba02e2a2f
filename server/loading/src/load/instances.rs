//! The instances of a model version: a place for each on its device, the first ones filled and warm.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use backend::{BackendError, Device, Instance, Model, Stop};

use crate::load::{
    extra_inputs::ExtraInputs,
    load_error::LoadError,
    load_limit,
    load_watch::{LoadWatch, PhaseLimit},
    placement::Plan,
    run_limit::RunLimit,
    warmup::{Guess, Warming},
};
use inference::signature::Signature;
use schedule::{
    learn::RunTimes,
    ratelimit::RateLimiter,
    slot::{MakeInstance, Slot},
};
use serving::config::model::ModelConfig;

/// What warming up takes beside the model.
#[derive(Clone, Copy)]
pub(crate) struct WarmUp<'a> {
    /// The model's directory.
    pub(crate) dir: &'a Path,
    /// Inputs that requests do not bring.
    pub(crate) extra: &'a ExtraInputs,
    /// What bounds the runs; `None` for the device's own limit.
    pub(crate) run_limit: Option<Duration>,
    /// What bounds the making of an instance.
    pub(crate) limit: PhaseLimit,
    pub(crate) watch: &'a LoadWatch,
    /// Requested when the making of an instance takes too long.
    pub(crate) stop: &'a Arc<Stop>,
}

/// The places for a model's instances, the preferred one last, and what warming up has taught. `first` is an instance
/// for the first place where there is one already. Blocking.
pub(crate) fn make(
    model: &Arc<dyn Model>,
    config: &ModelConfig,
    signature: &Arc<Signature>,
    plan: &Plan,
    warm_up: WarmUp<'_>,
    first: Option<Box<dyn Instance>>,
) -> Result<(Vec<Slot>, RunTimes), BackendError> {
    let WarmUp { dir, extra, run_limit, limit, watch, stop } = warm_up;
    let first = Arc::new(Mutex::new(first));
    let first_device = plan.devices.first().copied();
    let times = Arc::new(Mutex::new(RunTimes::default()));
    // Without a specification there is nothing to guess a request from.
    let guess = match model.spec() {
        Some(_) if model.allows_trial_runs() => Guess::Least,
        Some(_) | None => Guess::Nothing,
    };
    let make_on = |device: Device| -> Arc<MakeInstance> {
        let first = first.clone();
        let (model, config, signature, dir, times, extra) = (
            model.clone(),
            config.clone(),
            signature.clone(),
            dir.to_owned(),
            times.clone(),
            extra.clone(),
        );
        Arc::new(move || {
            let made = match Some(device) == first_device {
                true => first.lock().unwrap_or_else(PoisonError::into_inner).take(),
                false => None,
            };
            let mut instance = match made {
                Some(instance) => instance,
                None => model.instantiate(device)?,
            };
            let limit = RunLimit::start(run_limit, device)?;
            let warming = Warming {
                signature: &signature,
                config: &config,
                dir: &dir,
                extra: &extra,
                guess,
                limit: &limit,
            };
            let learned = warming.warm(&mut *instance)?;
            *times.lock().unwrap_or_else(PoisonError::into_inner) = learned;
            Ok(instance)
        })
    };
    // Those of one device are made alike.
    let makers: Vec<(Device, Arc<MakeInstance>)> =
        plan.placements().into_iter().map(|it| (it.device, make_on(it.device))).collect();
    let processes = model.processes();
    let slot = |device: &Device| {
        let maker = makers.iter().find(|it| it.0 == *device);
        let slot = maker.map(|(_, make)| Slot::empty_on(*device, make.clone()))?;
        Some(if processes.is_empty() { slot } else { slot.apart(processes.clone()) })
    };
    let mut slots: Vec<Slot> = plan.devices.iter().filter_map(slot).collect();
    for (slot, device) in slots.iter_mut().zip(&plan.devices).take(plan.made_at_load.get()) {
        // An instance is made, and runs. Its runs have a limit of their own, and are stopped by that.
        let limit = PhaseLimit { limit: limit.limit + RunLimit::of(run_limit, *device), ..limit };
        let filled = watch.during(limit, stop, || slot.fill())?;
        load_limit::check(limit, stop)?;
        filled.map_err(|error| on_device(*device, error))?;
    }
    // The scheduler takes the last first, and a GPU is to be taken before the CPU.
    slots.reverse();
    let times = times.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((slots, times))
}

/// The same places, whose runs wait for the resources that their groups name, if rate limiting is on.
pub(crate) fn limit(
    slots: Vec<Slot>,
    config: &ModelConfig,
    plan: &Plan,
    limiter: Option<&Arc<RateLimiter>>,
) -> Result<Vec<Slot>, LoadError> {
    let Some(limiter) = limiter else { return Ok(slots) };
    // The places are in the reverse order of the plan.
    let planned = plan.devices.iter().zip(&plan.group_of).rev();
    let limited = slots.into_iter().zip(planned).map(|(slot, (device, group))| {
        let limits = config.instance_groups.get(*group).and_then(|it| it.limits.as_ref());
        let Some(limits) = limits else { return Ok(slot) };
        let limited = limiter.register(limits, *device);
        let limited = limited
            .map_err(|problem| format!("instance_group[{group}]: rate_limiter: {problem}"))?;
        Ok(slot.limited(limited))
    });
    limited.collect()
}

/// The error with the GPU that it is about: of several, it may be the only one to leave out.
pub(crate) fn on_device(device: Device, error: BackendError) -> BackendError {
    let Device::Gpu(number) = device else { return error };
    let logged = |reason| format!("on GPU {number}: {reason}");
    match error {
        BackendError::Device(reason) => BackendError::Device(logged(reason)),
        BackendError::OutOfMemory(reason) => BackendError::OutOfMemory(logged(reason)),
        error => error,
    }
}

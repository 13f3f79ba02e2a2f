//! How many instances, on which devices, and how many threads each: never more than the processors that there
//! are. Pure.

use std::{collections::BTreeMap, fmt::Write, num::NonZeroUsize};

use backend::{Device, Placement};

use super::{
    config::InstanceKind,
    raw::{ModelInstanceGroup, model_instance_group::Kind},
};
use crate::{config::ModelDefaults, machine::gpus::Gpu};

/// The instances of one model version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The device of each instance; at least one. Those on GPUs come first, one for each GPU before a second
    /// for any.
    pub devices: Vec<Device>,
    /// So many of the first are made before the model is ready; the others when there is work for them.
    pub made_at_load: NonZeroUsize,
    /// Threads of one run on the CPU.
    pub threads: NonZeroUsize,
    /// What became of each group of the configuration, in its order; of the one that is meant where it has
    /// none.
    pub groups: Vec<PlannedGroup>,
    /// Why, for the log.
    pub reason: String,
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedGroup {
    /// [`InstanceKind::Gpu`] or [`InstanceKind::Cpu`] where it was left open, else as it was.
    pub kind: InstanceKind,
    /// Instances, per GPU or in all.
    pub count: usize,
    /// Their numbers; none on the CPU.
    pub gpus: Vec<u32>,
}

impl Plan {
    /// Each device once, in the order in which instances are made there, and how many.
    pub fn placements(&self) -> Vec<Placement> {
        let mut placements: Vec<Placement> = Vec::new();
        for &device in &self.devices {
            match placements.iter_mut().find(|it| it.device == device) {
                Some(it) => it.instances = it.instances.saturating_add(1),
                None => placements.push(Placement { device, instances: NonZeroUsize::MIN }),
            }
        }
        placements
    }

    /// Are there instances on GPUs?
    pub fn uses_gpus(&self) -> bool {
        self.devices.iter().any(|it| *it != Device::Cpu)
    }

    /// Instances in all.
    pub fn instances(&self) -> NonZeroUsize {
        at_least_one(self.devices.len())
    }

    /// The devices for people: `CPU`, `GPU 1`, `2 on GPU 0, 1 on CPU`.
    pub fn devices_text(&self) -> String {
        let placements = self.placements();
        if let [only] = placements.as_slice() {
            return device_name(only.device);
        }
        let text = |it: &Placement| format!("{} on {}", it.instances, device_name(it.device));
        placements.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

fn device_name(device: Device) -> String {
    match device {
        Device::Cpu => "CPU".to_owned(),
        Device::Gpu(number) => format!("GPU {number}"),
    }
}

/// What instances can be placed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    /// Processors to share out.
    pub cpus: NonZeroUsize,
    /// The GPUs that can be used, or why there is none.
    pub gpus: Result<&'a [Gpu], NoGpus<'a>>,
}

/// Why no GPU can be used.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoGpus<'a> {
    /// For people.
    pub reason: &'a str,
    /// Is there one all the same? Then models that would run on it tell why they do not.
    pub is_there: bool,
}

/// Instances of a model that says nothing: two, so that one can run while another's results are sent, and
/// never more than there are processors. On GPUs it is one each.
const DEFAULT_INSTANCES: usize = 2;

/// The model's own setting of threads, as Triton calls it for ONNX Runtime and for libtorch; 0 leaves it to
/// the server.
const THREADS: [&str; 2] = ["intra_op_thread_count", "INTRA_OP_THREAD_COUNT"];

/// The plan for a model with these groups and settings of its engine.
///
/// # Errors
/// Everything that is asked for and not there, each naming the group. What is no valid group in the first
/// place is told by `check`, and passed over here.
pub(super) fn plan(
    groups: &[ModelInstanceGroup],
    options: &BTreeMap<String, String>,
    defaults: &ModelDefaults,
    places: Places<'_>,
) -> Result<Plan, Vec<String>> {
    let meant = [ModelInstanceGroup::default()];
    let groups = if groups.is_empty() { &meant } else { groups };
    let mut problems = Vec::new();
    let mut placed = Vec::with_capacity(groups.len());
    for (index, group) in groups.iter().enumerate() {
        match gpus_of(group, places.gpus) {
            Ok(gpus) => placed.push(Placed { group, gpus }),
            Err(problem) => problems.push(format!("instance_group[{index}]: {problem}")),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    // A passive instance gets no requests, so it need not be there.
    let active = || placed.iter().filter(|it| !it.group.passive);
    let on_gpus = spread(active(), defaults);
    let on_cpu: Vec<&Placed<'_>> = active().filter(|it| it.gpus.is_none()).collect();
    let (cpu_count, cpu_at_load, mut why) = match on_cpu.is_empty() && !on_gpus.is_empty() {
        true => (0, 0, gpu_reason(active(), defaults)),
        false => on_the_cpu(&on_cpu, defaults, places.cpus),
    };
    if let Err(none) = places.gpus
        && on_cpu
            .iter()
            .any(|it| it.group.kind() == Kind::Auto && (none.is_there || !it.group.gpus.is_empty()))
    {
        let _ = write!(why, "; no GPU can be used: {}", none.reason);
    }
    let (threads, from) = threads(options, defaults, places.cpus, cpu_count);
    let made_at_load = at_least_one(on_gpus.len() + cpu_at_load);
    let groups = placed.iter().map(|it| it.planned(placed.len(), cpu_count, defaults)).collect();
    let devices = on_gpus.into_iter().chain(vec![Device::Cpu; cpu_count]).collect();
    let reason = format!("instances: {why}; threads: {from}");
    Ok(Plan { devices, made_at_load, threads, groups, reason })
}

/// A group, and the GPUs of its instances; `None` where they run on the CPU.
struct Placed<'a> {
    group: &'a ModelInstanceGroup,
    gpus: Option<Vec<u32>>,
}

impl Placed<'_> {
    /// Instances on each of its GPUs.
    fn per_gpu(&self, defaults: &ModelDefaults) -> usize {
        let default = defaults.instance_count.map_or(1, NonZeroUsize::get);
        if count(self.group) == 0 { default } else { count(self.group) }
    }

    fn planned(&self, groups: usize, cpu_count: usize, defaults: &ModelDefaults) -> PlannedGroup {
        let kind = match (self.group.kind(), &self.gpus) {
            (_, Some(_)) => InstanceKind::Gpu,
            (Kind::Model, None) => InstanceKind::Model,
            (_, None) => InstanceKind::Cpu,
        };
        let count = match (&self.gpus, count(self.group)) {
            (Some(_), _) => self.per_gpu(defaults),
            (None, 0) if groups == 1 => cpu_count,
            (None, count) => count.max(1),
        };
        PlannedGroup { kind, count, gpus: self.gpus.clone().unwrap_or_default() }
    }
}

/// A count of 0 is one that is not given.
fn count(group: &ModelInstanceGroup) -> usize {
    usize::try_from(group.count).unwrap_or(0)
}

fn at_least_one(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}

/// The GPUs of a group's instances; `None` where they run on the CPU.
fn gpus_of(
    group: &ModelInstanceGroup,
    gpus: Result<&[Gpu], NoGpus<'_>>,
) -> Result<Option<Vec<u32>>, String> {
    let gpus = match (group.kind(), gpus) {
        (Kind::Cpu | Kind::Model, _) | (Kind::Auto, Err(_)) => return Ok(None),
        (Kind::Gpu, Err(none)) => {
            let reason = none.reason;
            return Err(format!("KIND_GPU: this machine has no GPU that can be used: {reason}"));
        }
        (Kind::Gpu | Kind::Auto, Ok(gpus)) => gpus,
    };
    let wanted: Vec<u32> = group.gpus.iter().filter_map(|it| u32::try_from(*it).ok()).collect();
    if wanted.is_empty() {
        return Ok(Some(gpus.iter().map(|it| it.number).collect()));
    }
    let absent: Vec<u32> =
        wanted.iter().copied().filter(|it| gpus.iter().all(|gpu| gpu.number != *it)).collect();
    if absent.is_empty() {
        return Ok(Some(wanted));
    }
    let list = |it: &[u32]| it.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let found: Vec<u32> = gpus.iter().map(|it| it.number).collect();
    let plural = if found.len() == 1 { "GPU" } else { "GPUs" };
    Err(format!("gpus [ {} ]: this machine has {plural} {}", list(&absent), list(&found)))
}

/// Instances on GPUs: the first of each GPU, then the second of each, and so on.
fn spread<'a>(
    groups: impl Iterator<Item = &'a Placed<'a>>,
    defaults: &ModelDefaults,
) -> Vec<Device> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for group in groups {
        for gpu in group.gpus.iter().flatten() {
            *counts.entry(*gpu).or_default() += group.per_gpu(defaults);
        }
    }
    let most = counts.values().copied().max().unwrap_or(0);
    let round = |round| {
        let has = counts.iter().filter(move |(_, count)| round < **count);
        has.map(|(gpu, _)| Device::Gpu(*gpu))
    };
    (0..most).flat_map(round).collect()
}

fn gpu_reason<'a>(
    mut groups: impl Iterator<Item = &'a Placed<'a>>,
    defaults: &ModelDefaults,
) -> String {
    match (groups.any(|it| 0 < count(it.group)), defaults.instance_count) {
        (true, _) => "instance_group",
        (false, Some(_)) => "--default-instance-count, on each GPU",
        (false, None) => "default, one on each GPU",
    }
    .to_owned()
}

/// Instances on the CPU, how many of them are made at once, and why.
fn on_the_cpu(
    groups: &[&Placed<'_>],
    defaults: &ModelDefaults,
    cpus: NonZeroUsize,
) -> (usize, usize, String) {
    let asked: usize = groups.iter().map(|it| count(it.group).max(1)).sum();
    if groups.iter().any(|it| 0 < count(it.group)) {
        (asked, asked, "instance_group".to_owned())
    } else if let Some(count) = defaults.instance_count {
        (count.get(), count.get(), "--default-instance-count".to_owned())
    } else {
        (DEFAULT_INSTANCES.min(cpus.get()), 1, "default, further ones when needed".to_owned())
    }
}

/// Threads of one run, and where the number is from.
fn threads(
    options: &BTreeMap<String, String>,
    defaults: &ModelDefaults,
    cpus: NonZeroUsize,
    cpu_count: usize,
) -> (NonZeroUsize, String) {
    let own = THREADS.iter().find_map(|key| {
        let threads = options.get(*key)?.trim().parse().ok()?;
        Some((NonZeroUsize::new(threads)?, *key))
    });
    match (own, defaults.intra_op_threads) {
        (Some((threads, key)), _) => (threads, key.to_owned()),
        (None, Some(threads)) => {
            (threads, "--default-intra-op-threads or OMP_NUM_THREADS".to_owned())
        }
        (None, None) if cpu_count == 0 => {
            (NonZeroUsize::MIN, "on GPUs one each is enough".to_owned())
        }
        (None, None) => {
            let share = at_least_one(cpus.get() / cpu_count);
            (share, format!("an equal share of {cpus} processors"))
        }
    }
}

#[cfg(test)]
mod tests;

//! How many instances, on which devices, and how many threads each: never more than the processors that there
//! are. Pure.

use std::{collections::BTreeMap, fmt::Write, num::NonZeroUsize};

use backend::{Device, Placement};

use crate::{config::planned_group::PlannedGroup, settings::model_defaults::ModelDefaults};
use machine::gpus::Gpu;
use serving::config::{
    model::InstanceKind,
    raw::{ModelInstanceGroup, model_instance_group::Kind},
};

/// The instances of one model version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The device of each instance; at least one. Those on GPUs come first, one for each GPU before a second
    /// for any.
    pub devices: Vec<Device>,
    /// The group of each instance, by its index in the configuration.
    pub group_of: Vec<usize>,
    /// So many of the first are made before the model is ready; the others when there is work for them.
    pub made_at_load: NonZeroUsize,
    /// Threads of one run on the CPU.
    pub threads: NonZeroUsize,
    /// Threads of a run on the CPU beside which there is no other: all processors. `None` where it has no more than any
    /// other, or somebody has said how many they have.
    pub wide_threads: Option<NonZeroUsize>,
    /// What became of each group of the configuration, in its order; of the one that is meant where it has
    /// none. `None` of a passive one, of which there are no instances.
    pub groups: Vec<Option<PlannedGroup>>,
    /// Why, for the log.
    pub reason: String,
}

impl Plan {
    /// Of a model that has no instances of its own.
    pub fn none(reason: String) -> Plan {
        let one = NonZeroUsize::MIN;
        let (devices, group_of, groups) = Default::default();
        let wide_threads = None;
        Plan { devices, group_of, made_at_load: one, threads: one, wide_threads, groups, reason }
    }

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
pub(crate) struct Places<'a> {
    /// Processors to share out.
    pub cpus: NonZeroUsize,
    /// The GPUs that can be used, or why there is none.
    pub gpus: Result<&'a [Gpu], NoGpus<'a>>,
    /// Settings of engines for the threads of one run; 0 leaves the number to the server.
    pub thread_keys: &'a [&'static str],
}

/// Why no GPU can be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoGpus<'a> {
    /// For people.
    pub reason: &'a str,
    /// Is there one all the same? Then models that would run on it tell why they do not.
    pub is_there: bool,
}

/// Most instances of a model version. Each has a thread, and those of small models have weights of their own.
const MOST_INSTANCES: usize = 1024;

/// Instances of the only group on the CPU, where it does not say: two, so that one can run while another's
/// results are sent, and never more than there are processors. Of several groups it is one each, as it is on
/// each GPU.
const DEFAULT_INSTANCES: usize = 2;

/// The plan for a model with these groups and settings of its engine.
///
/// # Errors
/// Everything that is asked for and not there, each naming the group. What is no valid group in the first
/// place is reported by `check`, and passed over in this file.
pub(crate) fn plan(
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
        // A passive instance gets no requests, so it need not be there.
        match (group.passive, gpus_of(group, places.gpus)) {
            (true, _) => placed.push(None),
            (false, Ok(gpus)) => placed.push(Some(Placed { index, group, gpus })),
            (false, Err(problem)) => problems.push(format!("instance_group[{index}]: {problem}")),
        }
    }
    if groups.iter().all(|it| it.passive) {
        problems.push("instance_group: expected a group that is not passive, or none".to_owned());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let of_gpus: Vec<&Placed<'_>> = placed.iter().flatten().filter(|it| it.is_on_gpus()).collect();
    let of_cpu: Vec<&Placed<'_>> = placed.iter().flatten().filter(|it| !it.is_on_gpus()).collect();
    let counts = Counts { defaults, cpus: places.cpus, cpu_groups: of_cpu.len() };
    if let Some(problem) = too_many(placed.iter().flatten(), counts) {
        return Err(vec![problem]);
    }
    let on_gpus = spread(&of_gpus, counts);
    let on_cpu: usize = of_cpu.iter().map(|it| counts.of(it)).sum();
    let from = CountFrom::of(&of_cpu, defaults);
    let at_load = match from {
        CountFrom::Nobody if !defaults.eager_instances => on_cpu.min(1),
        CountFrom::Groups | CountFrom::Default | CountFrom::Nobody => on_cpu,
    };
    let mut why = match (CountFrom::of(&of_gpus, defaults).on_gpus(), from.on_cpu()) {
        (gpu, _) if of_cpu.is_empty() => gpu.to_owned(),
        (_, cpu) if of_gpus.is_empty() => cpu.to_owned(),
        (gpu, cpu) => format!("on GPUs {gpu}, on the CPU {cpu}"),
    };
    if let Err(none) = places.gpus
        && of_cpu.iter().any(|it| it.misses(none))
    {
        let _ = write!(why, "; no GPU can be used: {}", none.reason);
    }
    let Threads { of_run: threads, wide: wide_threads, from: threads_from } =
        threads(options, places.thread_keys, defaults, places.cpus, on_cpu);
    let made_at_load = at_least_one(on_gpus.len() + at_load);
    let groups = placed.iter().map(|it| it.as_ref().map(|it| it.planned(counts))).collect();
    let on_cpu = of_cpu.iter().flat_map(|it| vec![(Device::Cpu, it.index); counts.of(it)]);
    let (devices, group_of) = on_gpus.into_iter().chain(on_cpu).unzip();
    let reason = format!("instances: {why}; threads: {threads_from}");
    Ok(Plan { devices, group_of, made_at_load, threads, wide_threads, groups, reason })
}

/// Before a place is made for each of them: what is wrong where instances are so many that it is a mistake.
fn too_many<'a>(
    placed: impl Iterator<Item = &'a Placed<'a>>,
    counts: Counts<'_>,
) -> Option<String> {
    let of_group = |it: &Placed<'_>| {
        counts.of(it).saturating_mul(it.gpus.as_ref().map_or(1, |it| it.len().max(1)))
    };
    let all = placed.map(of_group).fold(0, usize::saturating_add);
    (MOST_INSTANCES < all).then(|| {
        format!(
            "instance_group: count is {all} instances, all groups and GPUs together; expected at most \
             {MOST_INSTANCES}, as each has a thread, and of a small model weights, of its own"
        )
    })
}

/// A group, and the GPUs of its instances; `None` where they run on the CPU.
struct Placed<'a> {
    /// Of the group.
    index: usize,
    group: &'a ModelInstanceGroup,
    gpus: Option<Vec<u32>>,
}

impl Placed<'_> {
    fn is_on_gpus(&self) -> bool {
        self.gpus.is_some()
    }

    /// Would it be on GPUs, were it not for this, and is that worth telling?
    fn misses(&self, none: NoGpus<'_>) -> bool {
        self.group.kind() == Kind::Auto && (none.is_there || !self.group.gpus.is_empty())
    }

    fn planned(&self, counts: Counts<'_>) -> PlannedGroup {
        let kind = match (self.group.kind(), &self.gpus) {
            (_, Some(_)) => InstanceKind::Gpu,
            (Kind::Model, None) => InstanceKind::Model,
            (_, None) => InstanceKind::Cpu,
        };
        PlannedGroup { kind, count: counts.of(self), gpus: self.gpus.clone().unwrap_or_default() }
    }
}

/// What decides how many instances a group has.
#[derive(Clone, Copy)]
struct Counts<'a> {
    defaults: &'a ModelDefaults,
    cpus: NonZeroUsize,
    /// Groups that are not passive and run on the CPU.
    cpu_groups: usize,
}

impl Counts<'_> {
    /// Instances of this group, on each of its GPUs or on the CPU.
    fn of(self, placed: &Placed<'_>) -> usize {
        match (count(placed.group), self.defaults.instance_count) {
            (0, Some(default)) => default.get(),
            (0, None) if !placed.is_on_gpus() && self.cpu_groups == 1 => {
                DEFAULT_INSTANCES.min(self.cpus.get())
            }
            (0, None) => 1,
            (count, _) => count,
        }
    }
}

/// Who says how many instances there are.
#[derive(Clone, Copy)]
enum CountFrom {
    Groups,
    Default,
    Nobody,
}

impl CountFrom {
    fn of(groups: &[&Placed<'_>], defaults: &ModelDefaults) -> CountFrom {
        match (groups.iter().any(|it| 0 < count(it.group)), defaults.instance_count) {
            (true, _) => CountFrom::Groups,
            (false, Some(_)) => CountFrom::Default,
            (false, None) => CountFrom::Nobody,
        }
    }

    fn on_gpus(self) -> &'static str {
        match self {
            CountFrom::Groups => "instance_group",
            CountFrom::Default => "--default-instance-count, on each GPU",
            CountFrom::Nobody => "default, one on each GPU",
        }
    }

    fn on_cpu(self) -> &'static str {
        match self {
            CountFrom::Groups => "instance_group",
            CountFrom::Default => "--default-instance-count",
            CountFrom::Nobody => "default, further ones when needed",
        }
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

/// Instances on GPUs and their groups: the first of each GPU, then the second of each, and so on.
fn spread(groups: &[&Placed<'_>], counts: Counts<'_>) -> Vec<(Device, usize)> {
    let mut of_gpu: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for group in groups {
        for gpu in group.gpus.iter().flatten() {
            of_gpu.entry(*gpu).or_default().extend(vec![group.index; counts.of(group)]);
        }
    }
    let most = of_gpu.values().map(Vec::len).max().unwrap_or(0);
    let round = |round: usize| {
        let has = of_gpu.iter().filter_map(move |(gpu, of)| Some((*gpu, *of.get(round)?)));
        has.map(|(gpu, group)| (Device::Gpu(gpu), group))
    };
    (0..most).flat_map(round).collect()
}

/// Threads of one run.
struct Threads {
    of_run: NonZeroUsize,
    /// Of a run beside which there is no other, where they are more.
    wide: Option<NonZeroUsize>,
    /// Where the number is from.
    from: String,
}

fn threads(
    options: &BTreeMap<String, String>,
    thread_keys: &[&str],
    defaults: &ModelDefaults,
    cpus: NonZeroUsize,
    cpu_count: usize,
) -> Threads {
    let own = thread_keys.iter().find_map(|key| {
        let threads = options.get(*key)?.trim().parse().ok()?;
        Some((NonZeroUsize::new(threads)?, *key))
    });
    let said = |of_run, from: &str| Threads { of_run, wide: None, from: from.to_owned() };
    match (own, defaults.intra_op_threads) {
        (Some((threads, key)), _) => said(threads, key),
        (None, Some(threads)) => said(threads, "--default-intra-op-threads or OMP_NUM_THREADS"),
        (None, None) if cpu_count == 0 => said(NonZeroUsize::MIN, "on GPUs one each is enough"),
        (None, None) => {
            let of_run = at_least_one(cpus.get() / cpu_count);
            let wide = Some(cpus).filter(|it| of_run < *it);
            Threads { of_run, wide, from: format!("an equal share of {cpus} processors") }
        }
    }
}

#[cfg(test)]
mod tests;

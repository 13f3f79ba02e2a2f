//! What the processes of a model version have done, over all of its loads.

use std::{collections::BTreeMap, sync::OnceLock};

use backend::{Device, DeviceProcess, ProcessFigures, Processes, Times};

use super::histogram::{Histogram, nanoseconds};

/// The processes of one load; nothing where the model runs in the server.
pub(super) type LoadProcesses = OnceLock<Processes>;

/// The sum of several loads.
#[derive(Default)]
pub(super) struct ProcessCounts {
    /// Loads whose process serves.
    pub(super) up: u64,
    /// Is there a load that has such a process, whether it serves or not?
    is_living: bool,
    /// The sums. The process is that of the load that began last.
    pub(super) figures: ProcessFigures,
}

impl ProcessCounts {
    fn add(&mut self, more: &ProcessFigures) {
        let sum = &mut self.figures;
        self.up += u64::from(more.pid.is_some());
        sum.pid = more.pid.or(sum.pid);
        sum.restarts.iter_mut().zip(more.restarts).for_each(|(it, more)| *it += more);
        sum.starts.add(&more.starts);
        sum.turn_overheads.add(&more.turn_overheads);
        sum.private_bytes += more.private_bytes;
        sum.arena_bytes += more.arena_bytes;
        sum.cpu_time += more.cpu_time;
        sum.dropped_lines += more.dropped_lines;
    }
}

/// Those of one model version, by what the label `device` says of them: a model whose instances are all on one device
/// has one process, and no such label.
#[derive(Default)]
pub(super) struct DeviceCounts(BTreeMap<Option<String>, ProcessCounts>);

impl DeviceCounts {
    /// Is there none?
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds those of a load that has processes.
    pub(super) fn add(&mut self, load: &Processes) {
        for (device, it) in labelled(load) {
            let counts = self.0.entry(device).or_default();
            counts.add(&it.process.figures());
            counts.is_living = true;
        }
    }

    /// A load is gone, and its processes with it: what was counted stays.
    pub(super) fn retire(&mut self, load: &Processes) {
        for (device, it) in labelled(load) {
            let last = it.process.figures();
            let ended = ProcessFigures { pid: None, private_bytes: 0, arena_bytes: 0, ..last };
            self.0.entry(device).or_default().add(&ended);
        }
    }

    /// Adds what was counted of loads that are gone.
    pub(super) fn absorb(&mut self, gone: &DeviceCounts) {
        for (device, counts) in &gone.0 {
            self.0.entry(device.clone()).or_default().add(&counts.figures);
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<&str>, &ProcessCounts)> {
        self.0.iter().map(|(device, counts)| (device.as_deref(), counts))
    }

    /// Those of which there may be a process now. Where no load is there, all of them.
    pub(super) fn present(&self) -> impl Iterator<Item = (Option<&str>, &ProcessCounts)> {
        let is_any = self.0.values().any(|it| it.is_living);
        self.iter().filter(move |(_, it)| it.is_living || !is_any)
    }
}

fn labelled(load: &Processes) -> impl Iterator<Item = (Option<String>, &DeviceProcess)> {
    let are_several = 1 < load.iter().count();
    load.iter().map(move |it| (are_several.then(|| label(it.device)), it))
}

fn label(device: Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Gpu(number) => format!("gpu:{number}"),
    }
}

/// As a histogram of nanoseconds.
pub(super) fn histogram_of(times: &Times) -> Histogram {
    let bounds: Vec<u64> = times.bounds().iter().map(|it| nanoseconds(*it)).collect();
    Histogram::of(bounds, times.counts(), nanoseconds(times.sum()))
}

//! The machine and the program, in words; which core does what; the time that was stolen.

use std::{fmt, fs, io, path::Path, process::Command};

use rustix::thread::{CpuSet, sched_setaffinity};

/// What was measured on what, as a line of Markdown. `runtime` is ONNX Runtime's library.
pub fn description(runtime: &Path) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu_info = read("/proc/cpuinfo");
    let of_cpu = |field: &str| {
        let line = cpu_info.lines().find(|it| it.starts_with(field));
        line.and_then(|it| it.split_once(':')).map_or("unknown", |(_, value)| value.trim())
    };
    let cpus = std::thread::available_parallelism().map_or(1, |it| it.get());
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    format!(
        "{}, {cpus} processors, Linux {}; load average before the start {load}; muster {}{}; {}; {}.",
        of_cpu("model name"),
        read("/proc/sys/kernel/osrelease").trim(),
        env!("CARGO_PKG_VERSION"),
        said("git", &["describe", "--always", "--dirty"])
            .map_or_else(String::new, |it| format!(" ({it})")),
        said("rustc", &["--version"]).unwrap_or_else(|| "rustc unknown".to_owned()),
        runtime.file_name().unwrap_or_default().display(),
    )
}

/// The output of a program, where it can be run.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()
        .filter(|it| it.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Does everybody have a core of their own?
#[derive(Debug, Clone, Copy)]
pub struct Pinning(bool);

impl Pinning {
    pub fn new(wanted: bool) -> Pinning {
        Pinning(wanted)
    }

    /// Puts the calling thread, and what it starts, where the model runs.
    pub fn to_server_core(self) -> io::Result<()> {
        self.to(0)
    }

    /// Puts the calling thread where requests are made.
    pub fn to_generator_core(self) -> io::Result<()> {
        self.to(1)
    }

    fn to(self, core: usize) -> io::Result<()> {
        if !self.0 {
            return Ok(());
        }
        let mut cores = CpuSet::new();
        cores.set(core);
        Ok(sched_setaffinity(None, &cores)?)
    }
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            true => f.write_str(", the server and the loop on core 0, the generator on core 1"),
            false => Ok(()),
        }
    }
}

/// Time of all processors together, in the kernel's ticks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    total: f64,
    stolen: f64,
    busy: f64,
    ours: f64,
}

impl Clock {
    /// Zeros where the system does not say: steal is then reported as none.
    pub fn read() -> Clock {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = first.split_whitespace().skip(1).flat_map(str::parse).collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0.0);
        // What follows the eighth is part of the first.
        let total: f64 = ticks.iter().take(8).sum();
        let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = text.rsplit_once(')').map_or("", |(_, it)| it).split_whitespace();
        // User and system time of this process and of the children that have ended.
        let ours = fields.skip(11).take(4).flat_map(str::parse::<f64>).sum();
        Clock { total, stolen: at(7), busy: total - at(3) - at(4) - at(7), ours }
    }

    /// The share that others on this machine used since then; right where all children have ended.
    pub fn others_since(&self, earlier: &Clock) -> f64 {
        let others = (self.busy - earlier.busy) - (self.ours - earlier.ours);
        others / (self.total - earlier.total).max(1.0)
    }

    /// The share that the hypervisor gave to others since then.
    pub fn steal_since(&self, earlier: &Clock) -> f64 {
        (self.stolen - earlier.stolen) / (self.total - earlier.total).max(1.0)
    }
}

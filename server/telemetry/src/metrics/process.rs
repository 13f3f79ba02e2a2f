//! What the system says about this process and this machine, read from `/proc`. Elsewhere than on Linux
//! there is nothing to say.

use std::{fs, path::Path};

use rustix::param::{clock_ticks_per_second, page_size};

/// The state of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Process {
    /// User and system time.
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
    pub(super) open_fds: u64,
    /// Seconds since 1970.
    pub(super) start_time_seconds: f64,
}

/// The state of the machine, not of the container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Machine {
    /// Share of processor time that was used since the last sample, 0 to 1; at first, since the start of
    /// the machine.
    pub(super) utilization: f64,
    pub(super) memory_total_bytes: u64,
    pub(super) memory_used_bytes: u64,
}

/// The last sample, and what the next one is compared with.
pub(super) struct Sampler {
    samples_machine: bool,
    process: Option<Process>,
    machine: Option<Machine>,
    /// Of the last sample.
    processors: ProcessorTime,
}

impl Sampler {
    /// A sampler that has not looked yet.
    pub(super) fn new(samples_machine: bool) -> Sampler {
        let processors = ProcessorTime { idle: 0, all: 0 };
        Sampler { samples_machine, process: None, machine: None, processors }
    }

    /// Looks. Blocks for a few short reads.
    pub(super) fn sample(&mut self) {
        let system = fs::read_to_string("/proc/stat").unwrap_or_default();
        self.process = read_process(&system);
        if self.samples_machine {
            self.machine = self.read_machine(&system);
        }
    }

    pub(super) fn process(&self) -> Option<Process> {
        self.process
    }

    pub(super) fn machine(&self) -> Option<Machine> {
        self.machine
    }

    fn read_machine(&mut self, system: &str) -> Option<Machine> {
        let processors = processor_time(system)?;
        let (memory_total_bytes, memory_used_bytes) =
            memory(&fs::read_to_string("/proc/meminfo").ok()?)?;
        // Two samples in one tick see no time pass; the last number holds.
        let before = self.machine.map_or(0.0, |it| it.utilization);
        let utilization = processors.used_since(self.processors).unwrap_or(before);
        self.processors = processors;
        Some(Machine { utilization, memory_total_bytes, memory_used_bytes })
    }
}

fn read_process(system: &str) -> Option<Process> {
    let stat = process_stat(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let ticks_per_second = clock_ticks_per_second() as f64;
    let boot =
        system.lines().find_map(|it| it.strip_prefix("btime "))?.trim().parse::<u64>().ok()?;
    Some(Process {
        cpu_seconds: stat.cpu_ticks as f64 / ticks_per_second,
        resident_bytes: stat.resident_pages.saturating_mul(page_size() as u64),
        open_fds: count_entries(Path::new("/proc/self/fd"))?,
        start_time_seconds: boot as f64 + stat.start_ticks as f64 / ticks_per_second,
    })
}

/// The descriptor that counts the others is not counted.
fn count_entries(path: &Path) -> Option<u64> {
    // Newer kernels give the number as the size of the folder, and spare a walk over many sockets.
    match fs::metadata(path).ok()?.len() {
        0 => Some((fs::read_dir(path).ok()?.count() as u64).saturating_sub(1)),
        size => Some(size),
    }
}

#[derive(Debug, PartialEq)]
struct ProcessStat {
    cpu_ticks: u64,
    /// After the start of the machine.
    start_ticks: u64,
    resident_pages: u64,
}

/// `/proc/self/stat`: fields 14 and 15 (user and system time), 22 (start) and 24 (resident), from 1.
fn process_stat(text: &str) -> Option<ProcessStat> {
    // The second field is the program's name in brackets, which may itself hold brackets and spaces.
    let (_, after_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessStat {
        cpu_ticks: field(14)?.checked_add(field(15)?)?,
        start_ticks: field(22)?,
        resident_pages: field(24)?,
    })
}

/// Time of all processors together, in ticks since the start of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ProcessorTime {
    idle: u64,
    all: u64,
}

impl ProcessorTime {
    /// The used share of what has passed; `None` where nothing has.
    fn used_since(self, before: ProcessorTime) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|&it| it > 0)?;
        // Idle time may run backwards by a tick.
        let idle = self.idle.saturating_sub(before.idle).min(all);
        Some((all - idle) as f64 / all as f64)
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; the guests'
/// time that follows is part of user and nice.
fn processor_time(text: &str) -> Option<ProcessorTime> {
    let line = text.lines().find_map(|it| it.strip_prefix("cpu "))?;
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().take(8).map_while(|it| it.parse().ok()).collect();
    let [_, _, _, idle, iowait, ..] = ticks[..] else { return None };
    Some(ProcessorTime { idle: idle.saturating_add(iowait), all: ticks.iter().sum() })
}

/// `/proc/meminfo`: bytes in total, bytes that are not available.
fn memory(text: &str) -> Option<(u64, u64)> {
    let kibibytes = |name: &str| {
        let value = text.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let total = kibibytes("MemTotal")?.saturating_mul(1024);
    let available = kibibytes("MemAvailable")?.saturating_mul(1024);
    Some((total, total.saturating_sub(available)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_may_hold_brackets_and_spaces() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194304 103 0 0 0 250 50 9 9 20 0 1 0 4321 999 77 1";
        let expect = ProcessStat { cpu_ticks: 300, start_ticks: 4321, resident_pages: 77 };
        assert_eq!(process_stat(text), Some(expect));
        assert_eq!(process_stat("7 (a) S 1"), None);
        assert_eq!(process_stat(""), None);
    }

    #[test]
    fn waiting_for_a_disk_is_idle_and_guests_are_not_counted_twice() {
        let text = "cpu  10 1 5 80 4 0 0 0 7 0\ncpu0 10 1 5 80 4 0 0 0 7 0\n";
        assert_eq!(processor_time(text), Some(ProcessorTime { idle: 84, all: 100 }));
        assert_eq!(processor_time("cpu  10 1"), None);
        assert_eq!(processor_time(""), None);
    }

    #[test]
    fn utilization_is_the_used_share_of_the_time_between_samples() {
        let before = ProcessorTime { idle: 100, all: 200 };
        let used = |idle, all| ProcessorTime { idle, all }.used_since(before);
        assert_eq!(used(125, 300), Some(0.75));
        assert_eq!(used(100, 200), None);
        assert_eq!(used(99, 201), Some(1.0));
        assert_eq!(used(90, 190), None);
    }

    #[test]
    fn used_memory_is_what_is_not_available() {
        let text = "MemTotal:       100 kB\nMemFree:  10 kB\nMemAvailable:    30 kB\n";
        assert_eq!(memory(text), Some((102_400, 71_680)));
        assert_eq!(memory("MemTotal:       100 kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_and_this_machine_have_a_state() {
        let mut sampler = Sampler::new(true);
        sampler.sample();
        let process = sampler.process().unwrap();
        assert!(process.resident_bytes > 0 && process.open_fds >= 3);
        let age = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64()
            - process.start_time_seconds;
        assert!((-2.0..86_400.0).contains(&age), "{age}");
        let machine = sampler.machine().unwrap();
        assert!((0.0..=1.0).contains(&machine.utilization));
        assert!(machine.memory_used_bytes <= machine.memory_total_bytes);
    }

    #[test]
    fn the_machine_is_left_alone_unless_asked_for() {
        let mut sampler = Sampler::new(false);
        sampler.sample();
        assert_eq!(sampler.machine(), None);
    }
}

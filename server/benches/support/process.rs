//! What the threads of another process have done so far, from `/proc`.

use std::{collections::BTreeMap, fs, ops::AddAssign, time::Duration};

use super::Outcome;

/// What a thread, or several, did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work {
    pub threads: usize,
    /// By the scheduler's clock: nanoseconds, where the process's own times are in ticks of 10 ms.
    pub cpu: Duration,
    /// How often it waited, and so was woken.
    pub waits: u64,
    /// How often its processor was taken from it.
    pub preempted: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.threads += other.threads;
        self.cpu += other.cpu;
        self.waits += other.waits;
        self.preempted += other.preempted;
    }
}

/// The threads of a process at one moment, by their number.
#[derive(Debug, Clone)]
pub struct Threads(BTreeMap<String, (String, Work)>);

impl Threads {
    /// # Errors
    /// When the process is gone, or the kernel does not say.
    pub fn read(pid: u32) -> Outcome<Threads> {
        let mut threads = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let task = task?;
            // Threads come and go.
            if let Some(thread) = read(&task.path()) {
                threads.insert(task.file_name().to_string_lossy().into_owned(), thread);
            }
        }
        match threads.is_empty() {
            true => Err(format!("no thread of process {pid} can be read").into()),
            false => Ok(Threads(threads)),
        }
    }

    /// What has been done since, by the threads' names without their numbers. What a thread did that has
    /// ended in between is not known.
    pub fn since(&self, earlier: &Threads) -> BTreeMap<String, Work> {
        let mut kinds = BTreeMap::<String, Work>::new();
        for (number, (name, now)) in &self.0 {
            let before = earlier.0.get(number).map_or(Work::default(), |(_, it)| *it);
            let kind = name.trim_end_matches(|it: char| it.is_ascii_digit());
            *kinds.entry(kind.to_owned()).or_default() += Work {
                threads: 1,
                cpu: now.cpu.saturating_sub(before.cpu),
                waits: now.waits.saturating_sub(before.waits),
                preempted: now.preempted.saturating_sub(before.preempted),
            };
        }
        kinds
    }

    /// All of them together.
    pub fn total_since(&self, earlier: &Threads) -> Work {
        let mut total = Work::default();
        self.since(earlier).into_values().for_each(|it| total += it);
        total
    }
}

/// MiB that a process holds.
///
/// # Errors
/// When it is gone.
pub fn resident(pid: u32) -> Outcome<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|it| it.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes = line.split_whitespace().nth(1).ok_or("no number in VmRSS")?;
    Ok(kilobytes.parse::<f64>()? / 1024.0)
}

fn read(task: &std::path::Path) -> Option<(String, Work)> {
    let text = |file: &str| fs::read_to_string(task.join(file)).ok();
    let nanoseconds = text("schedstat")?.split_whitespace().next()?.parse().ok()?;
    let status = text("status")?;
    let count = |field: &str| {
        let line = status.lines().find(|it| it.starts_with(field))?;
        line.rsplit(char::is_whitespace).next()?.parse().ok()
    };
    let work = Work {
        threads: 1,
        cpu: Duration::from_nanos(nanoseconds),
        waits: count("voluntary_ctxt_switches")?,
        preempted: count("nonvoluntary_ctxt_switches")?,
    };
    Some((text("comm")?.trim().to_owned(), work))
}

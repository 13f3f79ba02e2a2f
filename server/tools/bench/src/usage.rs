//! Processor time: of this thread, of a server's process tree, and time that the hypervisor took away.
//! Read from `/proc`.

use std::{
    collections::BTreeMap,
    fs, io,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::{Error, GpuUsage, Progress, Target, Usage, gpu};

/// Processor time that the calling thread has used so far.
pub(crate) fn own_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Counters of a process and all its descendants, with what those had used that are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// User and system time, in steps of the kernel's clock tick (10 ms).
    pub(crate) cpu: Duration,
    /// The part of it that the kernel used.
    pub(crate) system: Duration,
    /// Times that a thread gave up its processor, of threads that live.
    pub(crate) voluntary_switches: u64,
    /// Times that one was taken off it.
    pub(crate) involuntary_switches: u64,
    /// Bytes of resident memory, of processes that live. What several share is counted for each.
    pub(crate) resident: u64,
}

impl Tree {
    /// What was used since `earlier`, `time` ago.
    pub(crate) fn usage_since(&self, earlier: &Tree, time: Duration) -> Usage {
        let cpu = self.cpu.saturating_sub(earlier.cpu).as_secs_f64();
        let cores = cpu / time.as_secs_f64().max(f64::EPSILON);
        Usage { cores, resident: self.resident }
    }
}

/// Time of all processors together, in clock ticks since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    total: u64,
    stolen: u64,
}

impl Machine {
    /// Share of the time between `earlier` and this that the hypervisor gave to others.
    pub(crate) fn steal_since(&self, earlier: &Machine) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        self.stolen.saturating_sub(earlier.stolen) as f64 / total.max(1) as f64
    }
}

/// What is looked at when the measurement begins and when it ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) machine: Machine,
    /// Processor time of the load generator.
    pub(crate) own: Duration,
    pub(crate) server: Option<Tree>,
    pub(crate) gpu: Option<GpuUsage>,
}

/// A process whose use of the machine is told, with that of its descendants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerProcess {
    pub(crate) pid: u32,
    /// What it uses is not known once it is gone. Otherwise it is an error that it is not there.
    pub(crate) may_go: bool,
}

/// Takes readings on a thread of its own: looking through `/proc` takes milliseconds, in which the event loop would
/// read replies late.
#[derive(Debug)]
pub(crate) struct Readings {
    asked: mpsc::Sender<Duration>,
    thread: thread::JoinHandle<Vec<Result<Reading, Error>>>,
}

impl Readings {
    /// Of the machine, of a process of the server with its descendants, and of the GPUs that a page of metrics tells
    /// of. What the processes used between two readings is told to `progress`.
    pub(crate) fn begin(
        process: Option<ServerProcess>,
        metrics: Option<Target>,
        progress: Option<Arc<Progress>>,
    ) -> Result<Readings, Error> {
        let (asked, requests) = mpsc::channel();
        let take = move || {
            let mut last: Option<(Instant, Tree)> = None;
            let reading = |own| {
                let server = match process {
                    Some(it) if it.may_go => tree(it.pid).ok(),
                    it => it.map(|it| tree(it.pid)).transpose()?,
                };
                let now = server.map(|it| (Instant::now(), it));
                if let (Some(progress), Some(last), Some(now)) = (&progress, last, now) {
                    let usage = now.1.usage_since(&last.1, now.0 - last.0);
                    progress.see(|it| it.usage = Some(usage));
                }
                last = now;
                Ok(Reading {
                    machine: machine(),
                    own,
                    server,
                    gpu: metrics.as_ref().and_then(gpu::read),
                })
            };
            requests.into_iter().map(reading).collect()
        };
        let thread = thread::Builder::new().name("usage".to_owned()).spawn(take);
        Ok(Readings { asked, thread: thread.map_err(Error::system("thread"))? })
    }

    /// Asks for one of this moment, on the thread of the load generator.
    pub(crate) fn take(&self) {
        // The thread ends only after this value.
        let _ = self.asked.send(own_cpu());
    }

    /// All that were asked for, in their order.
    pub(crate) fn finish(self) -> Result<Vec<Result<Reading, Error>>, Error> {
        drop(self.asked);
        let panicked = |_| Error::System { what: "usage", source: io::Error::other("panicked") };
        self.thread.join().map_err(panicked)
    }
}

/// Zeros where the file cannot be read: steal is then reported as none.
fn machine() -> Machine {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let fields: Vec<u64> = first.split_ascii_whitespace().skip(1).flat_map(str::parse).collect();
    // The ninth and tenth are guest time, which is part of user time.
    let total = fields.iter().take(8).sum();
    Machine { total, stolen: fields.get(7).copied().unwrap_or(0) }
}

/// The counters of `pid` and its descendants.
fn tree(pid: u32) -> Result<Tree, Error> {
    let failed = |source| Error::Process { pid, source };
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc").map_err(failed)?.flatten() {
        let Some(found) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else {
            continue;
        };
        // A process that ends while we look is counted by its parent.
        let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(stat) = parse_stat(&text) {
            processes.insert(found, stat);
        }
    }
    if !processes.contains_key(&pid) {
        return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
    }
    let mut tree = Tree::default();
    let (mut ticks, mut system_ticks) = (0, 0);
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        let Some(stat) = processes.remove(&pid) else { continue };
        ticks += stat.ticks;
        system_ticks += stat.system_ticks;
        tree.resident += stat.resident_pages * rustix::param::page_size() as u64;
        add_switches(pid, &mut tree);
        left.extend(processes.iter().filter(|(_, it)| it.parent == pid).map(|(&pid, _)| pid));
    }
    let duration =
        |ticks| Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32;
    (tree.cpu, tree.system) = (duration(ticks), duration(system_ticks));
    Ok(tree)
}

/// The process that has started another one.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text).map(|it| it.parent)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Own user and system time and that of children that were waited for.
    ticks: u64,
    /// The system time among it.
    system_ticks: u64,
    /// Pages of memory.
    resident_pages: u64,
}

/// The line of `/proc/<pid>/stat`. The name in it may hold spaces and parentheses, so that fields are
/// counted from the last closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let system_ticks = ticks(12)? + ticks(14)?;
    let resident_pages = ticks(21)?;
    Some(Stat {
        parent,
        ticks: ticks(11)? + ticks(13)? + system_ticks,
        system_ticks,
        resident_pages,
    })
}

/// Adds the context switches of each thread of a process.
fn add_switches(pid: u32, tree: &mut Tree) {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let field = |name: &str| -> u64 {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
        };
        tree.voluntary_switches += field("voluntary_ctxt_switches");
        tree.involuntary_switches += field("nonvoluntary_ctxt_switches");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read,
        process::{Command, Stdio},
    };

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = "7 (a) b) R 3 7 7 0 -1 4194304 9 9 9 9 100 20 3 4 20 0 1 0 5 6 7 8";
        assert_eq!(
            parse_stat(line),
            Some(Stat { parent: 3, ticks: 127, system_ticks: 24, resident_pages: 7 })
        );
        assert_eq!(parse_stat("7 (a) R 3"), None);
    }

    #[test]
    fn the_time_of_children_counts_while_they_live_and_after() {
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut parent = Command::new("sh")
            .args(["-c", &format!("sh -c '{burn}'; echo done; read x")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let used = || tree(parent.id()).unwrap().cpu.as_millis();
        let start = Instant::now();
        while used() < 50 && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(5));
        }
        let living = used();
        assert!(living >= 50, "{living} ms");
        // The line comes when the child has ended and been waited for.
        let mut line = [0; 5];
        parent.stdout.take().unwrap().read_exact(&mut line).unwrap();
        let after = tree(parent.id()).unwrap();
        assert!(after.cpu.as_millis() >= living, "{after:?} < {living}");
        // At least to wait for its child.
        assert!(after.voluntary_switches > 0, "{after:?}");
        drop(parent.stdin.take());
        parent.wait().unwrap();
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(matches!(tree(u32::MAX), Err(Error::Process { pid: u32::MAX, .. })));
    }

    #[test]
    fn a_process_that_may_go_is_no_error_and_none_is_read() {
        let readings = |may_go| {
            let process = ServerProcess { pid: u32::MAX, may_go };
            let readings = Readings::begin(Some(process), None, None).unwrap();
            readings.take();
            readings.finish().unwrap().remove(0)
        };
        assert_eq!(readings(true).unwrap().server, None);
        assert!(matches!(readings(false), Err(Error::Process { .. })));
    }

    #[test]
    fn the_share_that_was_stolen() {
        let earlier = Machine { total: 1000, stolen: 10 };
        assert_eq!(Machine { total: 1200, stolen: 16 }.steal_since(&earlier), 0.03);
        assert_eq!(earlier.steal_since(&earlier), 0.0);
    }
}

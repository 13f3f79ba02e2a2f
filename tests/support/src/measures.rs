//! What a process takes of the machine, as `/proc` says it.

use std::{fs, time::Duration};

use super::Process;

/// Resident memory of a process, in MiB.
pub fn resident(process: &Process) -> i64 {
    let statm = fs::read_to_string(format!("/proc/{}/statm", process.id())).unwrap();
    let pages: i64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * 4096) >> 20
}

/// Time of processors that a process has had.
pub fn busy(process: &Process) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|it| it.parse::<u64>().unwrap());
    // USER_HZ is 100 on all platforms that Linux runs on.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Memory that a process has for itself, in bytes; `None` where it has ended.
pub fn try_anonymous(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

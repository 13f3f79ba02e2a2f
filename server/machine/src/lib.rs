//! What this process may use of the machine: processors, memory, open files, and GPUs. A container with half a
//! processor still sees all of them, so the limits are read from control groups and the affinity mask.
#![forbid(unsafe_code)]

mod cgroup;
pub mod gpus;
mod kept_file;
mod memory;

use std::path::Path;

use rustix::process::Resource;

use cgroup::Groups;
pub use cgroup::MemoryGauge;
use memory::memory_of;
pub use memory::{
    AvailableMemory, MemoryLeft, OwnMemory, anonymous_bytes, available_bytes, resident_bytes,
};

/// Processors, memory and files that this process has. Read again to follow a changed quota.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Threads that can run at once, at least 1: quota, affinity and online processors, the least of
    /// them, rounded up.
    pub cpus: usize,
    /// Why so many: `2 of 8 processors: cgroup quota 1.5`.
    pub cpu_reason: String,
    /// Bytes of memory before the kernel kills the process; `None` where no limit is set.
    pub memory: Option<u64>,
    /// Why so much: `512 MiB of 16 GiB: cgroup limit`.
    pub memory_reason: String,
    /// File descriptors that this process may have open; `None` for any number.
    pub open_files: Option<u64>,
    /// Bytes of addresses that this process may have; `None` for any number.
    pub address_space: Option<u64>,
    /// Bytes of the largest file that this process may make; `None` for any number.
    pub largest_file: Option<u64>,
}

impl Machine {
    /// Reads the limits of this process. Reads a dozen small files of `/proc` and `/sys`.
    pub fn read() -> Machine {
        let affinity = rustix::thread::sched_getaffinity(None).ok().map(|it| it.count() as usize);
        let limit = |of| rustix::process::getrlimit(of).current;
        let files = limit(Resource::Nofile);
        Machine {
            address_space: limit(Resource::As),
            largest_file: limit(Resource::Fsize),
            ..Machine::from_files(&|path| std::fs::read_to_string(path).ok(), affinity, files)
        }
    }

    /// The decision itself. `read` gives the text of a file, or `None`; `affinity` is the number of
    /// processors in the affinity mask.
    fn from_files(
        read: &dyn Fn(&Path) -> Option<String>,
        affinity: Option<usize>,
        open_files: Option<u64>,
    ) -> Machine {
        let groups = Groups::read(read);
        let online =
            read(Path::new("/sys/devices/system/cpu/online")).and_then(|it| count_list(&it));
        let (cpus, cpu_reason) = decide_cpus(online, affinity, groups.cpu_quota());
        let total = read(Path::new("/proc/meminfo")).and_then(|it| total_memory(&it));
        let (memory, memory_reason) = decide_memory(total, groups.memory_limit());
        let (address_space, largest_file) = (None, None);
        Machine { cpus, cpu_reason, memory, memory_reason, open_files, address_space, largest_file }
    }
}

impl MemoryGauge {
    /// The gauge of the group above this process whose limit is the strictest; `None` where none has a limit.
    pub fn read() -> Option<MemoryGauge> {
        Groups::read(&|path| std::fs::read_to_string(path).ok()).memory_gauge()
    }
}

/// What the processors are, such as `AMD EPYC 7B13`; `None` where the system does not say it.
pub fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|it| it.strip_prefix("model name"))?;
    let name = name.trim_start_matches([':', ' ', '\t']).trim_end();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The machine in words, for whoever reads numbers that were measured on it: `2 processors (AMD EPYC 7B13), 15.6 GiB of
/// memory`.
pub fn in_words() -> String {
    let Machine { cpus, memory, .. } = Machine::read();
    let plural = if cpus == 1 { "" } else { "s" };
    let kind = processor_name().map_or_else(String::new, |it| format!(" ({it})"));
    let memory = memory.map_or_else(String::new, |it| format!(", {} of memory", bytes_text(it)));
    format!("{cpus} processor{plural}{kind}{memory}")
}

/// The least of the three, and why. `quota` in processors, as 1.5.
fn decide_cpus(
    online: Option<usize>,
    affinity: Option<usize>,
    quota: Option<f64>,
) -> (usize, String) {
    let all = online.or(affinity).unwrap_or(1).max(1);
    let mut cpus = all;
    let mut reason = None;
    if let Some(affinity) = affinity.filter(|&it| it >= 1 && it < cpus) {
        cpus = affinity;
        reason = Some("affinity mask".to_owned());
    }
    // A tiny excess, as 2.0001, is rounding in the quota and not another processor.
    if let Some(quota) = quota.filter(|&it| (it - 0.001).ceil() < cpus as f64) {
        cpus = ((quota - 0.001).ceil() as usize).max(1);
        let number = format!("{quota:.2}");
        let number = number.trim_end_matches('0').trim_end_matches('.');
        reason = Some(format!("cgroup quota {number}"));
    }
    let plural = if all == 1 { "" } else { "s" };
    match reason {
        Some(reason) => (cpus, format!("{cpus} of {all} processor{plural}: {reason}")),
        None => (cpus, format!("{cpus} processor{plural}")),
    }
}

/// The lesser of the two, and why.
fn decide_memory(total: Option<u64>, limit: Option<u64>) -> (Option<u64>, String) {
    match (total, limit) {
        (Some(total), Some(limit)) if limit < total => {
            (Some(limit), format!("{} of {}: cgroup limit", bytes_text(limit), bytes_text(total)))
        }
        (Some(total), _) => (Some(total), bytes_text(total)),
        (None, Some(limit)) => (Some(limit), format!("{}: cgroup limit", bytes_text(limit))),
        (None, None) => (None, "unknown".to_owned()),
    }
}

/// A number of bytes for people: `512 MiB`, `1.5 GiB`.
pub fn bytes_text(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = "bytes";
    for name in units {
        unit = name;
        if size < 1024.0 || name == "TiB" {
            break;
        }
        size /= 1024.0;
    }
    let number = format!("{size:.1}");
    format!("{} {unit}", number.trim_end_matches(".0"))
}

/// How many numbers a kernel list such as `0-3,8` holds; `None` if it is no such list.
fn count_list(text: &str) -> Option<usize> {
    let mut count = 0usize;
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (low.parse::<usize>().ok()?, high.parse::<usize>().ok()?);
        count = count.checked_add(high.checked_sub(low)?.checked_add(1)?)?;
    }
    Some(count)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    memory_of(meminfo, "MemTotal:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const MEMINFO: (&str, &str) =
        ("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n");
    const ONLINE: (&str, &str) = ("/sys/devices/system/cpu/online", "0-7\n");
    const V2_MOUNT: (&str, &str) = (
        "/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
    );

    #[track_caller]
    fn check(
        files: &[(&str, &str)],
        affinity: usize,
        cpus: (usize, &str),
        memory: (Option<u64>, &str),
    ) {
        let files: HashMap<&Path, &str> =
            files.iter().map(|&(path, text)| (Path::new(path), text)).collect();
        let read = |path: &Path| files.get(path).map(|&it| it.to_owned());
        let machine = Machine::from_files(&read, Some(affinity), None);
        assert_eq!((machine.cpus, &*machine.cpu_reason), cpus);
        assert_eq!((machine.memory, &*machine.memory_reason), memory);
    }

    const GIB: u64 = 1 << 30;

    #[test]
    fn without_limits_the_whole_machine_is_ours() {
        check(&[MEMINFO, ONLINE], 8, (8, "8 processors"), (Some(16 * GIB), "16 GiB"));
    }

    #[test]
    fn a_machine_that_tells_nothing_has_one_processor() {
        let machine = Machine::from_files(&|_| None, None, None);
        assert_eq!((machine.cpus, machine.memory), (1, None));
    }

    #[test]
    fn v2_limits_of_a_container_are_heeded() {
        let files = [
            MEMINFO,
            ONLINE,
            V2_MOUNT,
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/memory.max", "536870912\n"),
        ];
        check(
            &files,
            8,
            (2, "2 of 8 processors: cgroup quota 1.5"),
            (Some(GIB / 2), "512 MiB of 16 GiB: cgroup limit"),
        );
    }

    #[test]
    fn v2_max_is_no_limit() {
        let files = [
            MEMINFO,
            ONLINE,
            V2_MOUNT,
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/memory.max", "max\n"),
        ];
        check(&files, 8, (8, "8 processors"), (Some(16 * GIB), "16 GiB"));
    }

    #[test]
    fn a_nested_group_is_bound_by_the_strictest_of_its_ancestors() {
        let files = [
            MEMINFO,
            ONLINE,
            V2_MOUNT,
            ("/proc/self/cgroup", "0::/pod/container/inner\n"),
            ("/sys/fs/cgroup/pod/container/inner/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/pod/container/inner/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/pod/container/cpu.max", "600000 100000\n"),
            ("/sys/fs/cgroup/pod/container/memory.max", "max\n"),
            ("/sys/fs/cgroup/pod/cpu.max", "300000 100000\n"),
            ("/sys/fs/cgroup/pod/memory.max", "2147483648\n"),
        ];
        check(
            &files,
            8,
            (3, "3 of 8 processors: cgroup quota 3"),
            (Some(2 * GIB), "2 GiB of 16 GiB: cgroup limit"),
        );
    }

    #[test]
    fn v1_limits_of_a_container_are_found_under_its_bind_mount() {
        let files = [
            MEMINFO,
            ONLINE,
            (
                "/proc/self/mountinfo",
                "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                 35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro master:9 - cgroup cgroup rw,memory\n",
            ),
            ("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpuacct,cpu:/docker/abc\n0::/\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
        ];
        check(
            &files,
            8,
            (1, "1 of 8 processors: cgroup quota 0.5"),
            (Some(GIB), "1 GiB of 16 GiB: cgroup limit"),
        );
    }

    #[test]
    fn v1_without_limits_says_minus_one_and_a_huge_number() {
        let files = [
            MEMINFO,
            ONLINE,
            (
                "/proc/self/mountinfo",
                "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("/proc/self/cgroup", "4:memory:/\n1:cpu:/\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        check(&files, 8, (8, "8 processors"), (Some(16 * GIB), "16 GiB"));
    }

    #[test]
    fn the_affinity_mask_counts_and_a_wider_quota_does_not() {
        let files = [
            MEMINFO,
            ONLINE,
            V2_MOUNT,
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/cpu.max", "500000 100000\n"),
        ];
        check(&files, 3, (3, "3 of 8 processors: affinity mask"), (Some(16 * GIB), "16 GiB"));
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(count_list("0-3,8,10-11\n"), Some(7));
        assert_eq!(count_list("0\n"), Some(1));
        assert_eq!(count_list("3-1"), None);
        assert_eq!(count_list("some"), None);
    }

    #[test]
    fn this_machine_has_at_least_one_processor() {
        let machine = Machine::read();
        assert!(machine.cpus >= 1, "{machine:?}");
        assert!(machine.memory.is_some_and(|it| it > 1 << 20), "{machine:?}");
        let words = in_words();
        assert!(words.starts_with(&format!("{} processor", machine.cpus)), "{words}");
        assert!(words.ends_with("iB of memory"), "{words}");
        let name = processor_name().unwrap_or_default();
        assert!(words.contains(&name) && !name.starts_with(':'), "{words}");
    }
}

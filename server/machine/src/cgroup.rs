//! Limits of control groups, version 1 and 2: from the group of this process up to the mount point, the
//! strictest one counts.

use std::path::{Component, Path, PathBuf};

use crate::kept_file::KeptFile;

type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The limits of every group above this process, nearest first, of both hierarchies.
pub(super) struct Groups {
    /// Processors, as 1.5.
    quotas: Vec<f64>,
    /// Bytes.
    limits: Vec<u64>,
    /// The groups of `limits`.
    gauges: Vec<MemoryGauge>,
}

impl Groups {
    /// Reads them through `read`, which gives the text of a file or `None`.
    pub(super) fn read(read: Read<'_>) -> Groups {
        let memberships = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
        let mut groups = Groups { quotas: Vec::new(), limits: Vec::new(), gauges: Vec::new() };
        for mount in mounts.lines().filter_map(Mount::parse) {
            for group in mount.groups(&memberships) {
                groups.quotas.extend(mount.cpu_quota(&group, read));
                let limit = mount.memory_limit(&group, read);
                groups.limits.extend(limit);
                groups.gauges.extend(limit.map(|it| MemoryGauge::new(&mount, &group, it)));
            }
        }
        groups
    }

    /// The strictest quota, in processors.
    pub(super) fn cpu_quota(&self) -> Option<f64> {
        self.quotas.iter().copied().min_by(f64::total_cmp)
    }

    /// The strictest limit, in bytes.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        self.limits.iter().copied().min()
    }

    /// The gauge of the group with the strictest limit.
    pub(super) fn memory_gauge(self) -> Option<MemoryGauge> {
        self.gauges.into_iter().min_by_key(|it| it.limit)
    }
}

/// What a control group takes of its memory, by the kernel's own count: the figure by which it ends processes. A look
/// takes none of that memory, but for the first.
#[derive(Debug, Clone)]
pub struct MemoryGauge {
    /// Bytes that the group may take.
    pub limit: u64,
    taken: KeptFile,
    statistics: KeptFile,
    /// The lines of the statistics that count pages which the kernel can drop.
    droppable: &'static [&'static str],
}

impl MemoryGauge {
    fn new(mount: &Mount, group: &Path, limit: u64) -> MemoryGauge {
        let (taken, droppable): (_, &[_]) = match mount.hierarchy {
            Hierarchy::V2 => {
                ("memory.current", &["inactive_file ", "active_file ", "slab_reclaimable "])
            }
            Hierarchy::V1 { .. } => {
                ("memory.usage_in_bytes", &["total_inactive_file ", "total_active_file "])
            }
        };
        MemoryGauge {
            limit,
            taken: KeptFile::new(group.join(taken)),
            statistics: KeptFile::new(group.join("memory.stat")),
            droppable,
        }
    }

    /// Bytes that the group takes, without what the kernel can drop where that matters, which is above `enough`;
    /// `None` where the kernel does not say.
    pub fn taken(&self, enough: u64) -> Option<u64> {
        self.taken_by(enough, &KeptFile::read)
    }

    fn taken_by(&self, enough: u64, read: &dyn Fn(&KeptFile) -> Option<String>) -> Option<u64> {
        let all: u64 = read(&self.taken)?.trim().parse().ok()?;
        if all <= enough {
            return Some(all);
        }
        let statistics = read(&self.statistics).unwrap_or_default();
        let count = |line: &str| {
            let value = self.droppable.iter().find_map(|it| line.strip_prefix(it))?;
            value.trim().parse::<u64>().ok()
        };
        Some(all.saturating_sub(statistics.lines().filter_map(count).sum()))
    }
}

/// One mounted hierarchy.
struct Mount {
    /// The group that is seen at the mount point.
    root: PathBuf,
    /// Where it is mounted.
    point: PathBuf,
    hierarchy: Hierarchy,
}

enum Hierarchy {
    V2,
    /// With the controllers of this mount.
    V1 {
        cpu: bool,
        memory: bool,
    },
}

impl Mount {
    /// A line of `/proc/self/mountinfo`: id, parent, device, root, mount point, options, any number of
    /// optional fields, `-`, type, source, options of the file system. `None` for other file systems.
    fn parse(line: &str) -> Option<Mount> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?.into(), mount.next()?.into());
        let mut file_system = file_system.split(' ');
        let hierarchy = match file_system.next()? {
            "cgroup2" => Hierarchy::V2,
            "cgroup" => {
                let options = file_system.nth(1)?;
                let has = |name| options.split(',').any(|it| it == name);
                Hierarchy::V1 { cpu: has("cpu"), memory: has("memory") }
            }
            _ => return None,
        };
        Some(Mount { root, point, hierarchy })
    }

    /// The folders of this process's group and its ancestors, nearest first. `memberships` is the text
    /// of `/proc/self/cgroup`: a line `id:controllers:path` for each hierarchy.
    fn groups(&self, memberships: &str) -> Vec<PathBuf> {
        let path = memberships.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let has = |name| controllers.split(',').any(|it| it == name);
            let ours = match self.hierarchy {
                Hierarchy::V2 => controllers.is_empty(),
                Hierarchy::V1 { cpu, memory } => (cpu && has("cpu")) || (memory && has("memory")),
            };
            ours.then_some(path)
        });
        // A group outside what is mounted (another namespace's, `/../x`) cannot be read: the mount
        // point is then the nearest group that can.
        let below = path
            .and_then(|it| Path::new(it).strip_prefix(&self.root).ok())
            .filter(|it| it.components().all(|it| matches!(it, Component::Normal(_))))
            .unwrap_or(Path::new(""));
        below.ancestors().map(|it| self.point.join(it)).collect()
    }

    /// The quota of one group, in processors.
    fn cpu_quota(&self, group: &Path, read: Read<'_>) -> Option<f64> {
        match self.hierarchy {
            Hierarchy::V2 => parse_cpu_max(&read(&group.join("cpu.max"))?),
            Hierarchy::V1 { cpu: true, .. } => quota(
                &read(&group.join("cpu.cfs_quota_us"))?,
                &read(&group.join("cpu.cfs_period_us"))?,
            ),
            Hierarchy::V1 { .. } => None,
        }
    }

    /// The memory limit of one group, in bytes. Version 1 writes "no limit" as a number near 2⁶³, which
    /// the size of the machine beats anyway.
    fn memory_limit(&self, group: &Path, read: Read<'_>) -> Option<u64> {
        let file = match self.hierarchy {
            Hierarchy::V2 => "memory.max",
            Hierarchy::V1 { memory: true, .. } => "memory.limit_in_bytes",
            Hierarchy::V1 { .. } => return None,
        };
        read(&group.join(file))?.trim().parse().ok()
    }
}

/// `cpu.max`: quota and period in microseconds, or `max` and period.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (given, period) = text.trim().split_once(' ')?;
    quota(given, period)
}

/// Processors for a quota and a period in microseconds; `None` for no limit (`max`, `-1`).
fn quota(quota: &str, period: &str) -> Option<f64> {
    let quota: i64 = quota.trim().parse().ok()?;
    let period: i64 = period.trim().parse().ok()?;
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_max_is_quota_over_period() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("100000 0"), None);
        assert_eq!(parse_cpu_max(""), None);
    }

    #[test]
    fn a_group_outside_the_mount_is_read_at_the_mount_point() {
        let line = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.groups("0::/../other\n"), [PathBuf::from("/sys/fs/cgroup/")]);
        assert_eq!(
            mount.groups("0::/docker/abc/x\n"),
            [PathBuf::from("/sys/fs/cgroup/x"), PathBuf::from("/sys/fs/cgroup/")]
        );
    }

    #[test]
    fn what_a_group_takes_is_the_kernels_count_without_files_that_can_be_dropped() {
        for (line, membership, names) in [
            (
                "30 23 0:26 / /cg ro - cgroup2 cgroup2 rw",
                "0::/x\n",
                ["memory.current", "inactive_file 30\nactive_file 5\nanon 50\nfile 35\n"],
            ),
            (
                "30 23 0:26 / /cg ro - cgroup cgroup rw,memory",
                "3:memory:/x\n",
                [
                    "memory.usage_in_bytes",
                    "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 5\n",
                ],
            ),
        ] {
            let mount = Mount::parse(line).unwrap();
            let group = mount.groups(membership).remove(0);
            assert_eq!(group, Path::new("/cg/x"));
            let gauge = MemoryGauge::new(&mount, &group, 100);
            let read = |file: &KeptFile| {
                let name = file.path.strip_prefix("/cg/x").unwrap().to_str().unwrap();
                match name {
                    "memory.stat" => Some(names[1].to_owned()),
                    name => (name == names[0]).then(|| "90\n".to_owned()),
                }
            };
            assert_eq!(gauge.taken_by(0, &read), Some(55), "{line}");
            assert_eq!(gauge.taken_by(90, &read), Some(90), "{line}");
            assert_eq!(gauge.taken_by(0, &|_| None), None);
        }
    }

    #[test]
    fn other_file_systems_are_no_groups() {
        assert!(Mount::parse("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755").is_none());
        assert!(Mount::parse("").is_none());
    }
}

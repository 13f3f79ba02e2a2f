//! Has the system ended a process of this control group for want of memory?

use std::{fs, path::PathBuf};

/// How many processes of this process's control group the system has ended for want of memory. `None` where it does not
/// say. Workers are in the group of their server.
pub(crate) fn kills() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    files(&groups).iter().find_map(|it| count(&fs::read_to_string(it).ok()?))
}

/// Where the group's counter may be: version 2 of control groups, then version 1. A container sees its own group as
/// the root, whatever its path is.
fn files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.events"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.oom_control")
            }
            _ => continue,
        };
        let own = PathBuf::from(root).join(path.trim_start_matches('/')).join(file);
        files.extend([own, PathBuf::from(root).join(file)]);
    }
    files.dedup();
    files
}

/// The line `oom_kill 3`.
fn count(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|it| it.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_have_a_counter() {
        let events = "low 0\nhigh 4\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n";
        assert_eq!(count(events), Some(3));
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n";
        assert_eq!(count(control), Some(5));
        assert_eq!(count("oom 2\n"), None);
    }

    #[test]
    fn the_counter_of_the_own_group_goes_before_that_of_the_root() {
        let paths = |groups| -> Vec<String> {
            files(groups).iter().map(|it| it.display().to_string()).collect()
        };
        assert_eq!(
            paths("0::/kubepods/pod1\n"),
            ["/sys/fs/cgroup/kubepods/pod1/memory.events", "/sys/fs/cgroup/memory.events"]
        );
        assert_eq!(paths("0::/\n"), ["/sys/fs/cgroup/memory.events"]);
        assert_eq!(
            paths("7:cpu,cpuacct:/a\n4:memory:/a:b\n"),
            [
                "/sys/fs/cgroup/memory/a:b/memory.oom_control",
                "/sys/fs/cgroup/memory/memory.oom_control"
            ]
        );
    }
}

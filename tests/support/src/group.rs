//! A control group of the kernel's that bounds the memory of a process. Most machines let only the root user make one.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::wait_for;

/// A control group; removed when it is dropped, which must be after the end of its processes.
pub struct Group(PathBuf);

impl Group {
    /// A group whose processes have `memory` bytes and no swap; `None` where none can be made.
    pub fn make(memory: u64) -> Option<Group> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-tests-{}-{number}", std::process::id());
        let swap = (memory.to_string(), "0".to_owned());
        for (mount, limit, (swap_limit, swap)) in [
            (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                ("memory.memsw.limit_in_bytes", swap.0),
            ),
            ("/sys/fs/cgroup", "memory.max", ("memory.swap.max", swap.1)),
        ] {
            let path = Path::new(mount).join(&name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            let group = Group(path);
            // A directory that is no group has no such file.
            let limit = fs::OpenOptions::new().write(true).open(group.0.join(limit));
            let bounded =
                limit.is_ok_and(|mut it| it.write_all(memory.to_string().as_bytes()).is_ok());
            // Kernels that count no swap lack this file.
            let swap_limit = fs::OpenOptions::new().write(true).open(group.0.join(swap_limit));
            let _ = swap_limit.map(|mut it| it.write_all(swap.as_bytes()));
            if bounded && group.takes_processes() {
                return Some(group);
            }
        }
        None
    }

    /// The command that runs its arguments as a program within the group: `sh -c` with this text.
    pub fn script(&self) -> String {
        format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.0.display())
    }

    fn takes_processes(&self) -> bool {
        let status = Command::new("sh").args(["-c", &self.script(), "true"]).status();
        status.is_ok_and(|it| it.success())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets a process go a moment after its end.
        wait_for("the control group to be empty", || fs::remove_dir(&self.0).ok());
    }
}

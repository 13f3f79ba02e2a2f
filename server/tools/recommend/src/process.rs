//! Processes of this machine, as `/proc` tells of them.

use std::fs;

/// When a process began, in the kernel's ticks since boot; `None` for one that is gone or a zombie.
pub(crate) fn start_of(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may hold spaces and parentheses.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    fields.first().filter(|it| !["Z", "X"].contains(it))?;
    fields.get(19)?.parse().ok()
}

/// A process that may end while it is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedProcess {
    pid: u32,
    start: Option<u64>,
}

impl ObservedProcess {
    /// The process of that number as it is now.
    pub(crate) fn new(pid: u32) -> ObservedProcess {
        ObservedProcess { pid, start: start_of(pid) }
    }

    /// Has it ended? Its number may be another process's by now, which has begun at another time.
    pub(crate) fn is_gone(&self) -> bool {
        self.start.is_none() || start_of(self.pid) != self.start
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn a_process_that_has_ended_is_gone_before_anybody_has_waited_for_it() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let watched = ObservedProcess::new(child.id());
        assert!(!watched.is_gone());
        drop(child.stdin.take());
        // Whoever looks sees the zombie in the end.
        let until = Instant::now() + Duration::from_secs(20);
        while !watched.is_gone() {
            assert!(Instant::now() < until, "it is still there");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(watched.is_gone() && ObservedProcess::new(child.id()).is_gone());
    }
}

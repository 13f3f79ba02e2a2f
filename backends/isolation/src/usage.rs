//! What a process uses, as the system tells: memory that is its own, and processor time.

use std::{fs, time::Duration};

use rustix::param::{clock_ticks_per_second, page_size};

/// What a process uses at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Resident memory that it shares with nobody, in bytes.
    pub(crate) private_bytes: u64,
    /// User and system time since its start.
    pub(crate) cpu: Duration,
}

impl Usage {
    /// That of a process which has not been waited for. `None` where the system does not say. Two short reads.
    pub(crate) fn of(pid: u32) -> Option<Usage> {
        let private = private_pages(&fs::read_to_string(format!("/proc/{pid}/statm")).ok()?)?;
        Some(Usage { private_bytes: private.saturating_mul(page_size() as u64), cpu: cpu_of(pid)? })
    }
}

/// The processor time of a process that has not been waited for, also where it has ended.
pub(crate) fn cpu_of(pid: u32) -> Option<Duration> {
    let ticks = cpu_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    Some(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// `/proc/<pid>/statm`: the second number is what is resident, the third what of it files and shared memory are.
fn private_pages(text: &str) -> Option<u64> {
    let mut pages = text.split_ascii_whitespace().skip(1).map_while(|it| it.parse::<u64>().ok());
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared))
}

/// `/proc/<pid>/stat`: fields 14 and 15, from 1.
fn cpu_ticks(text: &str) -> Option<u64> {
    // The name of the program, the second field, may itself hold brackets and spaces.
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(14 - 3);
    let mut field = || fields.next()?.parse::<u64>().ok();
    field()?.checked_add(field()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_not_the_process_s_own() {
        assert_eq!(private_pages("900 120 20 5 0 80 0\n"), Some(100));
        assert_eq!(private_pages("900 20 120 5 0 80 0"), Some(0));
        assert_eq!(private_pages("900"), None);
    }

    #[test]
    fn both_times_count_whatever_the_program_is_called() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194304 103 0 0 0 250 50 9 9 20 0 1 0 4321 999 77 1";
        assert_eq!(cpu_ticks(text), Some(300));
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn memory_that_this_process_writes_is_its_own() {
        let before = Usage::of(std::process::id()).unwrap();
        let written = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = Usage::of(std::process::id()).unwrap();
        assert!(before.private_bytes + (32 << 20) < after.private_bytes, "{before:?} {after:?}");
        assert!(before.cpu <= after.cpu);
        drop(written);
    }
}

//! What of a sandbox the kernel can do.

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};

use super::{order::Sandbox, refusal::SandboxError, threads};

/// What of a sandbox the kernel can do, and what the process may ask of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) has_landlock: bool,
    /// Are files that may be read kept from being emptied?
    guards_truncation: bool,
    pub(crate) has_seccomp: bool,
    /// Can it ask the server before a worker starts a thread?
    pub(super) asks_before_threads: bool,
}

impl Kernel {
    pub(crate) fn ask() -> Kernel {
        Kernel {
            has_landlock: has_landlock(ABI::V1),
            guards_truncation: has_landlock(ABI::V3),
            has_seccomp: has_seccomp(),
            asks_before_threads: threads::can_be_asked(),
        }
    }

    /// What is missing, and what workers can do for that reason.
    pub(crate) fn lacks(self) -> Vec<&'static str> {
        let lacks = [
            (
                self.has_landlock,
                "landlock (Linux 5.13 or later, switched on): workers read and write what the server may",
            ),
            (
                self.guards_truncation || !self.has_landlock,
                "landlock's guard against truncation (Linux 6.2): workers can empty files that they may read, where \
                 the system's permissions allow it",
            ),
            (
                self.has_seccomp,
                "seccomp filters: workers have sockets, start programs and send signals as the server may",
            ),
            (
                self.asks_before_threads || !self.has_seccomp,
                "seccomp's notifications (Linux 5.5): workers start as many threads as the system lets them",
            ),
        ];
        lacks.into_iter().filter(|(has, _)| !has).map(|(_, lack)| lack).collect()
    }

    /// # Errors
    /// What is missing, where that sandbox cannot be without it.
    pub(crate) fn suffices(self, sandbox: Sandbox) -> Result<(), SandboxError> {
        if sandbox != Sandbox::Strict || (self.has_landlock && self.has_seccomp) {
            return Ok(());
        }
        Err(SandboxError::Kernel(self.lacks().join("; and it lacks ")))
    }
}

fn has_landlock(abi: ABI) -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(abi)).and_then(Ruleset::create).is_ok()
}

fn has_seccomp() -> bool {
    rustix::thread::secure_computing_mode().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

    /// A kernel without that call, for the calling thread.
    fn take_away(call: i64) {
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let missing = SeccompAction::Errno(libc::ENOSYS as u32);
        let calls = BTreeMap::from([(call, Vec::new())]);
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, missing, arch).unwrap();
        let program: BpfProgram = filter.try_into().unwrap();
        apply_filter(&program).unwrap();
    }

    #[test]
    fn what_the_kernel_lacks_is_named_and_a_strict_sandbox_is_refused_without_it() {
        std::thread::spawn(|| {
            if !Kernel::ask().has_seccomp {
                return;
            }
            take_away(libc::SYS_landlock_create_ruleset);
            let kernel = Kernel::ask();
            assert!(!kernel.has_landlock && kernel.has_seccomp);
            assert_eq!(kernel.lacks().len(), 1);
            assert!(kernel.suffices(Sandbox::On).is_ok());
            let error = kernel.suffices(Sandbox::Strict).unwrap_err().to_string();
            assert!(error.contains("the kernel lacks landlock"), "{error}");
            take_away(libc::SYS_prctl);
            let error = Kernel::ask().suffices(Sandbox::Strict).unwrap_err().to_string();
            assert!(error.contains("landlock") && error.contains("seccomp filters"), "{error}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_there_is_not_named() {
        let all = Kernel {
            has_landlock: true,
            guards_truncation: true,
            has_seccomp: true,
            asks_before_threads: true,
        };
        assert!(all.lacks().is_empty() && all.suffices(Sandbox::Strict).is_ok());
        let older = Kernel { guards_truncation: false, ..all };
        assert!(older.lacks()[0].contains("truncation") && older.suffices(Sandbox::Strict).is_ok());
        let older = Kernel { asks_before_threads: false, ..all };
        assert!(older.lacks()[0].contains("threads") && older.suffices(Sandbox::Strict).is_ok());
    }
}

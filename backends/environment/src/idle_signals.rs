//! Signals that ask for nothing here, and that would end a process without a handler: a stray one ends neither server
//! nor worker.

use std::ops::RangeInclusive;

/// Signals by number and name. Those of faults are not among them, nor that of the limit of processor time, which is
/// there to end a process. A file that would become too large is an error of whoever writes it.
pub const IDLE_SIGNALS: [(i32, &str); 10] = [
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
    (libc::SIGSTKFLT, "SIGSTKFLT"),
    (libc::SIGXFSZ, "SIGXFSZ"),
];

/// The signals without a meaning, of which the C library takes the first for itself.
pub fn real_time_signals() -> RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

/// Has the process ignore them. A library that sets a handler later has it.
pub fn ignore_idle_signals() {
    for number in IDLE_SIGNALS.map(|it| it.0).into_iter().chain(real_time_signals()) {
        // SAFETY: to ignore a signal runs no code. One that cannot be ignored stays as it is.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signals_of_faults_of_an_end_and_of_children_are_not_among_them() {
        let of_others = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGABRT,
            libc::SIGSYS,
            libc::SIGTRAP,
            libc::SIGXCPU,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGHUP,
            libc::SIGCHLD,
        ];
        assert!(IDLE_SIGNALS.iter().all(|it| !of_others.contains(&it.0)));
        assert!(of_others.iter().all(|it| !real_time_signals().contains(it)));
    }
}

//! How a worker's process has ended, in words and as a reason.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use backend::EndReason;
use rustix::process::Signal;

/// How a process has ended.
pub(crate) struct End {
    /// For instance `by signal 11 (SIGSEGV)`.
    pub(crate) how: String,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: EndReason,
}

impl End {
    /// The end with that status, `forced` by this process for a reason or not. `has_run_out`: has the system ended a
    /// process for want of memory meanwhile?
    pub(crate) fn of(
        status: Option<ExitStatus>,
        forced: Option<EndReason>,
        has_run_out: impl FnOnce() -> bool,
    ) -> End {
        let signal = status.and_then(|it| it.signal());
        let how = status.map_or_else(|| "for a reason unknown".to_owned(), how);
        let is_killed = signal == Some(Signal::KILL.as_raw()) && forced.is_none();
        let (how, by_itself) = match signal {
            _ if is_killed && has_run_out() => {
                (format!("{how}, out of memory (killed by the kernel)"), EndReason::Memory)
            }
            Some(_) => (how, EndReason::Signal),
            None => (how, EndReason::Exit),
        };
        End { how, signal, reason: forced.unwrap_or(by_itself) }
    }
}

fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => match name_of(signal) {
            Some(name) => format!("by signal {signal} ({name})"),
            None => format!("by signal {signal}"),
        },
        (None, Some(code)) => format!("with exit code {code}"),
        (None, None) => format!("with {status}"),
    }
}

/// The signals that end a process that is at fault, or that the system ends.
fn name_of(signal: i32) -> Option<&'static str> {
    let names = [
        (Signal::SEGV, "SIGSEGV"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::ILL, "SIGILL"),
        (Signal::KILL, "SIGKILL"),
        (Signal::TERM, "SIGTERM"),
        (Signal::SYS, "SIGSYS"),
    ];
    names.iter().find(|(it, _)| it.as_raw() == signal).map(|(_, name)| *name)
}

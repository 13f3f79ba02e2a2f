//! How many threads a worker may have. The kernel asks the server before one starts: no limit of a process's own holds
//! for the threads of root.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        linux::fs::MetadataExt,
    },
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::calls::{self, X32};
use crate::whose::Whose;

/// More than engines start on any machine, and few of those that a system has.
const MOST: u64 = 4096;

/// Stack of the thread that the kernel asks.
const STACK: usize = 128 << 10;

/// Can the kernel ask? What it asks must be what this program knows.
pub(super) fn can_be_asked() -> bool {
    let mut sizes =
        libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    let operation = libc::SECCOMP_GET_NOTIF_SIZES;
    // SAFETY: the kernel writes such a value there.
    let outcome = unsafe { libc::syscall(libc::SYS_seccomp, operation, 0, &raw mut sizes) };
    let fits = |size: u16, known: usize| usize::from(size) <= known;
    outcome == 0
        && fits(sizes.seccomp_notif, size_of::<libc::seccomp_notif>())
        && fits(sizes.seccomp_notif_resp, size_of::<libc::seccomp_notif_resp>())
}

/// From now on whoever has the file is asked before a thread is started, by the calling thread or by one that it has
/// started.
///
/// # Errors
/// Where the kernel refuses it, as where somebody is asked already.
pub(super) fn ask() -> io::Result<OwnedFd> {
    let file = calls::install(&mut filter(), libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    // SAFETY: the kernel has just opened it for this process, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(file).map_err(io::Error::other)?) })
}

/// The call that starts threads is asked about, all others are let pass. Numbers of other architectures mean other
/// calls, and end the process by another filter.
fn filter() -> Vec<libc::sock_filter> {
    let step =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let number = |call: i64| u32::try_from(call).unwrap_or(u32::MAX);
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let call = libc::SYS_clone;
    vec![
        // The number of the call is the first thing that there is.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(compare, 2, 0, number(call)),
        step(compare, 1, 0, number(call | X32.unwrap_or(0))),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(answer, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
    ]
}

/// Answers the kernel, which asks by that file, until the process has ended. On a thread of its own.
///
/// # Errors
/// Where the system has no thread.
pub(crate) fn answer(asks: OwnedFd, whose: &Whose, pid: u32) -> io::Result<()> {
    let whose = whose.clone();
    // Where a container keeps from it, newer kernels say by the other file that the process has ended.
    let process = Pid::from_raw(pid as i32).and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
    let name = format!("threads-{pid}");
    let work = move || {
        let mut has_told = false;
        // What fails here would fail again: no thread starts from then on.
        while let Ok(true) = is_asked(&asks, process.as_ref()) {
            let threads = threads_of(pid);
            let starts = threads < MOST;
            if !starts && !std::mem::replace(&mut has_told, true) {
                let (model, version) = (whose.model.as_str(), whose.version);
                tracing::warn!(
                    model,
                    version,
                    worker = pid,
                    "its process has {threads} threads and may start no more"
                );
            }
            answer_one(&asks, starts);
        }
    };
    thread::Builder::new().name(name).stack_size(STACK).spawn(work).map(drop)
}

/// Waits until the kernel asks, or that process has ended.
fn is_asked(asks: &OwnedFd, process: Option<&OwnedFd>) -> io::Result<bool> {
    loop {
        let files = [asks].into_iter().chain(process);
        let mut files: Vec<PollFd<'_>> = files.map(|it| PollFd::new(it, PollFlags::IN)).collect();
        match poll(&mut files, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let mut events = files.iter().map(PollFd::revents);
                let asks = events.next().is_some_and(|it| it.contains(PollFlags::IN));
                return Ok(asks && events.all(|it| it.is_empty()));
            }
        }
    }
}

/// The threads of a process; 0 where there is no such process.
fn threads_of(pid: u32) -> u64 {
    // Each is a directory in there, beside the two names that every directory has.
    fs::metadata(format!("/proc/{pid}/task")).map_or(0, |it| it.st_nlink().saturating_sub(2))
}

/// Answers one question: may the thread be started?
fn answer_one(asks: &OwnedFd, starts: bool) {
    let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
    let mut question = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
    // SAFETY: the kernel writes one question there, which is no longer than this: `can_be_asked` has said so.
    let outcome =
        unsafe { libc::ioctl(asks.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut question) };
    if outcome != 0 {
        // Whoever was to start it has ended, or was interrupted and asks again.
        return;
    }
    let (error, flags) = match starts {
        true => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        false => (-libc::EAGAIN, 0),
    };
    let mut answer = libc::seccomp_notif_resp { id: question.id, val: 0, error, flags };
    // SAFETY: the kernel reads one answer there. Where nobody waits for it any more, it is of no use.
    unsafe {
        libc::ioctl(asks.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer);
    }
}

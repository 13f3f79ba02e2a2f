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
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
    system::uname,
};

use super::calls::{self, X32};
use crate::whose::Whose;

/// More than engines start on any machine, and few of those that a system has.
const MOST: u64 = 4096;

/// Stack of the thread that the kernel asks.
const STACK: usize = 128 << 10;

/// The first release that lets a call go on which it has asked about. Earlier ones ask, and refuse that answer.
const LETS_GO_ON: (u32, u32) = (5, 5);

/// Where no file says that a process has ended, so often it is looked for.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Can the kernel ask, and heed the answer? What it asks must be what this program knows.
pub(super) fn can_be_asked() -> bool {
    if !uname().release().to_str().is_ok_and(lets_go_on) {
        return false;
    }
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

/// Can a kernel of that release let a call go on? Pure.
fn lets_go_on(release: &str) -> bool {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => LETS_GO_ON <= (major, minor),
        _ => false,
    }
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
        // What fails here would fail again. The file is closed then: the start of a thread fails, and does not wait.
        while let Ok(true) = is_asked(&asks, process.as_ref(), pid) {
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
            if !answer_one(&asks, starts) {
                tracing::warn!(
                    model = whose.model.as_str(),
                    version = whose.version,
                    worker = pid,
                    "the kernel takes no answer: its process may start no more threads"
                );
                return;
            }
        }
    };
    thread::Builder::new().name(name).stack_size(STACK).spawn(work).map(drop)
}

/// Waits until the kernel asks, or that process has ended, which its own file says where there is one.
fn is_asked(asks: &OwnedFd, process: Option<&OwnedFd>, pid: u32) -> io::Result<bool> {
    let longest = if process.is_some() { None } else { Some(&LOOK) };
    loop {
        let files = [asks].into_iter().chain(process);
        let mut files: Vec<PollFd<'_>> = files.map(|it| PollFd::new(it, PollFlags::IN)).collect();
        match poll(&mut files, longest) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) if fs::exists(format!("/proc/{pid}"))? => {}
            Ok(0) => return Ok(false),
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

/// Answers one question: may the thread be started? False where the kernel asks in a way, or takes no answer, that
/// leaves whoever is to start it waiting.
fn answer_one(asks: &OwnedFd, starts: bool) -> bool {
    let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
    let mut question = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
    // SAFETY: the kernel writes one question there, which is no longer than this: `can_be_asked` has said so.
    let outcome =
        unsafe { libc::ioctl(asks.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut question) };
    if outcome != 0 {
        return is_out_of_date();
    }
    let (error, flags) = match starts {
        true => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        false => (-libc::EAGAIN, 0),
    };
    let mut answer = libc::seccomp_notif_resp { id: question.id, val: 0, error, flags };
    // SAFETY: the kernel reads one answer there.
    let outcome =
        unsafe { libc::ioctl(asks.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    outcome == 0 || is_out_of_date()
}

/// Has the call of this thread that has just failed done so since nobody waits for the answer any more? Whoever was to
/// start the thread has ended, or was interrupted and asks again.
fn is_out_of_date() -> bool {
    matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT | libc::EINTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_lets_calls_go_on_from_its_release_5_5_on() {
        for (release, expected) in [
            ("4.19.0", false),
            ("5.0.0-1-amd64", false),
            ("5.4.301-rc1", false),
            ("5.5.0", true),
            ("5.10.0-30-cloud", true),
            ("6.1", true),
            ("6.18.5+", true),
            ("10.0.1", true),
            ("6", false),
            ("unknown", false),
            ("", false),
        ] {
            assert_eq!(lets_go_on(release), expected, "{release}");
        }
    }

    #[test]
    fn an_answer_that_the_kernel_does_not_take_ends_the_answering() {
        // A file by which no kernel asks.
        let (file, _other) = io::pipe().unwrap();
        assert!(!answer_one(&OwnedFd::from(file), true));
    }

    #[test]
    fn a_process_that_has_ended_is_noticed_where_no_file_says_so() {
        let mut ended = std::process::Command::new("/bin/true").spawn().unwrap();
        ended.wait().unwrap();
        let (asks, _other) = io::pipe().unwrap();
        assert!(!is_asked(&OwnedFd::from(asks), None, ended.id()).unwrap());
    }
}

//! Descriptors that a worker has inherited besides its standard ones.

use std::{
    fs,
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use rustix::io::{FdFlags, fcntl_getfd};

/// Closes what this process was started with beyond the three standard descriptors: files that a library of the server
/// has left open for children, and what the server itself has inherited.
///
/// Whatever this process has opened itself is marked to be closed where a program is started, as the standard library
/// does; what came along with the start of this program cannot be.
pub(crate) fn close_inherited() {
    let names = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let all: Vec<RawFd> =
        names.filter_map(|it| it.file_name().to_str()?.parse().ok()).filter(|it| 2 < *it).collect();
    for raw in all {
        // SAFETY: the number is looked at, and nothing closes it meanwhile: there is one thread.
        let inherited = unsafe { BorrowedFd::borrow_raw(raw) };
        // The listing's own is closed by now.
        if fcntl_getfd(inherited).is_ok_and(|it| !it.contains(FdFlags::CLOEXEC)) {
            // SAFETY: no value of this process owns it, as it came along with the start of the program.
            drop(unsafe { OwnedFd::from_raw_fd(raw) });
        }
    }
}

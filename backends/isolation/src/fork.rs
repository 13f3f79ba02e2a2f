//! The worker's side of a process that others are forked from: it opens an engine's library, and then copies itself as
//! often as the server asks.

use std::{
    ffi::{CStr, CString, OsString, c_long},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStringExt, net::UnixStream},
    },
    time::Duration,
};

use backend::Backend;
use rustix::{
    process::{Signal, set_parent_process_death_signal, setpgid},
    thread::set_name,
};

use crate::{
    channel::{ChannelError, Receiver, Sender},
    message::{Forked, Prepared, ToWorker},
};

/// What lists of processes call it. Its copies have the name that it had.
const NAME: &CStr = c"muster-template";

/// It ends where nobody has asked it for so long.
const IDLE: Duration = Duration::from_secs(10);

/// Opens the engine's library, and forks a process whenever the server asks for one. Returns in these, each with the
/// socket by which the server talks to it. To be called while there is one thread.
///
/// # Errors
/// [`ChannelError::Closed`] in the process that others are forked from, once nobody asks any more.
pub(crate) fn forks(
    engine: Option<&dyn Backend>,
    mut answers: Sender,
    mut orders: Receiver,
) -> Result<UnixStream, ChannelError> {
    let name = fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let _ = set_name(NAME);
    if let Some(engine) = engine {
        engine.prepare();
    }
    let threads = fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    answers.send(&Prepared { threads })?;
    orders.set_timeout(IDLE)?;
    loop {
        let order = orders.receive::<ToWorker>();
        let variables = match order {
            Ok(ToWorker::Fork { variables }) => variables,
            Ok(_) => return Err(ChannelError::Garbage("no order to fork".to_owned())),
            Err(ChannelError::Timeout) => return Err(ChannelError::Closed),
            Err(error) => return Err(error),
        };
        let mut file = || {
            let lacks = || ChannelError::Garbage("a process without its files".to_owned());
            orders.file().ok_or_else(lacks)
        };
        let (control, output, error) = (file()?, file()?, file()?);
        match copy() {
            Ok(Some(pid)) => answers.send(&Forked::Ok(pid))?,
            Err(error) => answers.send(&Forked::Err(error.to_string()))?,
            Ok(None) => {
                // Those of the process that this one is a copy of.
                drop((answers, orders));
                let _ = CString::new(name.trim_end()).map(|it| set_name(&it));
                be_own(variables, &output, &error)?;
                return Ok(UnixStream::from(control));
            }
        }
    }
}

/// What this process has of its own: its group, its end with the server, its variables and where it writes.
fn be_own(variables: Vec<(Vec<u8>, Vec<u8>)>, output: &OwnedFd, error: &OwnedFd) -> io::Result<()> {
    // A signal that a terminal sends to all is for the server alone.
    setpgid(None, None)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (name, value) in variables {
        // SAFETY: only another thread could read a variable meanwhile, and there is none in a copy.
        unsafe { std::env::set_var(OsString::from_vec(name), OsString::from_vec(value)) };
    }
    rustix::stdio::dup2_stdout(output.as_fd())?;
    rustix::stdio::dup2_stderr(error.as_fd())?;
    Ok(())
}

/// A copy of this process, which is a child of the same parent: the number of it here, and `None` in it.
fn copy() -> io::Result<Option<u32>> {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // Where the C library keeps the number of this thread, which is another one in the copy.
    let mut number: usize = 0;
    // SAFETY: the kernel writes one address there, or nothing.
    let is_known = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut number) } == 0;
    let of_number = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    let flags = if is_known { flags | of_number } else { flags };
    // SAFETY: there is one thread, which goes on in the copy with a stack of the same content, so that nothing in it is
    // held by another one. The C library has no function for it: a fork is no child of the same parent. The address is
    // the fourth argument, or the fifth, by the processor; the other one is not looked at.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, c_long::from(flags), 0_usize, 0_usize, number, number)
    };
    match pid {
        0 => Ok(None),
        pid => u32::try_from(pid).map(Some).map_err(|_| io::Error::last_os_error()),
    }
}

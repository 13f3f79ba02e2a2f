//! What a worker may reach: the files of its model and of its engine, memory that it shares with the server, and
//! nothing else. The kernel keeps to it, whatever the model makes of the process.
//!
//! The server starts a worker with an environment and a directory of its own ([`Order`]). The worker enters its sandbox
//! by [`enter`], before there is a second thread and before anything of the model is read: threads that start later are
//! in it, and no call leads out of it.

mod calls;
mod descriptors;
mod environment;
mod kernel;
mod limits;
mod links;
mod openable;
mod order;
mod private;
mod reach;
mod refusal;
mod rules;
mod threads;

use std::{fs, os::fd::OwnedFd};

use backend::{Backend, ModelSource, WorkerProgram};

pub(crate) use descriptors::close_inherited;
pub use environment::passes;
pub(crate) use kernel::Kernel;
pub(crate) use order::Order;
pub use order::Sandbox;
pub(crate) use private::{private_directory, remove_leftovers};
pub(crate) use threads::answer;

use reach::Reach;
use refusal::SandboxError;
use rules::Pins;

/// What there is of a sandbox once a process is in it.
#[derive(Default)]
pub(crate) struct Inside {
    /// To be kept for as long as the process lives.
    pub(crate) pins: Pins,
    /// The kernel asks whoever reads that file before a thread is started, by [`answer`]: the server, to which it goes.
    pub(crate) asks: Option<OwnedFd>,
}

/// Puts the calling thread, and the threads that it starts from then on, into the sandbox.
///
/// # Errors
/// Where the kernel refuses what it has, with [`Sandbox::Strict`] where it has no landlock or no seccomp,
/// and where a setting names what no setting opens.
pub(crate) fn enter(
    order: &Order,
    engine: &dyn Backend,
    source: &ModelSource,
    program: Option<&WorkerProgram>,
) -> Result<Inside, SandboxError> {
    if order.sandbox == Sandbox::Off {
        return Ok(Inside::default());
    }
    // Rules hold for a thread and those that it starts, so that another one would be outside.
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(SandboxError::Threads(threads));
    }
    let kernel = Kernel::ask();
    kernel.suffices(order.sandbox)?;
    let unset = |what, error: &dyn ToString| SandboxError::Unset { what, error: error.to_string() };
    limits::set().map_err(|it| unset("limits", &it))?;
    limits::drop_capabilities().map_err(|it| unset("capabilities", &it))?;
    if program.is_some() {
        // Code of users calls services, starts programs and writes files: it is kept from other processes and from the
        // kernel. Where that is too much, no code of users is run.
        return match order.sandbox {
            Sandbox::Off | Sandbox::On => {
                calls::restrict_program().map_err(|it| unset("seccomp", &it))?;
                Ok(Inside::default())
            }
            Sandbox::Strict => Err(SandboxError::Program),
        };
    }
    let reach = Reach::new(order, engine, source)?;
    let pins = rules::restrict(&reach).map_err(|it| unset("landlock", &it))?;
    if kernel.has_seccomp {
        calls::restrict(reach.sockets()).map_err(|it| unset("seccomp", &it))?;
    }
    let asked = kernel.asks_before_threads.then(threads::ask).transpose();
    let asks = asked.unwrap_or_else(|error| {
        eprintln!("WARN nothing bounds the threads of this process: {error}");
        None
    });
    Ok(Inside { pins, asks })
}

#[cfg(test)]
mod tests;

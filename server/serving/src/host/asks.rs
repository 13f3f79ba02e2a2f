//! The thread on which requests of models' own code run. It is started by the first of them.

use std::{io, sync::Mutex, thread};

use backend::MODEL_STACK;
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    task::AbortHandle,
};

use crate::lock::lock;

/// Runs futures on a thread of its own, which ends with this.
#[derive(Default)]
pub(super) struct Asks {
    /// Guards the start.
    thread: Mutex<Option<Running>>,
}

struct Running {
    runtime: Handle,
    /// The thread ends when it is dropped.
    _until: oneshot::Sender<()>,
}

impl Asks {
    /// Runs `work`, which can be given up by what this returns.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<AbortHandle> {
        let mut thread = lock(&self.thread);
        let running = match &mut *thread {
            Some(running) => running,
            none => none.insert(start()?),
        };
        Ok(running.runtime.spawn(work).abort_handle())
    }
}

fn start() -> io::Result<Running> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let (until, dropped) = oneshot::channel::<()>();
    let handle = runtime.handle().clone();
    // Fast models run right there, and on-demand loads begin there.
    let builder = thread::Builder::new().name("asks".to_owned()).stack_size(MODEL_STACK);
    builder.spawn(move || {
        let _ = runtime.block_on(dropped);
        // What is left is dropped, and what it has begun on threads of its own is not waited for.
        runtime.shutdown_background();
    })?;
    Ok(Running { runtime: handle, _until: until })
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::mpsc::{RecvTimeoutError, channel},
        time::Duration,
    };

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_given_up_and_what_is_left_at_the_end_is_dropped() {
        let asks = Asks::default();
        for is_given_up in [true, false] {
            let (held, dropped) = channel::<()>();
            let (began, begun) = channel();
            let task = asks.spawn(async move {
                let _held = held;
                began.send(()).unwrap();
                pending::<()>().await;
            });
            begun.recv_timeout(LONG).unwrap();
            match is_given_up {
                true => task.unwrap().abort(),
                false => *lock(&asks.thread) = None,
            }
            assert_eq!(dropped.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
        }
    }
}

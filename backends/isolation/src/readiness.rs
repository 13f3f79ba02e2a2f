//! Asking the code of a model whether it can serve.

use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use crate::{
    channel::{ChannelError, Receiver},
    frame::{Encoding, LONGEST_ANSWER},
    message::{Readiness, ToWorker},
    supervisor::Supervisor,
};

/// The code has so long to say it, as in Triton.
const LONGEST: Duration = Duration::from_secs(5);

/// Asks the code in the worker that serves. Blocking.
///
/// # Errors
/// Why the model cannot serve; a sentence.
pub(crate) fn ask(supervisor: &Supervisor) -> Result<(), String> {
    // Why there is no process is told to whoever asks for that.
    let Some(worker) = supervisor.serving() else { return Ok(()) };
    let heard = hear(LONGEST, |theirs| worker.send_with(&ToWorker::IsReady, &[theirs.as_fd()]));
    match heard {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err("its is_ready() says no".to_owned()),
        Ok(Err(fault)) => Err(format!("its is_ready() has failed: {}", fault.text)),
        Err(ChannelError::Timeout) => {
            Err(format!("its is_ready() has not answered within {} s", LONGEST.as_secs()))
        }
        Err(ChannelError::Closed) => Err("its process has ended in is_ready()".to_owned()),
        Err(error) => Err(format!("its is_ready() cannot be asked: {error}")),
    }
}

/// What is answered by way of a new socket, whose other end `send` sends.
fn hear(
    longest: Duration,
    send: impl FnOnce(UnixStream) -> Result<(), ChannelError>,
) -> Result<Readiness, ChannelError> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut answers = Receiver::new(ours, LONGEST_ANSWER);
    answers.read_in(Encoding::Json);
    answers.set_timeout(longest)?;
    send(theirs)?;
    answers.receive()
}

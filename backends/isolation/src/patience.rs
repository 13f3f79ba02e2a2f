//! Waiting for what a worker says.

use std::time::Duration;

use backend::EndReason;

use crate::{channel::ChannelError, launch::Worker};

/// How often somebody who waits for a worker looks whether it is to be ended.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Waits for an answer of that worker, which is ended once `is_given_up` says so. `look` waits for [`LOOK`].
pub(crate) fn wait(
    mut look: impl FnMut() -> Result<(), ChannelError>,
    worker: &Worker,
    is_given_up: impl Fn() -> bool,
) -> Result<(), ChannelError> {
    loop {
        match look() {
            Err(ChannelError::Timeout) => {}
            other => return other,
        }
        if is_given_up() {
            worker.end(EndReason::Timeout);
        }
    }
}

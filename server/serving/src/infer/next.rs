//! Waiting for the first of several futures.

use std::{future::poll_fn, pin::Pin, task::Poll};

/// Waits for the first of several that run to end, and takes it out: its number, and what came out. There is at least
/// one.
pub(super) async fn next<F: Future + ?Sized>(
    running: &mut Vec<(usize, Pin<Box<F>>)>,
) -> (usize, F::Output) {
    poll_fn(|context| {
        for at in 0..running.len() {
            let Some((number, future)) = running.get_mut(at) else { break };
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                let number = *number;
                drop(running.swap_remove(at));
                return Poll::Ready((number, output));
            }
        }
        Poll::Pending
    })
    .await
}

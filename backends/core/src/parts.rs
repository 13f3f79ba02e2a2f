//! Many answers to one request: what runs the model sends them, what writes the reply takes them, and what nobody has
//! taken yet is bounded.
//!
//! The two ends know nothing of each other. What runs the model may be a thread of this process or a process of the
//! model's own. It asks for room, or is told of each part that is taken ([`PartSender::on_taken`]). What writes the
//! reply is a task: it polls.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::{CallAnswer, CallCode, CallError};

/// So many parts of one request wait at most until its client reads them.
pub const MOST_PARTS: usize = 16;

/// So many bytes of tensors wait at most, but for a single part that is larger.
pub const MOST_PART_BYTES: usize = 1 << 20;

/// What is told of each part that was taken.
type OnTaken = Box<dyn Fn() + Send + Sync>;
/// What is told that nobody waits any more.
type OnLeft = Box<dyn FnOnce() + Send>;

/// The end that sends. Clones send to the same request. The last one that is dropped ends the answer, with an error
/// where nobody has ended it.
#[derive(Clone)]
pub struct PartSender {
    /// Dropped with the last clone.
    sending: Arc<Sending>,
}

/// The end that takes. Dropped before the end of the answer, it tells the other end that nobody waits.
pub struct PartReceiver {
    channel: Arc<Channel>,
}

/// Why a part was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSent {
    /// Nobody waits for it any more.
    Left,
    /// The answer has ended.
    Ended,
    /// Too much waits already: it may be sent once some of that is taken.
    Full,
}

struct Sending {
    channel: Arc<Channel>,
}

#[derive(Default)]
struct Channel {
    /// Guards what waits, and who is told of what.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<CallAnswer>,
    bytes: usize,
    sent: u64,
    end: Option<Result<(), CallError>>,
    /// Did the last part bring the end along?
    ends_with_part: bool,
    has_left: bool,
    reader: Option<Waker>,
    /// Who waits for all parts to be read.
    on_read: Option<Waker>,
    on_taken: Option<Arc<OnTaken>>,
    on_left: Option<OnLeft>,
}

/// A channel for the answers to one request.
pub fn parts() -> (PartSender, PartReceiver) {
    let channel = Arc::<Channel>::default();
    let sending = Arc::new(Sending { channel: channel.clone() });
    (PartSender { sending }, PartReceiver { channel })
}

impl PartSender {
    /// Sends one part. Returns at once.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn send(&self, part: CallAnswer) -> Result<(), NotSent> {
        self.put(part, None)
    }

    /// Sends the last part and the end of the answer in one step: whoever takes the part knows that there is no other.
    ///
    /// # Errors
    /// Why it was not taken. The answer has not ended then.
    pub fn send_last(&self, part: CallAnswer) -> Result<(), NotSent> {
        self.put(part, Some(Ok(())))
    }

    fn put(&self, part: CallAnswer, end: Option<Result<(), CallError>>) -> Result<(), NotSent> {
        let mut state = self.state();
        if state.has_left {
            return Err(NotSent::Left);
        }
        if state.end.is_some() {
            return Err(NotSent::Ended);
        }
        let bytes = bytes_of(&part);
        let is_full = MOST_PARTS <= state.waiting.len() || MOST_PART_BYTES < state.bytes + bytes;
        if is_full && !state.waiting.is_empty() {
            return Err(NotSent::Full);
        }
        state.bytes += bytes;
        state.sent += 1;
        state.waiting.push_back(part);
        let left = if end.is_some() { state.on_left.take() } else { None };
        if end.is_some() {
            (state.end, state.ends_with_part) = (end, true);
        }
        let reader = state.reader.take();
        drop(state);
        drop(left);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    /// No more. What was sent before is still read. A second end changes nothing.
    pub fn end(&self, how: Result<(), CallError>) {
        self.sending.channel.end(how);
    }

    /// Waits until all that was sent has been taken, or nobody waits for it any more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn read(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            if state.waiting.is_empty() {
                return Poll::Ready(());
            }
            state.on_read = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Was any part sent? What has begun to answer is not run again.
    pub fn has_sent(&self) -> bool {
        0 < self.state().sent
    }

    /// Does nobody wait any more?
    pub fn has_left(&self) -> bool {
        self.state().has_left
    }

    /// Has the answer begun, or ended without any part? Then the request is not run again.
    pub fn has_begun(&self) -> bool {
        let state = self.state();
        0 < state.sent || state.end.is_some()
    }

    /// Has the answer ended?
    pub fn has_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Calls `hook` each time that a part was taken, on the thread that takes it: it must not block. A later hook takes
    /// the place of an earlier one.
    pub fn on_taken(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.state().on_taken = Some(Arc::new(Box::new(hook)));
    }

    /// Calls `hook` once when nobody waits any more, at once where that is so; not where the answer has been read to
    /// its end. It must not block. A later hook takes the place of an earlier one.
    pub fn on_left(&self, hook: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if state.has_left {
            drop(state);
            hook();
        } else {
            state.on_left = Some(Box::new(hook));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.sending.channel.state()
    }
}

impl std::fmt::Debug for PartSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartSender").finish_non_exhaustive()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let text = "the model has given up the request without an end to its answer".to_owned();
        self.channel.end(Err(CallError { code: CallCode::Internal, text }));
    }
}

impl PartReceiver {
    /// The next part; `Ready(Ok(None))` at the end of the answer.
    ///
    /// # Errors
    /// How the answer has failed, once, behind the parts before it.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<CallAnswer>, CallError>> {
        let mut state = self.channel.state();
        if let Some(part) = state.waiting.pop_front() {
            state.bytes -= bytes_of(&part);
            let hook = state.on_taken.clone();
            let read = if state.waiting.is_empty() { state.on_read.take() } else { None };
            drop(state);
            if let Some(hook) = hook {
                hook();
            }
            read.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(Some(part)));
        }
        match &mut state.end {
            Some(end) => Poll::Ready(std::mem::replace(end, Ok(())).map(|()| None)),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Was the part that was taken last sent as the last one, by [`PartSender::send_last`]?
    pub fn has_taken_last(&self) -> bool {
        let state = self.channel.state();
        state.waiting.is_empty() && state.ends_with_part
    }

    /// Has the answer ended, with nothing left to take? Then its last part was the whole of what is left.
    pub fn is_at_end(&self) -> bool {
        let state = self.channel.state();
        state.waiting.is_empty() && matches!(state.end, Some(Ok(())))
    }
}

impl Drop for PartReceiver {
    fn drop(&mut self) {
        let mut state = self.channel.state();
        if state.has_left {
            return;
        }
        state.has_left = true;
        let waiting = std::mem::take(&mut state.waiting);
        state.bytes = 0;
        let hook = state.on_left.take().filter(|_| state.end.is_none());
        let taken = state.on_taken.take();
        let read = state.on_read.take();
        drop(state);
        drop((waiting, taken));
        if let Some(hook) = hook {
            hook();
        }
        read.into_iter().for_each(Waker::wake);
    }
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, how: Result<(), CallError>) {
        let mut state = self.state();
        if state.end.is_some() {
            return;
        }
        state.end = Some(how);
        let (reader, left) = (state.reader.take(), state.on_left.take());
        drop(state);
        drop(left);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// Bytes of the tensors of a part.
fn bytes_of(part: &CallAnswer) -> usize {
    part.outputs.iter().map(|it| it.tensor.byte_len()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::{NamedTensor, Shape, Tensor};

    fn part(bytes: usize) -> CallAnswer {
        let tensor = Tensor::from_vec(Shape::from(&[bytes][..]), vec![7u8; bytes]).unwrap();
        let outputs = vec![NamedTensor { name: "y".into(), tensor }];
        CallAnswer { outputs, ..CallAnswer::default() }
    }

    fn next(receiver: &mut PartReceiver) -> Poll<Result<Option<usize>, CallError>> {
        let polled = receiver.poll_next(&mut Context::from_waker(Waker::noop()));
        polled.map(|it| it.map(|it| it.as_ref().map(bytes_of)))
    }

    #[test]
    fn parts_come_in_their_order_and_then_the_end_comes() {
        let (sender, mut receiver) = parts();
        assert!(next(&mut receiver).is_pending() && !sender.has_sent());
        sender.send(part(1)).unwrap();
        sender.send(part(2)).unwrap();
        sender.end(Ok(()));
        assert!(sender.has_sent() && !receiver.is_at_end());
        assert_eq!(sender.send(part(3)), Err(NotSent::Ended));
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(Some(1))));
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(Some(2))));
        assert!(receiver.is_at_end());
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(None)));
    }

    #[test]
    fn the_last_part_brings_the_end_along() {
        let (sender, mut receiver) = parts();
        sender.send_last(part(3)).unwrap();
        assert!(sender.has_ended() && !receiver.is_at_end());
        assert_eq!(sender.send_last(part(1)), Err(NotSent::Ended));
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(Some(3))));
        assert!(receiver.is_at_end() && receiver.has_taken_last());
    }

    #[test]
    fn what_waits_is_bounded_and_a_single_part_may_be_larger() {
        let (sender, mut receiver) = parts();
        let taken = Arc::new(AtomicUsize::new(0));
        let counts = taken.clone();
        sender.on_taken(move || {
            counts.fetch_add(1, Relaxed);
        });
        sender.send(part(2 * MOST_PART_BYTES)).unwrap();
        assert_eq!(sender.send(part(0)), Err(NotSent::Full));
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(Some(2 * MOST_PART_BYTES))));
        for _ in 0..MOST_PARTS {
            sender.send(part(1)).unwrap();
        }
        assert_eq!(sender.send(part(1)), Err(NotSent::Full));
        assert_eq!(taken.load(Relaxed), 1);
    }

    #[test]
    fn who_waits_for_what_was_sent_is_woken_as_it_is_taken() {
        let (sender, mut receiver) = parts();
        sender.send(part(1)).unwrap();
        let (flag, mut read) = (Arc::new(Flag::default()), Box::pin(sender.read()));
        let waker = Waker::from(flag.clone());
        let mut poll = || read.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending() && !flag.0.load(Relaxed));
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(Some(1))));
        assert!(flag.0.load(Relaxed) && poll().is_ready());
    }

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn a_reader_that_leaves_is_told_once_and_only_before_the_end() {
        for is_ended in [false, true] {
            let (sender, receiver) = parts();
            let told = Arc::new(AtomicUsize::new(0));
            let counts = told.clone();
            sender.on_left(move || {
                counts.fetch_add(1, Relaxed);
            });
            if is_ended {
                sender.end(Ok(()));
            }
            drop(receiver);
            assert!(sender.has_left());
            assert_eq!(sender.send(part(1)), Err(NotSent::Left));
            assert_eq!(told.load(Relaxed), usize::from(!is_ended));
        }
    }

    #[test]
    fn the_last_sender_that_is_dropped_without_an_end_is_an_error_behind_the_parts() {
        let (sender, mut receiver) = parts();
        let other = sender.clone();
        sender.send(part(1)).unwrap();
        drop(sender);
        assert!(!other.has_ended());
        drop(other);
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(Some(1))));
        let Poll::Ready(Err(error)) = next(&mut receiver) else { panic!("no error") };
        assert_eq!(error.code, CallCode::Internal);
        assert_eq!(next(&mut receiver), Poll::Ready(Ok(None)));
    }
}

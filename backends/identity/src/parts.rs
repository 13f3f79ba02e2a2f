//! Answers in parts, so that what carries them is tested without Python.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use backend::{
    BackendError, Batch, Call, CallAnswer, CallCode, CallError, NamedTensor, NotSent, Parameter,
    PartSender, Stop,
};

/// How requests are answered in parts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartSettings {
    /// So many parts, where the request does not say.
    pub(crate) parts: u64,
    /// The time before each.
    pub(crate) delay: Duration,
    /// Does an error follow them?
    pub(crate) fails: bool,
    /// Does an execution end before its parts?
    pub(crate) leaves: bool,
}

/// The parameter of a request that says how many parts it wants, and that of a part which says the how-manieth it is.
const PARTS: &str = "parts";

/// Between two looks at the stop of a run that waits for its reader.
const LOOK: Duration = Duration::from_millis(5);

/// Sends each request of the batch its rows of the outputs, as often as it wants. A request without a place for parts,
/// as in a run that warms up, gets none.
pub(crate) fn answer(
    settings: PartSettings,
    is_said: bool,
    batch: &Batch<'_>,
    calls: &[Call<'_>],
    outputs: &[NamedTensor],
) -> Result<Vec<Result<CallAnswer, CallError>>, BackendError> {
    let mut from = 0;
    for call in calls {
        let Some(sender) = call.parts else { continue };
        let share = |it: &NamedTensor| {
            let tensor = match calls.len() {
                1 => Some(it.tensor.clone()),
                _ => it.tensor.slice_rows(from, call.rows),
            };
            Some(NamedTensor { name: it.name.clone(), tensor: tensor? })
        };
        let shares: Option<Vec<_>> = outputs.iter().map(share).collect();
        let outputs =
            shares.ok_or_else(|| BackendError::Execute("a request has no rows".to_owned()))?;
        from += call.rows;
        let parts = wanted(call).unwrap_or(settings.parts);
        let answer = Parts { settings, is_said, sender: sender.clone(), outputs, parts };
        match settings.leaves {
            true => drop(thread::spawn(move || answer.send(&Stop::default()))),
            false => answer.send(batch.stop),
        }
    }
    Ok(calls.iter().map(|_| Ok(CallAnswer::default())).collect())
}

/// How many parts the request asks for.
fn wanted(call: &Call<'_>) -> Option<u64> {
    let parameters = &call.about?.parameters;
    let (_, value) = parameters.iter().find(|(name, _)| &**name == PARTS)?;
    match value {
        Parameter::Int(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}

/// The answer to one request.
struct Parts {
    settings: PartSettings,
    /// Does a line say that a part waits?
    is_said: bool,
    sender: PartSender,
    outputs: Vec<NamedTensor>,
    parts: u64,
}

impl Parts {
    /// Sends all of it, as fast as its client reads. Blocking.
    fn send(self, stop: &Stop) {
        let taken = Arc::new(Taken::default());
        let hears = taken.clone();
        self.sender.on_taken(move || hears.notify());
        let hears = taken.clone();
        self.sender.on_left(move || hears.notify());
        // Nobody stops an answer that its execution has left.
        let look = (!self.settings.leaves).then_some(LOOK);
        for at in 0..self.parts {
            if !wait(self.settings.delay, stop, &self.sender) {
                return;
            }
            let is_last = at + 1 == self.parts && !self.settings.fails;
            let parameters = vec![(PARTS.into(), Parameter::Int(at.cast_signed()))];
            let part = CallAnswer { outputs: self.outputs.clone(), parameters, again: false };
            let mut has_waited = false;
            loop {
                let seen = taken.count();
                let sent = match is_last {
                    true => self.sender.send_last(part.clone()),
                    false => self.sender.send(part.clone()),
                };
                match sent {
                    Ok(()) => break,
                    Err(NotSent::Full) if !stop.is_over() && !self.sender.has_left() => {
                        if self.is_said && !has_waited {
                            eprintln!("part {at} waits until its client reads");
                        }
                        has_waited = true;
                        taken.wait(seen, look);
                    }
                    Err(_) => return,
                }
            }
        }
        let end = match self.settings.fails {
            true => Err(CallError {
                code: CallCode::Internal,
                text: "told to fail by 'part_fails'".to_owned(),
            }),
            false => Ok(()),
        };
        self.sender.end(end);
    }
}

/// Waits; is the answer still wanted then?
fn wait(delay: Duration, stop: &Stop, sender: &PartSender) -> bool {
    let until = Instant::now() + delay;
    loop {
        if stop.is_over() || sender.has_left() {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(LOOK));
    }
}

/// How many parts have been taken; that nobody waits any more counts as one.
#[derive(Default)]
struct Taken {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Taken {
    fn count(&self) -> u64 {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits until there are more than `seen`, or until it is time for a look.
    fn wait(&self, seen: u64, look: Option<Duration>) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        match look {
            Some(look) => drop(self.changed.wait_timeout_while(count, look, |it| *it == seen)),
            None => drop(self.changed.wait_while(count, |it| *it == seen)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Future, poll_fn},
        pin::pin,
        task::{Context, Poll, Wake, Waker},
    };

    use backend::{MOST_PARTS, PartReceiver, parts};

    use super::*;

    /// Wakes a thread.
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn next(receiver: &mut PartReceiver) -> Result<Option<i64>, CallError> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut next = pin!(poll_fn(|context| receiver.poll_next(context)));
        loop {
            match next.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => thread::park(),
                Poll::Ready(part) => {
                    return part.map(|it| match it?.parameters.as_slice() {
                        [(_, Parameter::Int(at))] => Some(*at),
                        _ => None,
                    });
                }
            }
        }
    }

    fn sent(settings: PartSettings, parts_wanted: u64) -> (PartReceiver, thread::JoinHandle<()>) {
        let (sender, receiver) = parts();
        let answer =
            Parts { settings, is_said: false, sender, outputs: Vec::new(), parts: parts_wanted };
        (receiver, thread::spawn(move || answer.send(&Stop::default())))
    }

    #[test]
    fn more_parts_than_may_wait_come_as_they_are_read() {
        let most = 3 * MOST_PARTS as i64;
        let (mut receiver, sends) = sent(PartSettings::default(), most as u64);
        let read: Vec<Option<i64>> = (0..=most).map(|_| next(&mut receiver).unwrap()).collect();
        assert_eq!(read, (0..most).map(Some).chain([None]).collect::<Vec<_>>());
        sends.join().unwrap();
    }

    #[test]
    fn an_error_follows_the_parts_and_a_reader_that_leaves_ends_them() {
        let settings = PartSettings { fails: true, ..PartSettings::default() };
        let (mut receiver, sends) = sent(settings, 1);
        assert_eq!(next(&mut receiver), Ok(Some(0)));
        assert!(next(&mut receiver).unwrap_err().text.contains("part_fails"));
        sends.join().unwrap();
        let (mut receiver, sends) = sent(PartSettings::default(), u64::MAX);
        assert_eq!(next(&mut receiver), Ok(Some(0)));
        drop(receiver);
        sends.join().unwrap();
    }
}

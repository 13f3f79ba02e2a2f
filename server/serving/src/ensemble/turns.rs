//! The order of a sequence in an ensemble: its requests enter a member in the order in which they came to the
//! ensemble, however long earlier steps took for each of them.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
};

use inference::request::SequenceId;

/// The lines of requests before the steps of an ensemble.
#[derive(Default)]
pub struct Turns {
    /// Guards the lines. There is none for a sequence without a request.
    lines: Mutex<HashMap<SequenceStep, Line>>,
}

/// Before which step the requests of which sequence stand.
type SequenceStep = (SequenceId, usize);

/// The requests of one sequence before one step.
#[derive(Default)]
struct Line {
    /// The number of the next request that comes.
    next: u64,
    /// Who stands there, by number, and what wakes those that wait. As many as requests of the sequence are under way
    /// in the ensemble: a line has no other bound.
    standing: BTreeMap<u64, Option<Waker>>,
}

/// A place in a line; dropped, it lets the next request pass.
pub struct Turn {
    turns: Arc<Turns>,
    place: SequenceStep,
    number: u64,
}

impl Turns {
    /// The last place in the line of the sequence before that step.
    pub fn enter(self: &Arc<Turns>, sequence: &SequenceId, step: usize) -> Turn {
        let place = (sequence.clone(), step);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(place.clone()).or_default();
        let number = line.next;
        line.next += 1;
        line.standing.insert(number, None);
        drop(lines);
        Turn { turns: self.clone(), place, number }
    }
}

impl Turn {
    /// Waits until no earlier request of the sequence stands before the step.
    ///
    /// # Cancel safety
    /// The place is kept until the turn is dropped.
    pub async fn first(&self) {
        poll_fn(|context| {
            let mut lines = self.turns.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(line) = lines.get_mut(&self.place) else { return Poll::Ready(()) };
            if line.standing.range(..self.number).next().is_none() {
                return Poll::Ready(());
            }
            line.standing.insert(self.number, Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.turns.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = lines.get_mut(&self.place) else { return };
        line.standing.remove(&self.number);
        let waker = line.standing.first_entry().and_then(|mut it| it.get_mut().take());
        if line.standing.is_empty() {
            lines.remove(&self.place);
        }
        // The lock is released first: the woken task would only block on it.
        drop(lines);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn id(text: &str) -> SequenceId {
        SequenceId::Text(text.into())
    }

    /// Is it the turn of that request?
    fn is_first(turn: &Turn) -> bool {
        let mut context = std::task::Context::from_waker(Waker::noop());
        pin!(turn.first()).poll(&mut context).is_ready()
    }

    #[test]
    fn a_request_waits_until_the_earlier_ones_of_its_sequence_have_passed() {
        let turns = Arc::new(Turns::default());
        let [one, two, three] = [(); 3].map(|()| turns.enter(&id("a"), 1));
        assert!(is_first(&one) && !is_first(&two) && !is_first(&three));
        drop(two);
        assert!(!is_first(&three), "the first one has not passed");
        drop(one);
        assert!(is_first(&three));
    }

    #[test]
    fn other_sequences_and_other_steps_do_not_wait_for_it() {
        let turns = Arc::new(Turns::default());
        let _one = turns.enter(&id("a"), 1);
        assert!(is_first(&turns.enter(&id("b"), 1)));
        assert!(is_first(&turns.enter(&id("a"), 2)));
    }

    #[test]
    fn who_waits_is_woken_and_an_empty_line_is_gone() {
        let turns = Arc::new(Turns::default());
        let (one, two) = (turns.enter(&id("a"), 0), turns.enter(&id("a"), 0));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let waits = tokio::spawn(async move { two.first().await });
            tokio::task::yield_now().await;
            assert!(!waits.is_finished());
            drop(one);
            waits.await.unwrap();
        });
        assert!(turns.lines.lock().unwrap().is_empty());
    }
}

//! The way back from an instance to the request that waits, in order of arrival where that is asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

use super::work::Done;
use inference::error::Error;

type Answer = Result<Done, Error>;

/// Sends one answer. Dropped without one, it lets later answers pass.
pub struct Reply {
    sender: Option<oneshot::Sender<Answer>>,
    place: Option<(Arc<Order>, u64)>,
}

impl Reply {
    /// A reply and the end at which its answer arrives.
    pub fn channel(order: Option<&Arc<Order>>) -> (Reply, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let place = order.map(|it| (it.clone(), it.enter()));
        (Reply { sender: Some(sender), place }, receiver)
    }

    /// From now on its answer leaves behind those that have lined up before, where answers leave in order.
    pub fn line_up(&mut self, order: Option<&Arc<Order>>) {
        self.place = order.map(|it| (it.clone(), it.enter()));
    }

    /// A reply for which no request waits.
    pub fn none() -> Reply {
        Reply { sender: None, place: None }
    }

    /// Does a request wait for it?
    pub fn is_awaited(&self) -> bool {
        self.sender.as_ref().is_some_and(|it| !it.is_closed())
    }

    /// Sends the answer, now or when every earlier request has been answered.
    pub fn send(mut self, answer: Answer) {
        let Some(sender) = self.sender.take() else { return };
        match self.place.take() {
            Some((order, place)) => order.leave(place, Some((sender, answer))),
            // The client may be gone; that is its choice.
            None => drop(sender.send(answer)),
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some((order, place)) = self.place.take() {
            order.leave(place, None);
        }
    }
}

/// Lets answers out in the order in which their requests came in (`preserve_ordering`).
#[derive(Default)]
pub struct Order {
    /// Guards the places and the answers that are too early.
    state: Mutex<OrderState>,
}

#[derive(Default)]
struct OrderState {
    entered: u64,
    /// Every reply before this place has left.
    next: u64,
    /// Answers that wait for an earlier one; `None` for a request that went without. As many as were
    /// entered since the oldest that is still running: an order has no other bound.
    early: BTreeMap<u64, Option<(oneshot::Sender<Answer>, Answer)>>,
}

impl Order {
    fn enter(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.entered += 1;
        state.entered - 1
    }

    fn leave(&self, place: u64, answer: Option<(oneshot::Sender<Answer>, Answer)>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // An answer whose client has left need not wait in memory either.
        let answer = answer.filter(|(sender, _)| !sender.is_closed());
        state.early.insert(place, answer);
        // Sent under the lock: two threads must not overtake each other between taking and sending.
        while let Some(answer) = {
            let next = state.next;
            state.early.remove(&next)
        } {
            state.next += 1;
            if let Some((sender, answer)) = answer {
                drop(sender.send(answer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        Err(Error::ShuttingDown)
    }

    #[test]
    fn without_order_an_answer_leaves_at_once() {
        let (_first, _) = Reply::channel(None);
        let (second, mut receiver) = Reply::channel(None);
        second.send(answer());
        assert!(receiver.try_recv().is_ok());
    }

    #[test]
    fn an_early_answer_waits_for_the_one_before_it() {
        let order = Arc::new(Order::default());
        let (first, mut first_receiver) = Reply::channel(Some(&order));
        let (second, mut second_receiver) = Reply::channel(Some(&order));
        second.send(answer());
        assert!(second_receiver.try_recv().is_err());
        first.send(answer());
        assert!(first_receiver.try_recv().is_ok());
        assert!(second_receiver.try_recv().is_ok());
    }

    #[test]
    fn an_early_answer_whose_client_has_left_is_not_kept() {
        let order = Arc::new(Order::default());
        let (_first, _) = Reply::channel(Some(&order));
        let (second, receiver) = Reply::channel(Some(&order));
        drop(receiver);
        second.send(answer());
        assert!(order.state.lock().unwrap().early[&1].is_none());
    }

    #[test]
    fn a_dropped_request_does_not_hold_up_later_answers() {
        let order = Arc::new(Order::default());
        let (first, _) = Reply::channel(Some(&order));
        let (second, mut receiver) = Reply::channel(Some(&order));
        second.send(answer());
        drop(first);
        assert!(receiver.try_recv().is_ok());
    }
}

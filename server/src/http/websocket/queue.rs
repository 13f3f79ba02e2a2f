//! Answers on their way, taken in the order of their questions. There are few: they are polled together, by hand.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use super::inbox::Kind;

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum Slot<T> {
    Running(Answer<T>),
    Ready(T),
}

/// Answers on their way. Dropping it drops them, which withdraws their requests.
pub struct Queue<T> {
    slots: VecDeque<(Kind, Slot<T>)>,
    most: usize,
}

impl<T> Queue<T> {
    /// For so many at once.
    pub fn new(most: usize) -> Queue<T> {
        Queue { slots: VecDeque::new(), most }
    }

    /// Is nothing on its way?
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// May another one be pushed?
    pub fn has_room(&self) -> bool {
        self.slots.len() < self.most
    }

    /// The answer to a question of that kind comes behind the others.
    pub fn push(&mut self, kind: Kind, answer: Answer<T>) {
        self.slots.push_back((kind, Slot::Running(answer)));
    }

    /// The next answer, once it is there. All go on meanwhile.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Kind, T)> {
        for (_, slot) in &mut self.slots {
            if let Slot::Running(answer) = slot
                && let Poll::Ready(answer) = answer.as_mut().poll(context)
            {
                *slot = Slot::Ready(answer);
            }
        }
        match self.slots.pop_front() {
            Some((kind, Slot::Ready(answer))) => Poll::Ready((kind, answer)),
            Some(running) => {
                self.slots.push_front(running);
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_their_questions_whichever_is_there_first() {
        let mut queue = Queue::new(2);
        let (first, answer) = oneshot::channel();
        queue.push(Kind::Text, Box::pin(async move { answer.await.unwrap() }));
        assert!(queue.has_room());
        queue.push(Kind::Binary, Box::pin(async { 2 }));
        assert!(!queue.has_room());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(queue.poll(&mut context), Poll::Pending);
        first.send(1).unwrap();
        assert_eq!(queue.poll(&mut context), Poll::Ready((Kind::Text, 1)));
        assert_eq!(queue.poll(&mut context), Poll::Ready((Kind::Binary, 2)));
        assert_eq!(queue.poll(&mut context), Poll::Pending);
        assert!(queue.is_empty());
    }
}

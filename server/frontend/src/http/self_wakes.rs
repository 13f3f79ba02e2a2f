//! Wakes that the task of a connection gives itself for nothing. hyper wakes the task when bytes of a body are taken,
//! also where these are the last: the task would be run once more for each request.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicU8,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    task::{Context, Poll, Wake, Waker},
};

/// Wakes go to the task.
const THROUGH: u8 = 0;
/// They are kept, and none has come.
const KEPT: u8 = 1;
/// They are kept, and one has come.
const WOKEN: u8 = 2;

/// Where the wakes of one connection go. It is polled by one task.
#[derive(Debug, Default)]
pub struct SelfWakes(AtomicU8);

impl SelfWakes {
    /// The answer to a request, and whether the poll that gave it woke the task. That wake is kept from the task: if it
    /// is needed, call [`wake`].
    ///
    /// A runtime of one thread hears of sockets and timers between polls only. So a wake in the poll that gives the
    /// answer to a request that is there as a whole says nothing.
    pub fn keep<F: Future>(
        &self,
        mut answer: Pin<&mut F>,
    ) -> impl Future<Output = (F::Output, bool)> {
        poll_fn(move |context| {
            self.0.store(KEPT, Release);
            let polled = answer.as_mut().poll(context);
            let was_woken = self.0.swap(THROUGH, AcqRel) == WOKEN;
            if polled.is_pending() && was_woken {
                context.waker().wake_by_ref();
            }
            polled.map(|it| (it, was_woken))
        })
    }

    /// Is a wake that comes now kept?
    fn keeps(&self) -> bool {
        match self.0.compare_exchange(KEPT, WOKEN, AcqRel, Acquire) {
            Ok(_) => true,
            Err(state) => state == WOKEN,
        }
    }
}

/// Wakes the task.
pub async fn wake() {
    poll_fn(|context| {
        context.waker().wake_by_ref();
        Poll::Ready(())
    })
    .await;
}

/// A waker of the task by way of [`SelfWakes`].
struct ByWay {
    task: Waker,
    wakes: Arc<SelfWakes>,
}

impl Wake for ByWay {
    fn wake(self: Arc<ByWay>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<ByWay>) {
        if !self.wakes.keeps() {
            self.task.wake_by_ref();
        }
    }
}

/// A future whose wakes go by way of [`SelfWakes`].
pub struct Woken<F> {
    /// The future.
    pub future: F,
    wakes: Arc<SelfWakes>,
    /// The waker of the task that has polled it last, and the one by way.
    wakers: Option<(Waker, Waker)>,
}

impl<F> Woken<F> {
    /// The future with wakes by that way.
    pub fn new(future: F, wakes: Arc<SelfWakes>) -> Woken<F> {
        Woken { future, wakes, wakers: None }
    }
}

impl<F: Future + Unpin> Future for Woken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Woken { future, wakes, wakers } = &mut *self;
        let task = context.waker();
        let known = wakers.take().filter(|(known, _)| known.will_wake(task));
        let (_, by_way) = wakers.insert(known.unwrap_or_else(|| {
            let by_way = ByWay { task: task.clone(), wakes: wakes.clone() };
            (task.clone(), Arc::new(by_way).into())
        }));
        Pin::new(future).poll(&mut Context::from_waker(by_way))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Wakes of the task when an answer is polled that wakes it so many times, and what came of the poll.
    fn check(wakes: usize, is_ready: bool) -> (usize, Poll<bool>) {
        let (count, ways) = (Arc::new(Count::default()), Arc::new(SelfWakes::default()));
        let waker = Waker::from(count.clone());
        let kept = ways.clone();
        let answer = Box::pin(async move {
            let mut answer = pin!(poll_fn(|context| {
                (0..wakes).for_each(|_| context.waker().wake_by_ref());
                if is_ready { Poll::Ready(()) } else { Poll::Pending }
            }));
            kept.keep(answer.as_mut()).await.1
        });
        let mut answer = Woken::new(answer, ways);
        let polled = Pin::new(&mut answer).poll(&mut Context::from_waker(&waker));
        (count.0.load(Relaxed), polled)
    }

    #[test]
    fn an_answer_says_whether_its_task_was_woken_and_the_task_is_not() {
        assert_eq!(check(0, true), (0, Poll::Ready(false)));
        assert_eq!(check(1, true), (0, Poll::Ready(true)));
        assert_eq!(check(2, true), (0, Poll::Ready(true)));
    }

    #[test]
    fn a_task_that_has_no_answer_yet_is_woken() {
        assert_eq!(check(0, false), (0, Poll::Pending));
        assert_eq!(check(2, false), (1, Poll::Pending));
    }

    #[test]
    fn wakes_between_polls_reach_the_task_that_has_polled_last() {
        let [first, second] = [(); 2].map(|()| Arc::new(Count::default()));
        let mut kept = None;
        let answer = poll_fn(|context| {
            kept = Some(context.waker().clone());
            Poll::<()>::Pending
        });
        let mut answer = Woken::new(answer, Arc::default());
        for count in [&first, &first, &second] {
            let waker = Waker::from(count.clone());
            assert!(Pin::new(&mut answer).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(answer);
        kept.unwrap().wake();
        assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (0, 1));
    }
}

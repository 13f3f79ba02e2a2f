//! Waiting beside the traffic of a connection for something that seldom happens.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Poll, Waker},
};

/// The same future, which is looked at again only once `has_news`. A connection's task wakes several times for each
/// request, and to look at a notification takes a lock.
///
/// Whatever makes the future ready, or it register for anything else, has to make `has_news` true before it wakes the
/// task.
///
/// # Cancel safety
/// That of the future.
pub(crate) async fn seldom<F: Future>(has_news: impl Fn() -> bool, future: F) -> F::Output {
    // Unconstrained: a future that gave way would be taken for one that has registered for its notification.
    let mut future = pin!(tokio::task::unconstrained(future));
    let mut registered: Option<Waker> = None;
    poll_fn(move |context| {
        let is_registered = registered.as_ref().is_some_and(|it| it.will_wake(context.waker()));
        if is_registered && !has_news() {
            return Poll::Pending;
        }
        let polled = future.as_mut().poll(context);
        if polled.is_pending() && !is_registered {
            registered = Some(context.waker().clone());
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        sync::{Arc, atomic::AtomicUsize},
        task::{Context, Wake},
    };

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }

    #[test]
    fn a_future_is_looked_at_once_for_each_task_until_there_is_news() {
        let (looks, news) = (Cell::new(0), Cell::new(false));
        let future = poll_fn(|_| {
            looks.set(looks.get() + 1);
            if news.get() { Poll::Ready(7) } else { Poll::Pending }
        });
        let mut waits = pin!(seldom(|| news.get(), future));
        let (task, other): (Waker, Waker) =
            (Arc::new(Woken::default()).into(), Arc::new(Woken::default()).into());
        for (waker, expected) in [(&task, 1), (&task, 1), (&other, 2), (&other, 2)] {
            assert!(waits.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            assert_eq!(looks.get(), expected);
        }
        news.set(true);
        assert_eq!(waits.as_mut().poll(&mut Context::from_waker(&other)), Poll::Ready(7));
    }
}

//! Work on threads of the pool: its place in the queue, its deadline, its panics.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use super::*;

fn pool(threads: usize) -> Arc<PreparePool> {
    let threads = NonZeroUsize::new(threads).unwrap();
    Arc::new(PreparePool::new(threads, Arc::default()))
}

fn request(deadline: Option<Instant>) -> PrepareFor {
    PrepareFor { model: "m".into(), deadline }
}

/// Work that says that it has begun and then lasts until it is let go.
struct Held {
    begun: mpsc::Receiver<()>,
    let_go: mpsc::Sender<()>,
}

/// Has a thread of the pool held.
fn hold(pool: &Arc<PreparePool>, tasks: &tokio::task::LocalSet) -> Held {
    let (begins, begun) = mpsc::channel();
    let (let_go, holds) = mpsc::channel::<()>();
    let pool = pool.clone();
    tasks.spawn_local(async move {
        let work = move |_: &CancelToken| {
            begins.send(()).unwrap();
            let _ = holds.recv();
            Ok(())
        };
        pool.run(&request(None), work).await.unwrap();
    });
    Held { begun, let_go }
}

fn block_on(work: impl AsyncFnOnce(&tokio::task::LocalSet)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(work(&tasks)));
}

/// Lets all tasks run until they wait.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn work_is_done_on_a_thread_of_the_pool_and_its_answer_comes_back() {
    block_on(async |_| {
        let name = pool(2)
            .run(&request(None), |_| Ok(thread::current().name().map(str::to_owned)))
            .await
            .unwrap();
        assert_eq!(name.as_deref(), Some("prepare-0"));
    });
}

#[test]
fn there_are_as_many_threads_as_allowed_and_a_bounded_queue_behind_them() {
    block_on(async |tasks| {
        let pool = pool(2);
        let held: Vec<Held> =
            (0..2 + 2 * QUEUED_PER_THREAD + 3).map(|_| hold(&pool, tasks)).collect();
        settle().await;
        held[0].begun.recv().unwrap();
        held[1].begun.recv().unwrap();
        // The threads have taken theirs, so that there are places for others.
        settle().await;
        assert_eq!(pool.shared.lock().threads, 2);
        assert_eq!(pool.shared.lock().queue.len(), 2 * QUEUED_PER_THREAD);
        // Those beyond the queue wait in their tasks, and are counted.
        assert_eq!(pool.shared.waiting.get(), 2 * QUEUED_PER_THREAD as u64 + 3);
        drop(held);
        while 0 < pool.shared.waiting.get() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn work_whose_future_is_dropped_is_not_begun() {
    block_on(async |tasks| {
        let pool = pool(1);
        let held = hold(&pool, tasks);
        settle().await;
        held.begun.recv().unwrap();
        let (began, begun) = mpsc::channel();
        let asking = request(None);
        let mut dropped = Box::pin(pool.run(&asking, move |_| {
            began.send(()).unwrap();
            Ok(())
        }));
        assert!(poll_once(dropped.as_mut()).await.is_none());
        drop(dropped);
        held.let_go.send(()).unwrap();
        // What comes behind it is done.
        pool.run(&request(None), |_| Ok(())).await.unwrap();
        assert!(begun.try_recv().is_err());
    });
}

#[test]
fn long_work_hears_that_its_client_has_left() {
    block_on(async |_| {
        let pool = pool(1);
        let (ends, ended) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let asking = request(None);
        let mut dropped = Box::pin(pool.run(&asking, move |wanted| {
            begins.send(()).unwrap();
            while wanted.check().is_ok() {
                thread::yield_now();
            }
            ends.send(()).unwrap();
            Ok(())
        }));
        assert!(poll_once(dropped.as_mut()).await.is_none());
        begun.recv().unwrap();
        drop(dropped);
        ended.recv_timeout(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn a_deadline_ends_the_wait_for_a_place_and_work_that_asks() {
    block_on(async |tasks| {
        let pool = pool(1);
        let held: Vec<Held> = (0..=QUEUED_PER_THREAD + 1).map(|_| hold(&pool, tasks)).collect();
        settle().await;
        let soon = || Some(Instant::now() + Duration::from_millis(20));
        let error = pool.run(&request(soon()), |_| Ok(())).await.unwrap_err();
        assert!(matches!(error, Error::DeadlineExceeded { .. }), "{error}");
        drop(held);
        let work = |wanted: &CancelToken| loop {
            wanted.check()?;
            thread::yield_now();
        };
        let error = pool.run::<()>(&request(soon()), work).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "Deadline Exceeded: the deadline of the request to model 'm' passed before it was answered"
        );
    });
}

#[test]
fn a_panic_fails_its_request_and_the_thread_goes_on() {
    block_on(async |_| {
        let pool = pool(1);
        let error = pool.run::<()>(&request(None), |_| panic!("on purpose")).await.unwrap_err();
        assert!(matches!(error, Error::Internal(_)), "{error}");
        assert_eq!(pool.run(&request(None), |_| Ok(7)).await.unwrap(), 7);
        assert_eq!(pool.shared.lock().threads, 1);
    });
}

#[test]
fn a_panic_of_short_work_fails_its_request_and_no_more() {
    let error = PreparePool::run_here::<()>(&request(None), |_| panic!("on purpose")).unwrap_err();
    assert!(matches!(error, Error::Internal(_)), "{error}");
    assert_eq!(PreparePool::run_here(&request(None), |_| Ok(7)).unwrap(), 7);
}

#[test]
fn threads_end_with_their_pool() {
    block_on(async |_| {
        let pool = pool(1);
        pool.run(&request(None), |_| Ok(())).await.unwrap();
        let shared = Arc::downgrade(&pool.shared);
        drop(pool);
        while shared.upgrade().is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

/// One look at a future.
async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(it) => Some(it),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn a_wait_is_expected_by_what_waits_and_by_how_long_work_took() {
    block_on(async |tasks| {
        let (pool, took) = (pool(1), Duration::from_millis(20));
        let work = move |_: &CancelToken| {
            thread::sleep(took);
            Ok(())
        };
        assert_eq!(pool.expected_wait(), None);
        pool.run(&request(None), work).await.unwrap();
        assert_eq!(pool.expected_wait(), None);
        let held = hold(&pool, tasks);
        settle().await;
        held.begun.recv().unwrap();
        // More than are queued for one thread: the others wait in their tasks.
        let waiting = 2 * QUEUED_PER_THREAD as u32;
        for _ in 0..waiting {
            let pool = pool.clone();
            tasks.spawn_local(async move { pool.run(&request(None), |_| Ok(())).await });
        }
        settle().await;
        let ExpectedWait { whole, piece, .. } = pool.expected_wait().unwrap();
        assert!(took <= piece && took * waiting <= whole, "{piece:?}, {whole:?}");
        drop(held.let_go);
    });
}

#[test]
fn what_work_took_long_ago_is_forgotten() {
    let pool = pool(1);
    pool.shared.learn(Duration::from_secs(1));
    (0..300).for_each(|_| pool.shared.learn(Duration::from_micros(10)));
    pool.shared.waiting.add(1);
    let whole = pool.expected_wait().unwrap().whole;
    assert!(whole < Duration::from_micros(50), "{whole:?}");
}

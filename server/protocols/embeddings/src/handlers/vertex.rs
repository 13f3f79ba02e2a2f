//! Several bodies in one, as Vertex AI sends them to containers of Text Embeddings Inference.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Instant,
};

use bytes::Bytes;
use hyper::{
    Response,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};

use super::{
    by_task::by_task,
    choice::WantedModel,
    cost::add_times,
    received::{read, receive},
    text_service::TextService,
};
use crate::codec::tei::vertex::instances;
use frontend::{
    exchange::{Failure, intake::Received, offload::LARGE, payload::Payload},
    http::{address::ModelPath, answer::Answer, body::Segments, parts::Parts},
};
use inference::{
    limits::{Permit, out_of_bytes},
    timings::Spent,
};
use serving::ServedModel;

/// Bodies of a request that run at the same time.
const AT_ONCE: usize = 8;

/// Runs each of the bodies by itself, and answers with a list of the replies.
pub async fn vertex(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let began = Instant::now();
    let (model, received) = receive(service, path, WantedModel::Texts, parts, body).await?;
    // Once for all bodies; the model of an address has done it.
    if path.is_none() {
        model.admit()?;
    }
    // Covers all bodies until the last of them is answered, and their replies until the last byte is written: a short
    // reply has no permit of its own.
    let (bodies, mut permit) = read(received, instances).await?;
    let mut covered = permit.units();
    let run = |body: Bytes| (body.len(), one(service, &model, parts, body));
    let cover = |reply: &Segments| {
        covered = covered.saturating_add(reply.length());
        permit.cover(covered);
    };
    let replies = in_order(bodies.into_iter().map(run), cover).await?;
    let mut response = Response::new(joined(&replies, permit));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    add_times(&mut response, began);
    Ok(response)
}

/// The replies as one body, which keeps `permit` for them.
fn joined(replies: &[Segments], mut permit: Permit) -> Segments {
    let mut pieces = vec![Bytes::from_static(b"{\"predictions\":[")];
    for (at, reply) in replies.iter().enumerate() {
        if at > 0 {
            pieces.push(Bytes::from_static(b","));
        }
        pieces.extend(reply.pieces().cloned());
    }
    pieces.push(Bytes::from_static(b"]}"));
    let mut body = Segments::from(pieces);
    body.set_spent(replies.iter().filter_map(Segments::spent).reduce(Spent::beside));
    permit.resize(body.length());
    body.hold(permit);
    body
}

async fn one(
    service: &TextService<'_>,
    model: &Arc<ServedModel>,
    parts: &Parts,
    body: Bytes,
) -> Result<Segments, Failure> {
    let budget = &service.settings.body.budget;
    // The bytes are counted already.
    let permit = budget.take(0).ok_or_else(|| out_of_bytes(budget))?;
    let payload = Payload::Admitted(Received { bytes: body, permit }.into());
    let response = by_task(service, model.clone(), parts, payload).await?;
    Ok(response.into_body())
}

/// What comes of these futures, in their order; a few of them run at a time. The first failure ends all. `look` sees
/// each result as soon as it is there.
///
/// With each stand the bytes that it reads when it begins. After [`LARGE`] of them other tasks of the thread have a
/// turn.
async fn in_order<T>(
    mut futures: impl Iterator<Item = (usize, impl Future<Output = Result<T, Failure>>)>,
    mut look: impl FnMut(&T),
) -> Result<Vec<T>, Failure> {
    let mut running: Vec<(usize, Pin<Box<_>>)> = Vec::with_capacity(AT_ONCE);
    let mut done: Vec<(usize, T)> = Vec::new();
    let (mut begun, mut read) = (0, 0);
    let mut seen = |outcome: Result<T, Failure>| outcome.inspect(&mut look);
    loop {
        while running.len() < AT_ONCE {
            let Some((bytes, future)) = futures.next() else { break };
            if LARGE < read + bytes && 0 < read {
                tokio::task::yield_now().await;
                read = 0;
            }
            read += bytes;
            let mut future = Box::pin(future);
            let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
            match first {
                Poll::Ready(outcome) => done.push((begun, seen(outcome)?)),
                Poll::Pending => running.push((begun, future)),
            }
            begun += 1;
        }
        if running.is_empty() {
            done.sort_unstable_by_key(|it| it.0);
            return Ok(done.into_iter().map(|it| it.1).collect());
        }
        let next = poll_fn(|context| {
            for at in 0..running.len() {
                let Some((_, future)) = running.get_mut(at) else { continue };
                if let Poll::Ready(outcome) = future.as_mut().poll(context) {
                    return Poll::Ready((running.swap_remove(at).0, outcome));
                }
            }
            Poll::Pending
        });
        let (at, outcome) = next.await;
        done.push((at, seen(outcome)?));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use inference::limits::Budget;

    /// Turns of another task while twenty bodies of so many bytes are read.
    async fn turns(bytes: usize) -> usize {
        let turns = Arc::new(AtomicUsize::new(0));
        let counts = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counts.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let all = in_order((0..20).map(|it| (bytes, async move { Ok(it) })), |_| ()).await;
        other.abort();
        assert!(all.is_ok_and(|it| it.into_iter().eq(0..20)));
        turns.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn each_result_is_seen_before_the_last_one_is_there() {
        let seen = AtomicUsize::new(0);
        let futures = (0..20).map(|at| {
            assert_eq!(seen.load(Ordering::Relaxed), at);
            (1, async move { Ok(at) })
        });
        let count = |_: &usize| {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(in_order(futures, count).await.unwrap().len(), 20);
        assert_eq!(seen.load(Ordering::Relaxed), 20);
    }

    #[test]
    fn many_short_replies_are_counted_until_they_are_written() {
        let budget = Budget::new(1 << 20);
        let short = || Segments::from(Bytes::from(vec![b'1'; 100]));
        let body = joined(&(0..100).map(|_| short()).collect::<Vec<_>>(), budget.take(7).unwrap());
        assert_eq!(budget.used(), body.length());
        assert!(10_000 < body.length());
        drop(body);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn between_large_bodies_other_tasks_of_the_thread_have_turns() {
        assert_eq!(turns(LARGE).await, 19);
        assert!((1..10).contains(&turns(LARGE / 4).await));
        assert_eq!(turns(10).await, 0);
    }
}

//! Answers in a Redis server. Two commands are used, GET and SET, and a request waits for one round trip. Whatever is
//! wrong with Redis, a request that looks there waits no longer than the settings say, and soon does not look any more.
//!
//! The protocol is written by hand. Two commands with a bound on every wait are some 300 lines; a client for all of
//! Redis brings thirty crates. A connection on which a question was dropped is closed: its next answer would be that
//! question's.

mod circuit;
mod connection;
mod problem;
mod wire;

use std::{
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
    time::Instant,
};

use backend::NamedTensor;
use bytes::Bytes;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::cache::{
    cache_settings::RedisSettings,
    entry::{decode, encode},
    key::Key,
    redis::{circuit::Circuit, connection::Connection, problem::RedisError, wire::Value},
};

/// KiB of answers that may be on their way to Redis; what comes while so many are is not kept.
const MOST_WRITING: u32 = 64 << 10;

/// Redis takes no longer values.
const LONGEST_VALUE: usize = 512 << 20;

/// A Redis server.
pub struct Redis {
    settings: RedisSettings,
    /// Connections that may be in use.
    places: Semaphore,
    /// Guards the connections that are open and not in use, with the thread on which each was opened: there it is
    /// served without waking another one.
    idle: Mutex<Vec<(ThreadId, Connection)>>,
    /// Guards what is known of Redis's health.
    circuit: Mutex<Circuit>,
    /// In KiB.
    writing: Arc<Semaphore>,
    /// Does the log say that Redis refuses to keep answers?
    logged_refusal: AtomicBool,
}

impl Redis {
    /// Opens no connection yet.
    pub(super) fn new(settings: RedisSettings) -> Redis {
        Redis {
            places: Semaphore::new(settings.pool_size.get()),
            idle: Mutex::default(),
            circuit: Mutex::default(),
            writing: Arc::new(Semaphore::new(MOST_WRITING as usize)),
            logged_refusal: AtomicBool::new(false),
            settings,
        }
    }

    /// The answer of that key. `None` also when Redis does not answer in time.
    pub(super) async fn get(&self, key: &Key) -> Option<Vec<NamedTensor>> {
        if !lock(&self.circuit).lets_through(Instant::now()) {
            return None;
        }
        let name = name(key);
        let outcome = self.ask(&[b"GET", name.as_bytes()], Bytes::new()).await;
        let value = match outcome {
            Ok(Value::Bulk(value)) => Ok(Some(value)),
            Ok(Value::Nil) => Ok(None),
            Ok(Value::Error(text)) => Err(RedisError::Refused(text)),
            Ok(Value::Simple) => Err(RedisError::Unexpected),
            Err(problem) => Err(problem),
        };
        let value = self.judged(value)??;
        let outputs = decode(value);
        if outputs.is_none() {
            tracing::warn!(
                key = name,
                "what Redis keeps under this key is no answer of this version"
            );
        }
        outputs
    }

    /// Has the answer sent to Redis, and does not wait for that.
    pub(super) fn put(self: &Arc<Self>, key: Key, outputs: &[NamedTensor], model: &str) {
        if !lock(&self.circuit).is_closed() {
            return;
        }
        let bytes: usize = outputs.iter().map(|it| it.tensor.byte_len()).sum();
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX).min(MOST_WRITING);
        let Ok(permit) = self.writing.clone().try_acquire_many_owned(kib) else {
            tracing::debug!(model, bytes, "too many answers are on their way to Redis");
            return;
        };
        let value = Bytes::from(encode(outputs));
        if LONGEST_VALUE < value.len() {
            tracing::debug!(model, bytes, "an answer is longer than Redis takes");
            return;
        }
        let redis = self.clone();
        tokio::spawn(async move {
            let name = name(&key);
            let outcome = redis.ask(&[b"SET", name.as_bytes()], value).await;
            drop(permit);
            match outcome {
                // It is full, or read only: what it has can still be read.
                Ok(Value::Error(text)) => {
                    if !redis.logged_refusal.swap(true, Ordering::Relaxed) {
                        tracing::warn!("Redis does not keep answers; it says: {text}");
                    }
                }
                Ok(_) => drop(redis.judged(Ok(()))),
                Err(problem) => drop(redis.judged::<()>(Err(problem))),
            }
        });
    }

    /// Asks whether Redis is there, and logs the answer.
    pub(super) async fn greet(&self) {
        let outcome = match self.ask(&[b"PING"], Bytes::new()).await {
            Ok(Value::Error(text)) => Err(RedisError::Refused(text)),
            Ok(_) => Ok(()),
            Err(problem) => Err(problem),
        };
        if self.judged(outcome).is_some() {
            let (host, port) = (&self.settings.host, self.settings.port);
            tracing::info!(host, port, "answers are kept in Redis");
        }
    }

    /// Notes what the outcome says of Redis's health.
    fn judged<T>(&self, outcome: Result<T, RedisError>) -> Option<T> {
        let (host, port) = (&self.settings.host, self.settings.port);
        match outcome {
            Ok(value) => {
                if lock(&self.circuit).succeeded() {
                    tracing::info!(host, port, "Redis answers again");
                }
                Some(value)
            }
            Err(RedisError::Busy) => None,
            Err(problem) => {
                if lock(&self.circuit).failed(Instant::now()) {
                    tracing::warn!(
                        host,
                        port,
                        "Redis is not asked for a while, and requests are answered without it: {problem}"
                    );
                }
                None
            }
        }
    }

    /// One command and its answer, on a connection that is open already, else on a new one. `value` is its last part,
    /// where it is not empty.
    async fn ask(&self, parts: &[&[u8]], value: Bytes) -> Result<Value, RedisError> {
        let _place = self.place().await?;
        if let Some(mut connection) = self.take_idle() {
            match self.exchange(&mut connection, parts, value.clone()).await {
                Ok(answer) => {
                    self.give_back(connection);
                    return Ok(answer);
                }
                // Redis may have closed it since: others that are idle are no better.
                Err(RedisError::Connection(_)) => lock(&self.idle).clear(),
                Err(problem) => return Err(problem),
            }
        }
        let connect = self.settings.connect_timeout;
        let connection = timeout(connect, Connection::open(&self.settings)).await;
        let mut connection = connection
            .map_err(|_| RedisError::Timeout { what: "connection", limit: connect })??;
        let answer = self.exchange(&mut connection, parts, value).await?;
        self.give_back(connection);
        Ok(answer)
    }

    async fn place(&self) -> Result<SemaphorePermit<'_>, RedisError> {
        let place = timeout(self.settings.wait_timeout, self.places.acquire()).await;
        place.ok().and_then(Result::ok).ok_or(RedisError::Busy)
    }

    /// A connection on which something was asked and not answered is dropped: what would come next on it is no answer
    /// to the next question.
    async fn exchange(
        &self,
        connection: &mut Connection,
        parts: &[&[u8]],
        value: Bytes,
    ) -> Result<Value, RedisError> {
        let limit = self.settings.socket_timeout;
        let answer = timeout(limit, connection.ask(parts, value)).await;
        Ok(answer.map_err(|_| RedisError::Timeout { what: "answer", limit })??)
    }

    /// One of this thread, if there is one.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        let here = thread::current().id();
        let at = idle.iter().rposition(|(thread, _)| *thread == here);
        let at = at.or(idle.len().checked_sub(1))?;
        Some(idle.swap_remove(at).1)
    }

    fn give_back(&self, connection: Connection) {
        lock(&self.idle).push((thread::current().id(), connection));
    }
}

/// The key in Redis.
fn name(key: &Key) -> String {
    let mut name = "muster:".to_owned();
    for byte in key.0 {
        // Writing to memory cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that panics runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

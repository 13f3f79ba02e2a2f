//! Answers that are kept, to be given again to requests that are equal in everything that an answer depends on.

pub mod cache_settings;
mod entry;
pub mod key;
mod local;
mod redis;

use std::{sync::Arc, time::Instant};

use backend::NamedTensor;

pub use crate::cache::{
    cache_settings::{CacheSettings, RedisSettings, Secret},
    key::{Key, KeyBuilder},
};
use crate::cache::{local::Local, redis::Redis};
use telemetry::metrics::Metrics;

/// A cache of answers. Nothing that goes wrong in it makes a request fail.
pub enum Cache {
    /// In this process.
    Local(Local),
    /// In a Redis server, shared with other processes.
    Redis(Arc<Redis>),
}

impl Cache {
    /// The cache that is asked for. Opens no connection.
    pub fn new(config: &CacheSettings, metrics: &Metrics) -> Cache {
        match config {
            CacheSettings::Local { size } => Cache::Local(Local::new(*size, metrics.cache(*size))),
            CacheSettings::Redis(settings) => Cache::Redis(Arc::new(Redis::new(settings.clone()))),
        }
    }

    /// Says in the log whether Redis is there, where that is asked.
    pub async fn greet(&self) {
        match self {
            Cache::Local(_) => {}
            Cache::Redis(redis) => redis.greet().await,
        }
    }

    /// The answer of that key, if it is there; in the process within a microsecond or so, else within the time that
    /// the settings give Redis.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing but a connection.
    pub async fn get(&self, key: &Key) -> Option<Vec<NamedTensor>> {
        match self {
            Cache::Local(local) => {
                let started = Instant::now();
                let found = local.get(key);
                local.looked(found.is_some(), started.elapsed());
                found
            }
            Cache::Redis(redis) => redis.get(key).await,
        }
    }

    /// Keeps an answer of `model`. Waits for no one: what goes to Redis goes there afterwards.
    pub fn put(&self, key: Key, outputs: &[NamedTensor], model: &str) {
        match self {
            Cache::Local(local) => local.put(key, outputs, model),
            Cache::Redis(redis) => redis.put(key, outputs, model),
        }
    }
}

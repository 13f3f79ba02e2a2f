//! Single objects of S3, read and written whole: what asynchronous invocations bring and leave there.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use object_store::{
    Attribute, Attributes, ObjectStore, ObjectStoreExt, PutOptions, PutPayload, path::Path as Key,
};
use tokio::time::timeout;

use super::{
    StoreError,
    connect::{Access, connect},
    download::STALL,
    silent,
};
use crate::config::{Provider, StoreSettings, StoreUrl};

/// Buckets whose clients are kept. Any client of the server can name one more; then all are made anew.
const MOST_BUCKETS: usize = 64;

/// Objects in any bucket that the credentials of the server open. Its functions belong to one runtime of tokio, on
/// which its connections live.
#[derive(Debug)]
pub struct Objects {
    settings: StoreSettings,
    /// `http://host:port`, where it is given.
    endpoint: Option<String>,
    /// Guards the clients that are there. Held for a look, and while one is made.
    buckets: Mutex<BTreeMap<String, Arc<Access>>>,
}

/// An object that is about to be read.
pub struct Object {
    /// Bytes of it.
    pub length: u64,
    access: Arc<Access>,
    key: String,
    chunks: std::pin::Pin<Box<dyn Stream<Item = object_store::Result<Bytes>> + Send>>,
}

impl Objects {
    /// Objects behind this endpoint, or behind the one that the settings name. Nothing is asked for yet.
    pub fn new(settings: StoreSettings, endpoint: Option<String>) -> Objects {
        Objects { settings, endpoint, buckets: Mutex::default() }
    }

    /// Begins to read an object.
    ///
    /// # Errors
    /// When there is none, or the store cannot be asked.
    pub async fn open(&self, bucket: &str, key: &str) -> Result<Object, StoreError> {
        let access = self.access(bucket)?;
        let path = Key::parse(key).map_err(|it| access.error("read", key, &it))?;
        let found = timeout(STALL, access.store.get(&path)).await;
        let found = found.map_err(|_| access.error("read", key, &silent()))?;
        let found = found.map_err(|it| access.error("read", key, &it))?;
        let length = found.meta.size;
        Ok(Object { length, access, key: key.to_owned(), chunks: found.into_stream() })
    }

    /// Writes an object, in place of one that is there.
    ///
    /// # Errors
    /// When the store cannot be asked, or refuses.
    pub async fn write(
        &self,
        bucket: &str,
        key: &str,
        body: Vec<Bytes>,
        content_type: Option<&str>,
    ) -> Result<(), StoreError> {
        let access = self.access(bucket)?;
        let mut attributes = Attributes::new();
        if let Some(content_type) = content_type {
            attributes.insert(Attribute::ContentType, content_type.to_owned().into());
        }
        let options = PutOptions { attributes, ..PutOptions::default() };
        let body = PutPayload::from_iter(body);
        let path = Key::parse(key).map_err(|it| access.error("write", key, &it))?;
        let written = access.store.put_opts(&path, body, options).await;
        written.map(drop).map_err(|it| access.error("write", key, &it))
    }

    fn access(&self, bucket: &str) -> Result<Arc<Access>, StoreError> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(access) = buckets.get(bucket) {
            return Ok(access.clone());
        }
        let url = StoreUrl {
            text: format!("s3://{bucket}"),
            provider: Provider::S3,
            endpoint: self.endpoint.clone(),
            account: String::new(),
            bucket: bucket.to_owned(),
            prefix: String::new(),
        };
        let access = Arc::new(connect(&url, &self.settings)?);
        if MOST_BUCKETS <= buckets.len() {
            buckets.clear();
        }
        buckets.insert(bucket.to_owned(), access.clone());
        Ok(access)
    }
}

impl Object {
    /// The next bytes of it; `None` at the end.
    ///
    /// # Errors
    /// When they do not come.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let next = timeout(STALL, self.chunks.next()).await;
        let next = next.map_err(|_| self.access.error("read", &self.key, &silent()))?;
        next.transpose().map_err(|it| self.access.error("read", &self.key, &it))
    }
}

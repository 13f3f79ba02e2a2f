//! Single objects of S3, read and written whole: the inputs and outputs of asynchronous invocations.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use object_store::{
    Attribute, Attributes, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    path::Path as Key,
};
use tokio::time::timeout;

use crate::{
    connect::{Access, connect},
    download::{STALL, silent},
    error::StoreError,
    store_settings::{Provider, StoreSettings, StoreUrl},
};

/// Buckets whose clients are kept. Any client of the server can name one more; then all are made anew.
const MOST_BUCKETS: usize = 64;

/// How long each MiB of an object may take to be written, beyond what the store's answer may.
const PER_MIB: Duration = Duration::from_secs(1);

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

/// What became of an object that was to be written.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// It is there, whole.
    Whole,
    /// There is one of that name already, which stays as it is.
    Taken,
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

    /// Writes an object, unless there is one of that name. A store that is said not to know such a condition
    /// (`AWS_CONDITIONAL_PUT=disabled`) has it put in place of the other.
    ///
    /// # Errors
    /// When the store cannot be asked, refuses, or says nothing for too long.
    pub async fn write(
        &self,
        bucket: &str,
        key: &str,
        body: Vec<Bytes>,
        content_type: Option<&str>,
    ) -> Result<Written, StoreError> {
        let access = self.access(bucket)?;
        let mut attributes = Attributes::new();
        if let Some(content_type) = content_type {
            attributes.insert(Attribute::ContentType, content_type.to_owned().into());
        }
        let body = PutPayload::from_iter(body);
        let path = Key::parse(key).map_err(|it| access.error("write", key, &it))?;
        let mebibytes = u32::try_from(body.content_length() >> 20).unwrap_or(u32::MAX);
        let put = |mode| {
            let options = PutOptions { mode, attributes: attributes.clone(), ..Default::default() };
            access.store.put_opts(&path, body.clone(), options)
        };
        let written = timeout(STALL + PER_MIB.saturating_mul(mebibytes), async {
            match put(PutMode::Create).await {
                Err(object_store::Error::NotImplemented { .. }) => put(PutMode::Overwrite).await,
                done => done,
            }
        });
        match written.await.map_err(|_| access.error("write", key, &silent()))? {
            Ok(_) => Ok(Written::Whole),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Written::Taken),
            Err(error) => Err(access.error("write", key, &error)),
        }
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

#[cfg(test)]
mod tests {
    use object_store::{
        memory::InMemory,
        throttle::{ThrottleConfig, ThrottledStore},
    };

    use super::*;

    /// Objects whose bucket `b` is in memory, and takes so long for each write.
    fn objects(wait_put_per_call: Duration) -> Objects {
        let settings = StoreSettings { anonymous: true, ..StoreSettings::default() };
        let mut access = connect(&StoreUrl::parse("s3://b").unwrap(), &settings).unwrap();
        let config = ThrottleConfig { wait_put_per_call, ..ThrottleConfig::default() };
        access.store = Arc::new(ThrottledStore::new(InMemory::new(), config));
        let objects = Objects::new(settings, None);
        objects.buckets.lock().unwrap().insert("b".to_owned(), Arc::new(access));
        objects
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_says_nothing_is_not_waited_for() {
        let written = objects(Duration::MAX).write("b", "k", Vec::new(), None).await;
        let error_text = written.unwrap_err().to_string();
        assert!(error_text.contains("cannot write s3://b/k: no answer"), "{error_text}");
        // What is large may take longer.
        let slow = objects(STALL + PER_MIB);
        let body = vec![Bytes::from(vec![0; 2 << 20])];
        assert_eq!(slow.write("b", "k", body, None).await, Ok(Written::Whole));
    }

    #[tokio::test]
    async fn an_object_that_is_there_stays() {
        let objects = objects(Duration::ZERO);
        for (text, expected) in [("first", Written::Whole), ("second", Written::Taken)] {
            let written = objects.write("b", "k", vec![Bytes::from(text)], None).await;
            assert_eq!(written, Ok(expected));
        }
        let mut object = objects.open("b", "k").await.unwrap();
        assert_eq!(object.next().await.unwrap().unwrap(), "first");
    }
}

//! One object onto the disk: in parts that come at the same time, again where one breaks off, and looked at when
//! it is here.

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use md5::{Digest, Md5};
use object_store::{GetOptions, ObjectStore};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    connect::Access,
    error::StoreError,
    listing::{Object, hex},
};

/// Requests for parts at the same time, of all objects of a repository together.
pub(super) const PARALLEL: usize = 8;

/// Larger objects come in parts of so many bytes.
const PART: u64 = 32 << 20;

/// How often a part is asked for that begins to come and does not arrive, or arrives wrong.
const ATTEMPTS: u32 = 4;

/// Longest time in which nothing comes.
pub(super) const STALL: Duration = Duration::from_secs(30);

/// What is shared by all downloads of a repository.
#[derive(Debug)]
pub(super) struct Downloads {
    permits: Semaphore,
    /// Has an ETag been seen that looks like a digest of the content and is none?
    tags_are_no_digests: AtomicBool,
}

/// Why an object could not be fetched.
#[derive(Debug)]
pub(super) enum FetchError {
    /// It is not what it was when it was listed.
    Changed,
    /// Anything else.
    Failed(StoreError),
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> FetchError {
        FetchError::Failed(error)
    }
}

/// Why a part did not come.
enum Broken {
    /// It may come when asked for again.
    Off(String),
    /// It will not.
    Refused(FetchError),
}

impl Default for Downloads {
    fn default() -> Downloads {
        Downloads { permits: Semaphore::new(PARALLEL), tags_are_no_digests: AtomicBool::new(false) }
    }
}

impl Downloads {
    /// Writes an object to `path` and returns the MD5 of its content, in hexadecimal.
    ///
    /// # Cancel safety
    /// What was written stays, incomplete.
    pub(super) async fn fetch(
        &self,
        access: &Access,
        object: &Object,
        path: &Path,
    ) -> Result<String, FetchError> {
        let failed = |it: io::Error| StoreError::cache("write", path, it);
        let mut before: Option<String> = None;
        for _ in 0..ATTEMPTS {
            let file = File::create(path).map_err(failed)?;
            let parts = stream::iter(parts(object.size)).map(Ok::<_, FetchError>);
            parts
                .try_for_each_concurrent(PARALLEL, |part| self.part(access, object, part, &file))
                .await?;
            file.set_modified(object.written).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            let read = path.to_owned();
            let digest = tokio::task::spawn_blocking(move || digest(&read)).await;
            let digest = digest.unwrap_or_else(|it| Err(io::Error::other(it))).map_err(failed)?;
            match object.md5().filter(|_| !self.tags_are_no_digests.load(Relaxed)) {
                Some(expected) if !expected.eq_ignore_ascii_case(&digest) => {
                    if before.as_ref() == Some(&digest) {
                        // The same came twice: the store has encrypted it, and its ETag is of something else.
                        tracing::debug!(key = %object.key, "its ETag is no digest of its content");
                        self.tags_are_no_digests.store(true, Relaxed);
                        return Ok(digest);
                    }
                    before = Some(digest);
                }
                _ => return Ok(digest),
            }
        }
        let reason = format!(
            "what came was another content each time, and never one with the MD5 of its ETag, {}",
            object.md5().unwrap_or_default()
        );
        Err(access.error("read", object.key.as_ref(), &io::Error::other(reason)).into())
    }

    /// One part of an object, into the file at its place.
    async fn part(
        &self,
        access: &Access,
        object: &Object,
        part: Range<u64>,
        file: &File,
    ) -> Result<(), FetchError> {
        let Ok(_permit) = self.permits.acquire().await else { return Ok(()) };
        let mut attempt = 0;
        loop {
            let reason = match try_part(access, object, part.clone(), file).await {
                Ok(()) => return Ok(()),
                Err(Broken::Refused(failure)) => return Err(failure),
                Err(Broken::Off(reason)) => reason,
            };
            attempt += 1;
            if attempt == ATTEMPTS {
                let reason = format!("{reason}, {ATTEMPTS} times");
                let error = io::Error::other(reason);
                return Err(access.error("read", object.key.as_ref(), &error).into());
            }
            tracing::warn!(key = %object.key, part = ?part, "asked for again: {reason}");
            tokio::time::sleep(Duration::from_millis(100) * 4u32.pow(attempt)).await;
        }
    }
}

async fn try_part(
    access: &Access,
    object: &Object,
    part: Range<u64>,
    file: &File,
) -> Result<(), Broken> {
    let whole = part == (0..object.size);
    let options = GetOptions {
        if_match: object.e_tag.clone(),
        range: (!whole).then(|| part.clone().into()),
        ..GetOptions::default()
    };
    let silent = |_| Broken::Off(format!("no answer for {} s", STALL.as_secs()));
    let found =
        timeout(STALL, access.store.get_opts(&object.key, options)).await.map_err(silent)?;
    let found = found.map_err(|error| {
        use object_store::Error::{NotFound, Precondition};
        Broken::Refused(match &error {
            Precondition { .. } | NotFound { .. } => FetchError::Changed,
            error => access.error("read", object.key.as_ref(), error).into(),
        })
    })?;
    let mut at = part.start;
    let mut content = found.into_stream();
    while let Some(bytes) = timeout(STALL, content.next()).await.map_err(silent)? {
        let bytes = bytes.map_err(|it| Broken::Off(format!("it broke off: {it}")))?;
        let end = at + bytes.len() as u64;
        if part.end < end {
            return Err(Broken::Off(format!("more than {} bytes came", part.end - part.start)));
        }
        let write = file.write_all_at(&bytes, at);
        write.map_err(|it| {
            Broken::Refused(
                StoreError::cache("write the copy of", Path::new(&object.file), it).into(),
            )
        })?;
        at = end;
    }
    match at == part.end {
        true => Ok(()),
        false => {
            Err(Broken::Off(format!("{} of {} bytes came", at - part.start, part.end - part.start)))
        }
    }
}

/// Cuts so many bytes into parts; none where there are none.
fn parts(size: u64) -> impl Iterator<Item = Range<u64>> {
    (0..size.div_ceil(PART)).map(move |it| it * PART..size.min((it + 1) * PART))
}

fn digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Md5::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// The store does not answer.
pub(super) fn silent() -> std::io::Error {
    std::io::Error::other(format!("no answer for {} s", STALL.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_an_object_without_gaps() {
        let all = |size| parts(size).map(|it| (it.start, it.end)).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(5), [(0, 5)]);
        assert_eq!(all(PART), [(0, PART)]);
        assert_eq!(all(2 * PART + 1), [(0, PART), (PART, 2 * PART), (2 * PART, 2 * PART + 1)]);
    }
}

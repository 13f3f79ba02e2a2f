//! Objects that asynchronous invocations read and write: files below a directory, or objects of S3. Nothing outside
//! of that directory or those buckets can be reached.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;

use crate::{codec::aws::Location, settings::aws::ObjectsAt};
use inference::{
    aligned::AlignedBuffer,
    identifier::new_uuid,
    limits::{Budget, Permit},
};
use stores::{self, StoreSettings};

/// Bytes that are read from a file at once. They are not counted: each invocation that runs has as many.
const STEP: usize = 64 << 10;

/// The store that addresses of S3 stand for.
pub enum Objects {
    /// Files below this directory.
    Folder(Arc<Path>),
    /// S3.
    Stores(stores::Objects),
}

/// Why an object could not be read or written.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ObjectError {
    /// The budget has no room for it at present.
    #[error("there is no memory")]
    NoRoom,
    /// An object of that name exists already, and stays as it is.
    #[error("there is an object of that name already")]
    Taken,
    /// Any other reason, as a sentence.
    #[error("{0}")]
    Other(String),
}

impl Objects {
    /// The store of these settings. Nothing is opened yet.
    pub fn new(settings: &ObjectsAt, stores: &StoreSettings) -> Objects {
        match settings {
            ObjectsAt::Folder(path) => Objects::Folder(path.as_path().into()),
            ObjectsAt::S3(endpoint) => {
                Objects::Stores(stores::Objects::new(stores.clone(), endpoint.clone()))
            }
        }
    }

    /// Reads an object of at most `limit` bytes. Its permit is taken from `budget`.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub async fn read(
        &self,
        location: &Location,
        limit: u64,
        budget: &Arc<Budget>,
    ) -> Result<(Bytes, Permit), ObjectError> {
        match self {
            Objects::Folder(root) => {
                let (root, location, budget) = (root.clone(), location.clone(), budget.clone());
                let work = move || read_file(&root, &location, limit, &budget);
                tokio::task::spawn_blocking(work).await.unwrap_or_else(|it| Err(lost(&it)))
            }
            Objects::Stores(objects) => {
                let failed = |it: stores::StoreError| ObjectError::Other(it.to_string());
                let opened = objects.open(location.bucket(), location.key()).await;
                let mut object = opened.map_err(failed)?;
                let mut reading = Reading::begin(location, object.length, limit, budget)?;
                while let Some(chunk) = object.next().await.map_err(failed)? {
                    reading.add(&chunk)?;
                }
                Ok(reading.finish())
            }
        }
    }

    /// Writes an object, unless one of that name exists. Readers see the whole object or none.
    ///
    /// # Errors
    /// Why it could not be written.
    pub async fn write(
        &self,
        location: &Location,
        body: Vec<Bytes>,
        content_type: Option<&str>,
    ) -> Result<(), ObjectError> {
        match self {
            Objects::Folder(root) => {
                let (root, location) = (root.clone(), location.clone());
                let work = move || write_file(&root, &location, &body);
                tokio::task::spawn_blocking(work).await.unwrap_or_else(|it| Err(lost(&it)))
            }
            Objects::Stores(objects) => {
                let (bucket, key) = (location.bucket(), location.key());
                match objects.write(bucket, key, body, content_type).await {
                    Ok(stores::Written::Whole) => Ok(()),
                    Ok(stores::Written::Taken) => Err(ObjectError::Taken),
                    Err(error) => Err(ObjectError::Other(error.to_string())),
                }
            }
        }
    }
}

fn lost(error: &tokio::task::JoinError) -> ObjectError {
    ObjectError::Other(format!("a thread was lost: {error}"))
}

/// An object that is being read into memory.
struct Reading<'a> {
    location: &'a Location,
    buffer: AlignedBuffer,
    permit: Permit,
    limit: u64,
}

impl<'a> Reading<'a> {
    fn begin(
        location: &'a Location,
        length: u64,
        limit: u64,
        budget: &Arc<Budget>,
    ) -> Result<Reading<'a>, ObjectError> {
        if limit < length {
            return Err(too_large(location, length, limit));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let permit = budget.take(length).ok_or(ObjectError::NoRoom)?;
        Ok(Reading { location, buffer: AlignedBuffer::new(length, 0), permit, limit })
    }

    fn add(&mut self, chunk: &[u8]) -> Result<(), ObjectError> {
        let length = self.buffer.len() + chunk.len();
        if self.limit < length as u64 {
            return Err(too_large(self.location, length as u64, self.limit));
        }
        // The file may have grown since its length was read.
        if !self.permit.grow_to(length) {
            return Err(ObjectError::NoRoom);
        }
        self.buffer.extend(chunk);
        Ok(())
    }

    fn finish(self) -> (Bytes, Permit) {
        (self.buffer.finish(), self.permit)
    }
}

fn too_large(location: &Location, length: u64, limit: u64) -> ObjectError {
    ObjectError::Other(format!(
        "{location}: {length} bytes are more than the limit of {limit} bytes (--http-max-input-size)"
    ))
}

/// The content of a file.
fn read_file(
    root: &Path,
    location: &Location,
    limit: u64,
    budget: &Arc<Budget>,
) -> Result<(Bytes, Permit), ObjectError> {
    let failed = |it: io::Error| ObjectError::Other(format!("cannot read {location}: {it}"));
    let path = inside(root, &path_of(root, location)).map_err(failed)?;
    // A pipe or a device could be read for ever.
    let kind = fs::metadata(&path).map_err(failed)?;
    if !kind.is_file() {
        return Err(ObjectError::Other(format!("cannot read {location}: it is not a file")));
    }
    let mut file = fs::File::open(&path).map_err(failed)?;
    let mut reading = Reading::begin(location, kind.len(), limit, budget)?;
    let mut chunk = vec![0; step(kind.len())];
    loop {
        let length = file.read(&mut chunk).map_err(failed)?;
        let read = chunk.get(..length).unwrap_or_default();
        if read.is_empty() {
            return Ok(reading.finish());
        }
        reading.add(read)?;
    }
}

/// Bytes to read at once from a file of that length, the look for its end included.
fn step(length: u64) -> usize {
    usize::try_from(length).unwrap_or(STEP).saturating_add(1).min(STEP)
}

/// Writes a file under a temporary name in the same directory, and then gives it its name.
fn write_file(root: &Path, location: &Location, body: &[Bytes]) -> Result<(), ObjectError> {
    let failed = |it: io::Error| ObjectError::Other(format!("cannot write {location}: {it}"));
    let path = path_of(root, location);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    // An existing part of the path may be a link: directories are made only after its real place is known.
    if let Some(above) = parent.ancestors().find(|it| it.symlink_metadata().is_ok()) {
        inside(root, above).map_err(failed)?;
    }
    fs::create_dir_all(parent).map_err(failed)?;
    let parent = inside(root, parent).map_err(failed)?;
    let part = parent.join(format!(".{}.part", new_uuid()));
    let write = || {
        let mut file = fs::File::create_new(&part)?;
        body.iter().try_for_each(|it| file.write_all(it))?;
        put_new(&part, &parent.join(name))
    };
    let written = write();
    // The content has its final name, or the write failed. A temporary file that cannot be removed does no harm.
    let _ = fs::remove_file(&part);
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => ObjectError::Taken,
        _ => failed(error),
    })
}

/// Gives the file `part` the name `path`, unless a file of that name exists.
fn put_new(part: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(part, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            // Some file systems have no hard links. Then an empty file takes the name first, and exists for a moment.
            fs::File::create_new(path)?;
            fs::rename(part, path)
        }
        done => done,
    }
}

/// The file of a location. It lies below `root`, because the type of locations has no parts that lead upwards.
fn path_of(root: &Path, location: &Location) -> PathBuf {
    root.join(location.bucket()).join(location.key())
}

/// The real path behind `path`, if that is below `root`: links may lead anywhere.
fn inside(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let (root, real) = (root.canonicalize()?, path.canonicalize()?);
    match real.starts_with(&root) {
        true => Ok(real),
        false => Err(io::Error::other("it lies outside of the spool")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A spool in a temporary directory, which is removed at the end, and a directory beside it.
    struct Spool(PathBuf);

    impl Spool {
        fn new() -> Spool {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let dir =
                std::env::temp_dir().join(format!("muster-spool-{}-{number}", std::process::id()));
            fs::create_dir_all(dir.join("spool/b")).unwrap();
            fs::write(dir.join("secret"), "secret").unwrap();
            Spool(dir)
        }

        fn objects(&self) -> Objects {
            let at = ObjectsAt::Folder(self.0.join("spool"));
            Objects::new(&at, &StoreSettings::default())
        }
    }

    impl Drop for Spool {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn at(key: &str) -> Location {
        Location::new("b", key).unwrap()
    }

    #[tokio::test]
    async fn what_was_written_is_read_and_counts_against_the_budget() {
        let spool = Spool::new();
        let (objects, budget) = (spool.objects(), Budget::new(10));
        let body = ["some", "thing"].map(|it| Bytes::from_static(it.as_bytes()));
        objects.write(&at("a/b/c"), body.to_vec(), None).await.unwrap();
        let (bytes, permit) = objects.read(&at("a/b/c"), 10, &budget).await.unwrap();
        assert_eq!((&bytes[..], budget.used()), (&b"something"[..], 9));
        let refused = objects.read(&at("a/b/c"), 10, &budget).await.unwrap_err();
        assert_eq!(refused, ObjectError::NoRoom);
        drop(permit);
        let ObjectError::Other(text) = objects.read(&at("a/b/c"), 8, &budget).await.unwrap_err()
        else {
            panic!("expected words");
        };
        assert!(text.contains("s3://b/a/b/c: 9 bytes") && text.contains("limit of 8"), "{text}");
        assert_eq!(budget.used(), 0);
        let left = fs::read_dir(spool.0.join("spool/b/a/b")).unwrap().count();
        assert_eq!(left, 1, "a part was left behind");
    }

    #[test]
    fn beside_what_is_counted_a_read_takes_little() {
        assert_eq!([0, 100, 1 << 20, u64::MAX].map(step), [1, 101, 64 << 10, 64 << 10]);
    }

    #[tokio::test]
    async fn links_lead_nowhere_outside_and_only_files_are_read() {
        let spool = Spool::new();
        let (objects, budget) = (spool.objects(), Budget::new(100));
        let b = spool.0.join("spool/b");
        std::os::unix::fs::symlink("../../secret", b.join("link")).unwrap();
        std::os::unix::fs::symlink("../..", b.join("up")).unwrap();
        fs::create_dir(b.join("folder")).unwrap();
        for key in ["link", "up/secret", "folder", "none"] {
            let problem = objects.read(&at(key), 100, &budget).await.unwrap_err();
            let ObjectError::Other(text) = problem else { panic!("expected words") };
            assert!(text.contains(&format!("cannot read s3://b/{key}")), "{text}");
        }
        for key in ["up/other", "up/more/other"] {
            let problem = objects.write(&at(key), Vec::new(), None).await.unwrap_err();
            assert!(matches!(problem, ObjectError::Other(_)), "{problem:?}");
        }
        assert!(!spool.0.join("other").exists());
        assert!(!spool.0.join("more").exists(), "a directory was made outside");
        // A link in the place of a result is not followed when writing, either.
        let taken = objects.write(&at("link"), vec![Bytes::from_static(b"x")], None).await;
        assert_eq!(taken, Err(ObjectError::Taken));
        assert_eq!(fs::read_to_string(spool.0.join("secret")).unwrap(), "secret");
    }

    #[tokio::test]
    async fn what_is_there_stays() {
        let spool = Spool::new();
        let (objects, file) = (spool.objects(), spool.0.join("spool/b/k"));
        for (text, expected) in [("first", Ok(())), ("second", Err(ObjectError::Taken))] {
            assert_eq!(objects.write(&at("k"), vec![Bytes::from(text)], None).await, expected);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "a part was left");
    }
}

//! One file onto the disk: from where an earlier attempt broke off, under its name only when it is whole and has its
//! digest.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::{
    StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_RANGE, HeaderValue, RANGE},
};

use crate::{
    digest::Digest,
    error::SourceProblem,
    http::{ATTEMPTS, Ask, Http, pause, reason, shown},
};

/// How often somebody who waits for a turn looks whether it has come.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A file that is to be fetched.
#[derive(Debug)]
pub(crate) struct WantedFile {
    pub(crate) ask: Ask,
    /// Its bytes, where somebody has said how many they are.
    pub(crate) size: Option<u64>,
    /// The digest of its content, where that is known.
    pub(crate) digest: Option<Digest>,
}

/// Where the bytes of a file are from. Those of several transfers may be of several contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    OneTransfer,
    Several,
}

/// Why an attempt brought less than the file.
enum Broken {
    /// Another attempt may go on.
    Off(String),
    /// It will not.
    For(SourceProblem),
}

impl From<SourceProblem> for Broken {
    fn from(problem: SourceProblem) -> Broken {
        Broken::For(problem)
    }
}

impl WantedFile {
    /// Brings the file to `path`. What is there incomplete, as `<path>.incomplete`, is gone on with.
    ///
    /// # Errors
    /// When the other side refuses or breaks off each time, the disk is full, or the content has another digest. What
    /// has come stays as `<path>.incomplete`, but for a wrong content.
    ///
    /// # Cancel safety
    /// The same.
    pub(crate) async fn bring(&self, http: &Http, path: &Path) -> Result<(), SourceProblem> {
        let part = incomplete(path);
        let origin = self.bring_part(http, &part).await?;
        if let Err(problem) = self.check(&part).await {
            remove(&part)?;
            if origin == Origin::OneTransfer {
                return Err(problem);
            }
            tracing::warn!("fetched from its beginning: {problem}");
            self.bring_part(http, &part).await?;
            if let Err(problem) = self.check(&part).await {
                remove(&part)?;
                return Err(problem);
            }
        }
        fs::rename(&part, path).map_err(|it| SourceProblem::disk("write", path, &it))
    }

    /// Attempts until all of it is here. Those that bring more than any before are not counted.
    async fn bring_part(&self, http: &Http, part: &Path) -> Result<Origin, SourceProblem> {
        let (mut failures, mut most) = (0, length(part));
        loop {
            let reason = match self.attempt(http, part).await {
                Ok(origin) => return Ok(origin),
                Err(Broken::For(problem)) => return Err(problem),
                Err(Broken::Off(reason)) => reason,
            };
            failures = if self.knows_its_end() && most < length(part) { 1 } else { failures + 1 };
            most = most.max(length(part));
            if failures == ATTEMPTS {
                let reason = format!("{reason}, {ATTEMPTS} times");
                return Err(SourceProblem::Away { url: shown(&self.ask.url), reason });
            }
            tracing::warn!(file = %shown(&self.ask.url), "gone on with after a pause: {reason}");
            tokio::time::sleep(pause(failures)).await;
        }
    }

    /// Can it be gone on with where it broke off?
    fn knows_its_end(&self) -> bool {
        self.size.is_some() || self.digest.is_some()
    }

    async fn attempt(&self, http: &Http, part: &Path) -> Result<Origin, Broken> {
        let disk = |it: io::Error| Broken::For(SourceProblem::disk("write", part, &it));
        // Where nobody has said how long it is, its digest tells whether what is here belongs to it.
        let mut have = match (self.size, &self.digest) {
            (Some(size), _) if length(part) <= size => length(part),
            (None, Some(_)) => length(part),
            _ => 0,
        };
        if self.size == Some(have) && part.exists() {
            return Ok(Origin::Several);
        }
        let mut ask = self.ask.clone().with(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if 0 < have {
            let range = HeaderValue::from_str(&format!("bytes={have}-"));
            ask = ask.with(RANGE, range.map_err(|it| disk(io::Error::other(it)))?);
        }
        let mut answer = match http.send(&ask).await {
            // All of it may be here: its digest tells.
            Err(SourceProblem::Refused { status: 416, .. }) if self.size.is_none() && 0 < have => {
                return Ok(Origin::Several);
            }
            Err(SourceProblem::Refused { status: 416, .. }) => {
                remove(part)?;
                return Err(Broken::Off(
                    "it has no bytes where it was to be gone on with".to_owned(),
                ));
            }
            answer => answer?,
        };
        let from = answer.headers().get(CONTENT_RANGE).and_then(|it| it.to_str().ok());
        let goes_on = answer.status() == StatusCode::PARTIAL_CONTENT
            && from.is_some_and(|it| it.starts_with(&format!("bytes {have}-")));
        if !goes_on {
            have = 0;
        }
        let all = from.and_then(|it| it.rsplit_once('/')?.1.parse().ok()).filter(|_| goes_on);
        let size = self.size.or(all).or_else(|| answer.content_length().filter(|_| !goes_on));
        if self.size.is_none()
            && let (Some(size), Some(folder)) = (size, part.parent())
        {
            make_sure_of_room(folder, size.saturating_sub(have))?;
        }
        let origin = if have == 0 { Origin::OneTransfer } else { Origin::Several };
        let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(disk)?;
        file.set_len(have).map_err(disk)?;
        loop {
            let chunk = match answer.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => return Err(Broken::Off(reason(&error))),
            };
            have += chunk.len() as u64;
            if size.is_some_and(|it| it < have) {
                remove(part)?;
                return Err(Broken::Off(format!(
                    "more than {} bytes came",
                    size.unwrap_or_default()
                )));
            }
            file.write_all(&chunk).map_err(disk)?;
        }
        file.sync_all().map_err(disk)?;
        match size {
            Some(size) if have < size => Err(Broken::Off(format!("{have} of {size} bytes came"))),
            _ => Ok(origin),
        }
    }

    async fn check(&self, part: &Path) -> Result<(), SourceProblem> {
        let Some(expected) = &self.digest else { return Ok(()) };
        let (kind, path) = (expected.clone(), part.to_owned());
        // Beside the other transfers, which are cut off when nobody reads them for long.
        let found = tokio::task::spawn_blocking(move || kind.of_file(&path)).await;
        let found = found.unwrap_or_else(|it| Err(io::Error::other(it)));
        let found = found.map_err(|it| SourceProblem::disk("read", part, &it))?;
        match found == *expected {
            true => Ok(()),
            false => Err(SourceProblem::Digest {
                file: shown(&self.ask.url),
                expected: expected.to_string(),
                found: found.to_string(),
            }),
        }
    }
}

/// Where a file lies until it is whole.
fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".incomplete");
    name.into()
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |it| it.len())
}

fn remove(path: &Path) -> Result<(), SourceProblem> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SourceProblem::disk("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// Bytes of files that are to be fetched which are not here yet.
pub(crate) fn missing(wanted: &WantedFile, path: &Path) -> u64 {
    wanted.size.unwrap_or(0).saturating_sub(length(&incomplete(path)))
}

/// Fails where the disk of a directory has less room than so many bytes.
pub(crate) fn make_sure_of_room(dir: &Path, needed: u64) -> Result<(), SourceProblem> {
    let free = free_bytes(dir)?;
    match needed <= free {
        true => Ok(()),
        false => Err(SourceProblem::Room { dir: dir.display().to_string(), free, needed }),
    }
}

/// Bytes that the disk of a directory has room for.
pub(crate) fn free_bytes(dir: &Path) -> Result<u64, SourceProblem> {
    let found =
        rustix::fs::statvfs(dir).map_err(|it| SourceProblem::disk("look at", dir, &it.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Keeps others from fetching the same file while it lives.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "its lock goes when it is closed")] File);

impl Turn {
    /// Waits for the turn that a file stands for, which is made where it is not there. Other transfers of this process
    /// go on meanwhile: two processes that wait for each other's files would wait for ever.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn wait(path: &Path) -> Result<Turn, SourceProblem> {
        let disk = |it: io::Error| SourceProblem::disk("lock", path, &it);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(disk)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(disk)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Turn(file)),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(BETWEEN_LOOKS).await,
                Err(TryLockError::Error(error)) => return Err(disk(error)),
            }
        }
    }
}

//! Environments that models bring along as archives: each is unpacked once, whoever asks for it, and kept for later.
//! So are packages that pip brings for scripts (`muster_python/requirements.py`).
//!
//! Below the directory of a server, `<digest>` is an environment that is whole, `<digest>.part` one that is not, and
//! `<digest>.lock` says how many bytes it takes. Processes that use it share that lock for as long as they live.

use std::{
    fs::{self, DirBuilder, File, FileTimes, OpenOptions},
    io::{self, Read, Seek, Write},
    os::{
        fd::IntoRawFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use archives::ArchiveError;
use ring::digest::{Context, Digest, SHA256};
use rustix::io::FdFlags;

/// Where an environment has its interpreter.
pub(crate) const IN_ENVIRONMENT: &str = "bin/python3";

/// Most bytes of those that are kept. Beyond that the ones go that have not been used for the longest time.
const MOST_KEPT: u64 = 20 << 30;

/// An archive that is no environment here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("{}: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} belongs to another user, or others may write to it; name another by --python-env-dir", .0.display())]
    NotOwn(PathBuf),
    #[error("{} has changed while it was read", .0.display())]
    Changed(PathBuf),
    #[error("{0}; expected a .tar.gz or .tar, as conda-pack and venv-pack make them")]
    Archive(#[from] ArchiveError),
    #[error(
        "{} has no bin/python3; expected an environment, as conda-pack and venv-pack pack them",
        .0.display()
    )]
    NoInterpreter(PathBuf),
}

type Result<T> = std::result::Result<T, EnvironmentError>;

/// Puts the path beside an error of the file system.
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| EnvironmentError::Io { path: path.to_owned(), error })
}

/// An environment that is whole, and stays for as long as this lives.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// The directory that has `bin/python3`.
    pub(crate) root: PathBuf,
    lock: File,
}

impl Unpacked {
    /// Has it stay for as long as this process lives, whatever program it becomes.
    pub(crate) fn stays_with_process(self) {
        // Where that fails, it may be removed while it is used, if that many others are.
        let _ = rustix::io::fcntl_setfd(&self.lock, FdFlags::empty());
        let _ = self.lock.into_raw_fd();
    }
}

/// A directory of them.
#[derive(Debug)]
pub(crate) struct Environments {
    pub(crate) directory: PathBuf,
    pub(crate) most_kept: u64,
}

impl Environments {
    pub(crate) fn below(directory: PathBuf) -> Environments {
        Environments { directory, most_kept: MOST_KEPT }
    }

    /// Makes the directory ready for packages that others put there by the same rules. Blocking.
    ///
    /// # Errors
    /// Names the directory and what is wrong.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.make_directory()?;
        self.make_room();
        Ok(())
    }

    /// The environment of an archive, which is unpacked where it was not before. Blocking: minutes, for large ones.
    ///
    /// # Errors
    /// Names the archive or the directory, and what is wrong.
    pub(crate) fn of(&self, archive: &Path) -> Result<Unpacked> {
        self.make_directory()?;
        let mut file = at(archive, backend::open_file(archive))?;
        let name = self.name_of(archive, &mut file)?;
        let path = self.directory.join(format!("{name}.lock"));
        let mut open = OpenOptions::new();
        open.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = at(&path, open.open(&path))?;
        let whole = self.directory.join(&name);
        loop {
            at(&path, lock.lock_shared())?;
            if whole.is_dir() {
                break;
            }
            at(&path, lock.lock())?;
            if !whole.is_dir() {
                let bytes = self.unpack(archive, &file, &whole)?;
                at(&path, lock.set_len(0).and_then(|()| lock.rewind()))?;
                at(&path, lock.write_all(bytes.to_string().as_bytes()))?;
            }
            // To share it, it is given up for a moment, in which it may be removed.
        }
        // The order in which they go.
        at(&path, lock.set_times(FileTimes::new().set_modified(SystemTime::now())))?;
        let root =
            root_of(&whole).ok_or_else(|| EnvironmentError::NoInterpreter(archive.to_owned()))?;
        self.make_room();
        Ok(Unpacked { root, lock })
    }

    /// Code is run from there: it has to be this user's alone.
    fn make_directory(&self) -> Result<()> {
        let path = &self.directory;
        at(path, DirBuilder::new().recursive(true).mode(0o700).create(path))?;
        let found = at(path, fs::metadata(path))?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        match is_own && found.permissions().mode() & 0o022 == 0 {
            true => Ok(()),
            false => Err(EnvironmentError::NotOwn(path.clone())),
        }
    }

    /// The digest of its content. That of a file which has not changed since is not computed again.
    fn name_of(&self, archive: &Path, file: &mut File) -> Result<String> {
        let stamp = |file: &File| -> Result<String> {
            let it = at(archive, file.metadata())?;
            let times = (it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec());
            Ok(format!("{:?}", (it.dev(), it.ino(), it.len(), times)))
        };
        let before = stamp(file)?;
        let known = hex(&ring::digest::digest(&SHA256, before.as_bytes()));
        let known = self.directory.join(format!("{known}.known"));
        if let Ok(name) = fs::read_to_string(&known)
            && name.len() == 64
            && name.bytes().all(|it| it.is_ascii_hexdigit())
        {
            return Ok(name);
        }
        let mut context = Context::new(&SHA256);
        let mut part = vec![0; 256 << 10];
        loop {
            match at(archive, file.read(&mut part))? {
                0 => break,
                read => context.update(&part[..read]),
            }
        }
        let name = hex(&context.finish());
        if stamp(file)? != before {
            return Err(EnvironmentError::Changed(archive.to_owned()));
        }
        // Without it, the digest is computed once more.
        let _ = fs::write(known, &name);
        Ok(name)
    }

    fn unpack(&self, archive: &Path, file: &File, whole: &Path) -> Result<u64> {
        let part = whole.with_extension("part");
        // One that ended with its server.
        if part.exists() {
            at(&part, fs::remove_dir_all(&part))?;
        }
        // Some is left to others.
        let disk = at(&self.directory, rustix::fs::statvfs(&self.directory).map_err(Into::into))?;
        let room = disk.f_bavail.saturating_mul(disk.f_frsize) / 10 * 9;
        let file = at(archive, file.try_clone())?;
        let most = room.min(self.most_kept);
        let unpacked = archives::unpack_tree(archive, file, &part, most, may_lead_outside);
        if unpacked.is_err() {
            // What is left of it goes when it is tried again.
            let _ = fs::remove_dir_all(&part);
        }
        let bytes = unpacked?;
        at(whole, fs::rename(&part, whole))?;
        Ok(bytes)
    }

    /// Removes those that nobody uses, until the rest takes no more than is kept. What cannot be removed stays.
    fn make_room(&self) {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .filter_map(|it| {
                let path = it.ok()?.path();
                let is_lock = path.extension().is_some_and(|it| it == "lock");
                let used = fs::metadata(&path).ok()?.modified().ok()?;
                let bytes = fs::read_to_string(&path).ok().filter(|_| is_lock)?.parse().ok()?;
                Some((used, bytes, path))
            })
            .collect();
        kept.sort();
        let mut bytes = kept.iter().fold(0_u64, |sum, it| sum.saturating_add(it.1));
        for (_, freed, path) in kept {
            if bytes <= self.most_kept {
                break;
            }
            let Ok(lock) = OpenOptions::new().write(true).open(&path) else { continue };
            let whole = path.with_extension("");
            if lock.try_lock().is_ok() && fs::remove_dir_all(&whole).is_ok() {
                let _ = lock.set_len(0);
                bytes -= freed;
            }
        }
    }
}

/// The interpreter of a virtual environment is a link to that of the machine. Nothing but it may lead outside.
fn may_lead_outside(name: &Path) -> bool {
    let file = name.file_name().and_then(|it| it.to_str());
    let is_in_bin = name.parent().is_some_and(|it| it.ends_with("bin"));
    is_in_bin && file.is_some_and(|it| it.starts_with("python"))
}

/// The directory with `bin/python3`: the archive's own, or the only one in it.
fn root_of(whole: &Path) -> Option<PathBuf> {
    let has_interpreter = |it: &PathBuf| it.join(IN_ENVIRONMENT).is_file();
    let within = || {
        let mut entries = fs::read_dir(whole).ok()?;
        let only = entries.next()?.ok()?.path();
        entries.next().is_none().then_some(only)
    };
    Some(whole.to_owned()).filter(has_interpreter).or_else(|| within().filter(has_interpreter))
}

fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// An archive of an environment whose interpreter is that text.
    fn archive(directory: &Path, name: &str, text: &str) -> PathBuf {
        let folder = directory.join(name);
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/python3"), text).unwrap();
        let path = directory.join(format!("{name}.tar.gz"));
        let mut pack = Command::new("tar");
        pack.arg("czf").arg(&path).arg("-C").arg(&folder).arg("bin");
        assert!(pack.status().unwrap().success());
        path
    }

    #[test]
    fn an_archive_is_unpacked_once_and_goes_when_it_is_unused_and_others_need_the_room() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let environments = Environments { directory: directory.join("kept/python"), most_kept: 12 };
        let first = archive(directory, "first", "12345678");
        let second = archive(directory, "second", "87654321");
        let used = environments.of(&first).unwrap();
        let marker = used.root.join("marker");
        fs::write(&marker, "").unwrap();
        // The same content by another name.
        let copy = directory.join("copy.tar.gz");
        fs::copy(&first, &copy).unwrap();
        assert_eq!(environments.of(&copy).unwrap().root, used.root);
        // One that is in use stays.
        let other = environments.of(&second).unwrap();
        assert!(marker.exists() && other.root.join("bin/python3").exists());
        drop((used, other));
        drop(environments.of(&second).unwrap());
        assert!(!marker.exists());
        // It comes back where it is asked for.
        let again = environments.of(&first).unwrap();
        assert_eq!(fs::read_to_string(again.root.join("bin/python3")).unwrap(), "12345678");
    }

    #[test]
    fn what_is_no_environment_is_refused_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let kept = directory.join("kept");
        let environments = Environments { directory: kept.clone(), most_kept: 4 };
        let large = environments.of(&archive(directory, "a", "12345")).unwrap_err().to_string();
        assert!(large.contains("a.tar.gz") && large.contains("more than 4 bytes"), "{large}");
        let text = directory.join("b.tar.gz");
        fs::write(&text, "no archive").unwrap();
        let text = environments.of(&text).unwrap_err().to_string();
        assert!(text.contains("expected a .tar.gz or .tar"), "{text}");
        let folders =
            fs::read_dir(&kept).unwrap().filter(|it| it.as_ref().unwrap().path().is_dir());
        assert_eq!(folders.count(), 0);
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o777)).unwrap();
        let shared = environments.of(&directory.join("a.tar.gz")).unwrap_err().to_string();
        assert!(shared.contains("--python-env-dir"), "{shared}");
    }
}

//! What tells one content of a file from another: what the system says of the file, and, where that leaves doubt, the
//! content itself.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Files are stamped with a clock that may be behind by so much: two changes within it may leave equal stamps.
const FILE_CLOCK: Duration = Duration::from_millis(10);

/// The same on file systems that know whole seconds only.
const COARSE_CLOCK: Duration = Duration::from_secs(1);

/// Of a file that is too large to be read whole so many pieces of so many bytes are read, from its first to its last.
const PIECES: u64 = 64;
const PIECE: u64 = 256 << 10;

/// Contents of one file that are remembered: the first one, which was loaded, and the last ones.
const REMEMBERED: usize = 4;

/// A file as the system describes it at one moment. Whoever changes its content changes the identity: the time of the
/// last change of its record (`ctime`) cannot be set. The reverse does not hold, as a new name or permission sets that
/// time as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    length: u64,
    /// When the content was written, as whoever wrote it says: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    /// When the file's record was changed, as the system says.
    changed: (i64, i64),
}

/// What two identities of one path say about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// It is the same.
    Same,
    /// It is to be taken for another: length or time of writing differ.
    Other,
    /// Only the content itself can say.
    Doubtful,
}

impl FileIdentity {
    /// The file at that path, or the one that a link there leads to.
    ///
    /// # Errors
    /// Those of looking at it.
    pub fn of_file(path: &Path) -> io::Result<FileIdentity> {
        fs::metadata(path).map(|it| FileIdentity::of(&it))
    }

    /// The file that was described so.
    pub fn of(metadata: &Metadata) -> FileIdentity {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Its bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Has the content at this path changed since it had that `earlier` identity?
    pub fn likeness(&self, earlier: &FileIdentity) -> Likeness {
        if self == earlier {
            Likeness::Same
        } else if (self.length, self.modified) != (earlier.length, earlier.modified) {
            Likeness::Other
        } else {
            Likeness::Doubtful
        }
    }

    /// Has the file not been written to, nor its record changed? By its number two files are told apart, but on some
    /// mounts a file has another number from time to time.
    fn is_as_written(&self, other: &FileIdentity) -> bool {
        let written = |it: &FileIdentity| (it.length, it.modified, it.changed);
        written(self) == written(other)
    }

    /// For how long, from `now` on, may another change of the file leave this very identity?
    pub fn unsure_for(&self, now: SystemTime) -> Option<Duration> {
        let clock = if self.changed.1 == 0 { COARSE_CLOCK } else { FILE_CLOCK };
        let seconds = Duration::from_secs(self.changed.0.try_into().ok()?);
        let sure =
            UNIX_EPOCH + seconds + Duration::from_nanos(self.changed.1.try_into().ok()?) + clock;
        // A time far ahead is that of another machine's clock, and nothing can be said of it.
        sure.duration_since(now).ok().filter(|it| !it.is_zero() && *it <= clock * 2)
    }
}

/// How much of a file is read to know its content again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// All of it.
    Whole,
    /// Pieces all over it. What is trained or made anew is another everywhere; a change between the pieces that also
    /// leaves length and time of writing is passed over.
    Pieces,
}

/// What was read: 256 bits that are equal for equal contents only, of as much as was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    reading: Reading,
    digest: [u8; 32],
}

impl Reading {
    /// What is in that file, of so many bytes.
    fn digest(self, file: &File, length: u64) -> io::Result<Content> {
        let mut digest = blake3::Hasher::new();
        match self {
            Reading::Pieces if PIECES * PIECE < length => {
                let mut piece = vec![0; PIECE as usize];
                // Less than the length, by u128, as the product may be more than 64 bits.
                let at = |number: u64| {
                    u128::from(number) * u128::from(length - PIECE) / u128::from(PIECES - 1)
                };
                for number in 0..PIECES {
                    file.read_exact_at(&mut piece, at(number) as u64)?;
                    digest.update(&piece);
                }
            }
            Reading::Pieces | Reading::Whole => {
                digest.update_reader(file)?;
            }
        }
        Ok(Content { reading: self, digest: *digest.finalize().as_bytes() })
    }
}

/// Contents of a model's files that were read while they had some identity.
#[derive(Debug, Default)]
pub struct FileContents {
    /// Guards what is known, by path; the identity that was loaded is the first one.
    known: Mutex<BTreeMap<PathBuf, Vec<(FileIdentity, Content)>>>,
}

/// What is known of files is no part of what they are.
impl PartialEq for FileContents {
    fn eq(&self, _: &FileContents) -> bool {
        true
    }
}

impl Eq for FileContents {}

impl FileContents {
    /// Reads a file that is being loaded and remembers its content, if it has that identity before and after. Where it
    /// has not, a doubt will be taken for a change. Blocking.
    pub fn read(&self, path: &Path, identity: &FileIdentity, reading: Reading) {
        let Some(content) = self.content(path, identity, reading) else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_path = known.entry(path.to_owned()).or_default();
        of_path.retain(|it| it.0 != *identity);
        of_path.insert(0, (*identity, content));
    }

    /// Has the file at that path, which is `now` so, the content that it had `then`? In doubt it is read, once for each
    /// identity; what was not read then is another. Blocking.
    pub fn is_same(&self, path: &Path, now: &FileIdentity, then: &FileIdentity) -> bool {
        match now.likeness(then) {
            Likeness::Same => true,
            Likeness::Other => false,
            Likeness::Doubtful => self.known(path, then).is_some_and(|then| {
                self.content(path, now, then.reading).is_some_and(|now| now == then)
            }),
        }
    }

    fn known(&self, path: &Path, identity: &FileIdentity) -> Option<Content> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_path = known.get(path)?;
        of_path.iter().find(|it| it.0 == *identity).map(|it| it.1)
    }

    /// The content of the file while it has that identity.
    fn content(&self, path: &Path, identity: &FileIdentity, reading: Reading) -> Option<Content> {
        if let Some(content) = self.known(path, identity).filter(|it| it.reading == reading) {
            return Some(content);
        }
        let file = crate::open_file(path).ok()?;
        let is_it =
            || file.metadata().is_ok_and(|it| FileIdentity::of(&it).is_as_written(identity));
        if !is_it() {
            return None;
        }
        let content = reading.digest(&file, identity.length).ok()?;
        let content = is_it().then_some(content)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_path = known.entry(path.to_owned()).or_default();
        if REMEMBERED <= of_path.len() {
            of_path.remove(1);
        }
        of_path.push((*identity, content));
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A file with a time of writing that stays, and what it was.
    fn file() -> (tempfile::TempDir, PathBuf, FileContents, FileIdentity) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("model");
        write(&path, "one");
        let (contents, then) = (FileContents::default(), FileIdentity::of_file(&path).unwrap());
        contents.read(&path, &then, Reading::Whole);
        std::thread::sleep(then.unsure_for(SystemTime::now()).unwrap_or_default());
        (root, path, contents, then)
    }

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
    }

    #[track_caller]
    fn check(is_same: bool, change: impl FnOnce(&Path)) {
        let (_root, path, contents, then) = file();
        change(&path);
        let now = FileIdentity::of_file(&path).unwrap();
        assert_eq!(contents.is_same(&path, &now, &then), is_same);
        // What was read once is known from then on.
        assert_eq!(contents.is_same(&path, &now, &then), is_same);
    }

    #[test]
    fn another_content_of_equal_length_and_time_is_another() {
        check(false, |it| write(it, "two"));
        check(false, |it| {
            write(&it.with_extension("new"), "two");
            fs::rename(it.with_extension("new"), it).unwrap();
        });
    }

    #[test]
    fn a_link_that_leads_to_another_file_of_equal_length_and_time_is_another() {
        check(false, |it| {
            write(&it.with_extension("two"), "two");
            fs::remove_file(it).unwrap();
            std::os::unix::fs::symlink(it.with_extension("two"), it).unwrap();
        });
    }

    #[test]
    fn other_permissions_another_name_and_an_equal_copy_are_the_same_content() {
        check(true, |_| {});
        check(true, |it| fs::set_permissions(it, fs::Permissions::from_mode(0o640)).unwrap());
        check(true, |it| fs::hard_link(it, it.with_extension("link")).unwrap());
        check(true, |it| {
            write(&it.with_extension("new"), "one");
            fs::rename(it.with_extension("new"), it).unwrap();
        });
    }

    #[test]
    fn another_time_or_length_is_another_without_a_look_at_the_content() {
        check(false, |it| fs::write(it, "one").unwrap());
        check(false, |it| write(it, "three"));
    }

    #[test]
    fn a_file_that_has_another_number_on_its_mount_is_read_and_the_same() {
        let (_root, path, contents, then) = file();
        let now = FileIdentity { inode: then.inode + 1, device: then.device + 1, ..then };
        assert_eq!(now.likeness(&then), Likeness::Doubtful);
        assert!(contents.is_same(&path, &now, &then));
        // It was loaded when it had that number.
        let contents = FileContents::default();
        contents.read(&path, &now, Reading::Whole);
        assert!(contents.is_same(&path, &then, &now));
        // And was not, where its record has changed since.
        let (contents, before) =
            (FileContents::default(), FileIdentity { changed: (1, 1), ..then });
        contents.read(&path, &before, Reading::Whole);
        assert!(!contents.is_same(&path, &then, &before));
    }

    #[test]
    fn of_a_large_file_pieces_from_its_first_to_its_last_byte_are_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("model");
        let length = 4 * PIECES * PIECE + 3;
        let write = |at: &[u64]| {
            let file = File::create(&path).unwrap();
            file.set_len(length).unwrap();
            at.iter().for_each(|at| file.write_all_at(b"x", *at).unwrap());
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
            FileIdentity::of_file(&path).unwrap()
        };
        let then = write(&[]);
        let contents = FileContents::default();
        contents.read(&path, &then, Reading::Pieces);
        for at in [0, length / 2 / PIECE * PIECE, length - 1] {
            // A byte in each of five pieces, as a change between those that are read may be passed over.
            let all: Vec<u64> = (0..5).map(|it| (at + it * PIECE).min(length - 1)).collect();
            std::thread::sleep(then.unsure_for(SystemTime::now()).unwrap_or_default());
            let now = write(&all);
            assert!(!contents.is_same(&path, &now, &then), "{at}");
            std::thread::sleep(now.unsure_for(SystemTime::now()).unwrap_or_default());
        }
        let now = write(&[]);
        assert!(now != then && contents.is_same(&path, &now, &then));
    }

    #[test]
    fn what_was_never_read_is_another_in_doubt() {
        let (_root, path, _, then) = file();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let now = FileIdentity::of_file(&path).unwrap();
        assert_eq!(now.likeness(&then), Likeness::Doubtful);
        assert!(!FileContents::default().is_same(&path, &now, &then));
    }

    #[test]
    fn the_first_content_is_remembered_however_many_follow() {
        let (_root, path, contents, then) = file();
        for mode in [0o600, 0o640, 0o644, 0o604, 0o400, 0o440] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let now = FileIdentity::of_file(&path).unwrap();
            assert!(contents.is_same(&path, &now, &then));
        }
    }

    #[test]
    fn an_identity_is_unsure_within_the_clock_of_files_only() {
        let (_root, _, _, identity) = file();
        let changed =
            UNIX_EPOCH + Duration::new(identity.changed.0 as u64, identity.changed.1 as u32);
        assert!(identity.unsure_for(changed).is_some());
        assert_eq!(identity.unsure_for(changed + COARSE_CLOCK), None);
        assert_eq!(identity.unsure_for(changed - Duration::from_secs(60)), None);
    }
}

//! Archives of whole folders, as environments of Python are: with links, and with programs that may be run.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
};

use tar::EntryType;

use crate::archive::{ArchiveError, ArchiveProblem, read};

/// Most files of a folder.
const MOST_FILES: usize = 500_000;

/// Unpacks an archive of a folder into a new directory: files, links within it, and who may run what. At most so many
/// bytes are written; their number is returned. Blocking.
///
/// A link may lead outside where `is_left` says so of its name: nothing is ever written through it.
///
/// # Errors
/// Names the archive and what is wrong. An entry that leads outside is an error, and nothing is written there.
pub fn unpack_tree(
    path: &Path,
    file: File,
    into: &Path,
    most_bytes: u64,
    is_left: fn(&Path) -> bool,
) -> Result<u64, ArchiveError> {
    let failed = |problem| ArchiveError { archive: path.to_owned(), problem };
    unpack(file, into, most_bytes, is_left).map_err(failed)
}

/// A link, made once all files are there: no file is written through one.
struct Link {
    name: PathBuf,
    target: PathBuf,
    is_hard: bool,
}

fn unpack(
    file: File,
    into: &Path,
    most_bytes: u64,
    is_left: fn(&Path) -> bool,
) -> Result<u64, ArchiveProblem> {
    fs::create_dir(into)?;
    let (mut bytes, mut entries) = (0_u64, 0_usize);
    let (mut links, mut files) = (Vec::new(), BTreeSet::new());
    read(file, |entry| {
        (bytes, entries) = (bytes.saturating_add(entry.size()), entries + 1);
        if bytes > most_bytes || entries > MOST_FILES {
            return Err(ArchiveProblem::LargeTree { most_bytes });
        }
        let told = entry.path()?.into_owned();
        let name = inside(Path::new(""), &told).ok_or_else(|| outward(&told))?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::XGlobalHeader => {}
            EntryType::Directory => fs::create_dir_all(into.join(name))?,
            EntryType::Regular | EntryType::Continuous => {
                let may_run = entry.header().mode()? & 0o111 != 0;
                make_parents(into, &name)?;
                // An archive may have a file twice: the later one counts.
                if !files.insert(name.clone()) {
                    fs::remove_file(into.join(&name))?;
                }
                let mut made = OpenOptions::new();
                made.write(true).create_new(true).mode(0o600);
                let mut made = made.open(into.join(&name))?;
                io::copy(entry, &mut made)?;
                made.set_permissions(Permissions::from_mode(if may_run { 0o755 } else { 0o644 }))?;
            }
            EntryType::Symlink | EntryType::Link => {
                let target = entry.link_name()?.ok_or_else(|| outward(&told))?.into_owned();
                links.push(Link { name, target, is_hard: kind == EntryType::Link });
            }
            _ => return Err(ArchiveProblem::Special(told)),
        }
        Ok(())
    })?;
    // Hard links first: their targets are files, and no symbolic link is there yet.
    links.sort_by_key(|it| !it.is_hard);
    for Link { name, target, is_hard } in links {
        let below = if is_hard { Path::new("") } else { name.parent().unwrap_or(Path::new("")) };
        let outward = || ArchiveProblem::OutwardLink { name: name.clone(), target: target.clone() };
        let within = inside(below, &target);
        if within.is_none() && (is_hard || !is_left(&name)) {
            return Err(outward());
        }
        make_parents(into, &name)?;
        match within {
            Some(within) if is_hard => fs::hard_link(into.join(within), into.join(&name))?,
            _ => symlink(&target, into.join(&name))?,
        }
    }
    Ok(bytes)
}

/// Makes the directories above a name.
///
/// A symbolic link on the way would lead elsewhere. None is there while files are made; a later one may have become a
/// parent of the next.
fn make_parents(into: &Path, name: &Path) -> Result<(), ArchiveProblem> {
    let mut at = into.to_owned();
    for part in name.parent().into_iter().flat_map(Path::components) {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(outward(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&at)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn outward(name: &Path) -> ArchiveProblem {
    ArchiveProblem::Outward(name.to_owned())
}

/// A path below a directory, without `.` and `..`; `None` where it may lead out of the archive's root.
///
/// `..` counts at the beginning only: behind the name of a link it would lead elsewhere than it says.
fn inside(below: &Path, path: &Path) -> Option<PathBuf> {
    let mut reached = below.to_owned();
    let mut has_names = false;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => {
                reached.push(name);
                has_names = true;
            }
            Component::ParentDir if !has_names && reached.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of such entries: a name, its kind, what it holds or where it leads.
    fn archive(directory: &Path, entries: &[(&str, EntryType, &str)]) -> PathBuf {
        let path = directory.join("env.tar");
        let mut builder = tar::Builder::new(File::create(&path).unwrap());
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(if name.contains("bin/") { 0o700 } else { 0o400 });
            let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
            header.set_size(if is_link { 0 } else { content.len() as u64 });
            if is_link {
                header.set_link_name(content).unwrap();
            }
            header.set_cksum();
            let content = if is_link { "" } else { content };
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.finish().unwrap();
        path
    }

    fn unpacked(entries: &[(&str, EntryType, &str)], most: u64) -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = archive(directory.path(), entries);
        let is_left = |it: &Path| it.ends_with("python3");
        let file = File::open(&path).unwrap();
        let result = unpack_tree(&path, file, &directory.path().join("env"), most, is_left);
        let said = result.map_or_else(|it| it.to_string(), |bytes| bytes.to_string());
        (directory, said)
    }

    use EntryType::{Fifo, Link, Regular, Symlink};

    #[test]
    fn files_links_within_and_the_right_to_run_are_kept() {
        let (directory, said) = unpacked(
            &[
                ("lib64", Symlink, "lib"),
                ("bin/python", Symlink, "python3.11"),
                ("bin/python3", Symlink, "/usr/bin/python3"),
                ("./bin/python3.11", Regular, "elf"),
                ("lib/a.py", Regular, "1"),
                ("lib/b.py", Link, "lib/a.py"),
                ("lib/up.py", Symlink, "../lib/a.py"),
            ],
            100,
        );
        assert_eq!(said, "4");
        let at = |name: &str| directory.path().join("env").join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("bin/python"), mode("lib/a.py")), (0o755, 0o644));
        for name in ["lib64/a.py", "lib/b.py", "lib/up.py"] {
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "1", "{name}");
        }
    }

    #[test]
    fn what_leads_outside_and_what_is_too_large_is_refused_and_nothing_is_written_there() {
        for (entries, expected) in [
            (&[("../outside", Regular, "x")][..], "'../outside' leads outside"),
            (&[("a/../../outside", Regular, "x")], "leads outside"),
            (&[("/tmp/muster-outside", Regular, "x")], "leads outside"),
            (&[("a", Symlink, "/tmp"), ("a/outside", Regular, "x")], "'a' leads to '/tmp'"),
            (&[("a", Symlink, "b/../c")], "'a' leads to 'b/../c'"),
            (&[("a", Symlink, "../outside")], "'a' leads to '../outside'"),
            (&[("a", Link, "../outside")], "'a' leads to '../outside'"),
            (&[("python3", Link, "/etc/passwd")], "'python3' leads to '/etc/passwd'"),
            (
                &[("python3", Symlink, "/tmp"), ("python3/muster-outside", Symlink, "y")],
                "leads outside",
            ),
            (&[("a", Fifo, "")], "'a' is no file"),
            (&[("a", Regular, "12345")], "more than 4 bytes"),
        ] {
            let (directory, said) = unpacked(entries, 4);
            assert!(said.contains(expected), "{said}");
            assert!(!directory.path().join("outside").exists());
            assert!(!Path::new("/tmp/muster-outside").exists());
        }
    }
}

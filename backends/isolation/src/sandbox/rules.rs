//! The rules of landlock: which files a worker reads and writes. Beyond these it has neither TCP nor signals nor
//! abstract sockets, where the kernel knows of such rules.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags, path_beneath_rules,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::reach::Reach;

/// The newest rules that are used. What the kernel does not know of them is left out.
const NEWEST: ABI = ABI::V7;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

/// Nothing that would be a device, a socket or a program.
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | Refer | MakeReg | MakeDir | MakeSym | MakeFifo | RemoveFile | RemoveDir
});

/// The same without links, as those of a model's directory say what its next worker reads.
const OPENED: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | Refer | MakeReg | MakeDir | RemoveFile | RemoveDir
});

const DEVICE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | IoctlDev});

/// What rules of the process's own entries in `/proc` refer to. A rule lasts as long as its inode, and `/proc` makes
/// another one when it has forgotten an entry that nobody holds.
#[derive(Default)]
pub(crate) struct Pins {
    _held: Vec<PathFd>,
}

/// Restricts the calling thread, and those that it starts.
pub(super) fn restrict(reach: &Reach) -> Result<Pins, RulesetError> {
    let in_proc = |it: &&PathBuf| it.starts_with("/proc");
    let held = reach.reads.iter().filter(in_proc).filter_map(|it| PathFd::new(it).ok()).collect();
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(&reach.reads, READ))?
        .add_rules(path_beneath_rules(&reach.writes, WRITE))?
        .add_rules(reach.opened.iter().filter_map(|it| opened(it)).map(Ok::<_, RulesetError>))?
        .add_rules(path_beneath_rules(&reach.devices, DEVICE))?
        .restrict_self()?;
    Ok(Pins { _held: held })
}

/// The rule of a real path. `None` where it has gone, or has become a link: another worker of the model may be at it.
fn opened(path: &Path) -> Option<PathBeneath<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()?;
    let is_directory = std::fs::File::from(file.try_clone().ok()?).metadata().ok()?.is_dir();
    let rights = if is_directory { OPENED } else { OPENED & AccessFs::from_file(NEWEST) };
    Some(PathBeneath::new(file, rights))
}

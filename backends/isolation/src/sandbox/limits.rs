//! What a worker gives up of what it was started with.

use std::io;

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs},
};

/// Files that a worker may have open: those of its engine and of its model, and a few for each of its instances.
const FILES: u64 = 8192;

/// The rights of root that remain: to read what belongs to others. Where is a matter of landlock.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// Bounds what the process may open and queue.
pub(super) fn set() -> io::Result<()> {
    let lower = |resource, most: u64| {
        let Rlimit { current, maximum } = getrlimit(resource);
        let least = |it: Option<u64>| Some(it.map_or(most, |it| it.min(most)));
        setrlimit(resource, Rlimit { current: least(current), maximum: least(maximum) })
    };
    lower(Resource::Nofile, FILES)?;
    lower(Resource::Msgqueue, 0)?;
    Ok(())
}

/// Takes all rights of root but a few from the calling thread, and from those that it starts; no program gives them
/// back.
pub(super) fn drop_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    let has = capabilities(None)?;
    let kept = CapabilitySets {
        effective: has.effective & KEPT,
        permitted: has.permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, kept)?)
}

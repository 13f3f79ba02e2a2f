//! Memory that clients share with the server, by name: Triton's system shared memory extension.
//!
//! Objects are not mapped but read and written as files. That is one copy of each tensor. In return, a client that
//! makes its object smaller while it is in use gets an error, where a mapping would end the server.

mod key;
mod region;
mod window;

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use rustix::fs::OFlags;

use inference::{
    error::Error,
    messages::{self, INVALID_ARGUMENTS},
};
pub use region::Region;
use region::Registered;
pub use window::Window;

/// The directory of the objects of `shm_open`.
const DIRECTORY: &str = "/dev/shm";

/// Most regions at one time. Each has an open file, which takes a descriptor from the connections.
const MOST_REGIONS: usize = 4096;

/// Bytes of a `cudaIpcMemHandle_t`.
const CUDA_HANDLE: usize = 64;

/// The registered regions.
#[derive(Debug, Default)]
pub struct SharedMemory {
    allowed: bool,
    /// Guards the table of regions. Held for a look or a change, never while bytes are copied.
    regions: Mutex<BTreeMap<String, RegionEntry>>,
}

/// A region in the table.
#[derive(Debug)]
enum RegionEntry {
    Registered(Arc<Registered>),
    /// It has been unregistered while requests used it, and is there for as long as one of them is, as in Triton.
    Leaving(Weak<Registered>),
}

impl RegionEntry {
    /// The region; `None` where the last request that used it has gone.
    fn get(&self) -> Option<Arc<Registered>> {
        match self {
            RegionEntry::Registered(it) => Some(it.clone()),
            RegionEntry::Leaving(it) => it.upgrade(),
        }
    }

    /// The same once it is unregistered.
    fn unregistered(self) -> RegionEntry {
        match self {
            RegionEntry::Registered(it) => RegionEntry::Leaving(Arc::downgrade(&it)),
            leaving => leaving,
        }
    }
}

impl SharedMemory {
    /// No regions. `allowed` is `--allow-client-shm`: whether clients may register some.
    pub fn new(allowed: bool) -> SharedMemory {
        SharedMemory { allowed, regions: Mutex::default() }
    }

    /// Registers a region. Blocks for a moment.
    ///
    /// # Errors
    /// [`Error::Unimplemented`] where clients may not; [`Error::AlreadyExists`]; [`Error::InvalidRequest`] for an
    /// object that cannot be opened or is too small.
    pub fn register(&self, region: Region) -> Result<(), Error> {
        self.check_allowed()?;
        let problem = |problem| not_registered(&region.name, problem);
        let key = key::object_name(&region.name, &region.key)?;
        let end = region.offset.checked_add(region.byte_size).ok_or_else(|| {
            let Region { offset, byte_size, .. } = &region;
            problem(format!(
                "{INVALID_ARGUMENTS}: offset {offset} and byte_size {byte_size} do not add up to a size"
            ))
        })?;
        // The object is opened without the lock. If two clients register one name at once, the insertion below
        // refuses one.
        self.check_free(&self.lock(), &region.name)?;
        let object = open(&Path::new(DIRECTORY).join(key)).map_err(|error| {
            Error::InvalidRequest(format!("{}: {error}", messages::no_object(&region.key)))
        })?;
        let length = object.metadata().map_err(|error| problem(error.to_string()))?.len();
        if length < end {
            return Err(problem(format!(
                "{INVALID_ARGUMENTS}: offset {} and byte_size {} end at byte {end}, the shared memory object '{}' has {length} bytes",
                region.offset, region.byte_size, region.key
            )));
        }
        // The key and the offset may be wrong, too, and are judged first, as in Triton.
        if region.byte_size == 0 {
            return Err(problem("expected a byte_size above 0, given 0".to_owned()));
        }
        let mut regions = self.lock();
        forget_gone(&mut regions);
        self.check_free(&regions, &region.name)?;
        if regions.len() >= MOST_REGIONS {
            return Err(problem(format!(
                "{MOST_REGIONS} regions are registered, and no more allowed"
            )));
        }
        let name = region.name.clone();
        regions.insert(name, RegionEntry::Registered(Arc::new(Registered { region, object })));
        Ok(())
    }

    /// Why memory of a GPU cannot be registered: this server does not map it. `handle` names the memory.
    ///
    /// # Errors
    /// Always: [`Error::Unimplemented`], or [`Error::InvalidRequest`] for a malformed handle.
    pub fn register_cuda(&self, name: &str, handle: &[u8]) -> Result<(), Error> {
        self.check_allowed()?;
        if handle.len() != CUDA_HANDLE {
            let given = handle.len();
            return Err(not_registered(
                name,
                format!(
                    "{INVALID_ARGUMENTS}: expected a raw_handle of {CUDA_HANDLE} bytes, given {given}"
                ),
            ));
        }
        Err(Error::Unimplemented(format!(
            "shared memory region '{name}': this server does not map memory of GPUs; use system shared memory, \
             or send the tensors"
        )))
    }

    /// Memory of a GPU is as good as unregistered: none is ever registered.
    ///
    /// # Errors
    /// [`Error::Unimplemented`] where clients may register nothing.
    pub fn unregister_cuda(&self) -> Result<(), Error> {
        self.check_allowed()
    }

    /// Unregisters one region, or all of them. An unknown name is no error. A request that uses the region may do so
    /// to its end, and until then the region is there.
    ///
    /// # Errors
    /// [`Error::Unimplemented`] where clients may register nothing, as in Triton.
    pub fn unregister(&self, name: Option<&str>) -> Result<(), Error> {
        self.check_allowed()?;
        let mut regions = self.lock();
        let removed: Vec<(String, RegionEntry)> = match name {
            Some(name) => regions.remove_entry(name).into_iter().collect(),
            None => std::mem::take(&mut *regions).into_iter().collect(),
        };
        let mut held = Vec::new();
        for (name, entry) in removed {
            held.extend(entry.get());
            regions.insert(name, entry.unregistered());
        }
        drop(regions);
        // Files that nobody uses are closed without the lock.
        drop(held);
        forget_gone(&mut self.lock());
        Ok(())
    }

    /// The region of that name, or all of them, by name.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown name.
    pub fn status(&self, name: Option<&str>) -> Result<Vec<Region>, Error> {
        let mut regions = self.lock();
        forget_gone(&mut regions);
        let region = |it: &RegionEntry| Some(it.get()?.region.clone());
        match name {
            None => Ok(regions.values().filter_map(region).collect()),
            Some(name) => {
                let found = regions.get(name).and_then(region);
                found.map(|it| vec![it]).ok_or_else(|| unknown(name))
            }
        }
    }

    /// A part of a region.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown region, [`Error::InvalidRequest`] for a part beyond it.
    pub fn window(&self, region: &str, offset: u64, byte_size: u64) -> Result<Window, Error> {
        let registered = self.lock().get(region).and_then(RegionEntry::get);
        let registered = registered.ok_or_else(|| unknown(region))?;
        Window::of(registered, offset, byte_size)
    }

    fn check_allowed(&self) -> Result<(), Error> {
        match self.allowed {
            true => Ok(()),
            false => Err(Error::Unimplemented(messages::CLIENT_MEMORY_IS_OFF.to_owned())),
        }
    }

    fn check_free(&self, regions: &BTreeMap<String, RegionEntry>, name: &str) -> Result<(), Error> {
        match regions.get(name).and_then(RegionEntry::get) {
            None => Ok(()),
            Some(it) => Err(Error::AlreadyExists(format!(
                "{}: for the object '{}'; unregister it first",
                messages::region_exists(name),
                it.region.key
            ))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RegionEntry>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens an object to read and write it. It must be a plain file, not a link.
fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe must not wait for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(flags.bits() as i32).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no shared memory object")),
    }
}

/// Takes those out of the table that nobody uses any more.
fn forget_gone(regions: &mut BTreeMap<String, RegionEntry>) {
    regions.retain(|_, it| match it {
        RegionEntry::Registered(_) => true,
        RegionEntry::Leaving(it) => 0 < it.strong_count(),
    });
}

fn not_registered(region: &str, problem: String) -> Error {
    Error::InvalidRequest(format!("{} '{region}': {problem}", messages::REGISTER_REGION))
}

fn unknown(region: &str) -> Error {
    let shown: String = region.chars().take(128).collect();
    Error::NotFound(messages::no_region(&shown))
}

#[cfg(test)]
mod tests;

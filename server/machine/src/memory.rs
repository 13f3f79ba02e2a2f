//! Memory as it is now: what this process has, and what it can still have.

use crate::{cgroup::MemoryGauge, kept_file::KeptFile};

/// Memory that this process has resident, in bytes; 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|it| it.parse().ok());
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
}

/// Memory that this process has resident and that no file stands behind, in bytes; 0 where the system does not say. The
/// system can take back the rest.
pub fn anonymous_bytes() -> u64 {
    OwnMemory::default().anonymous_bytes()
}

/// The same for whoever looks again and again: once it has looked, a look takes no memory of the kernel's.
#[derive(Debug)]
pub struct OwnMemory(KeptFile);

impl Default for OwnMemory {
    fn default() -> OwnMemory {
        OwnMemory(KeptFile::new("/proc/self/statm"))
    }
}

impl OwnMemory {
    /// See [`anonymous_bytes`].
    pub fn anonymous_bytes(&self) -> u64 {
        anonymous_of(&self.0.read().unwrap_or_default())
    }
}

fn anonymous_of(statm: &str) -> u64 {
    let mut pages = statm.split(' ').skip(1).map_while(|it| it.parse::<u64>().ok());
    let (resident, of_files) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(of_files).saturating_mul(rustix::param::page_size() as u64)
}

/// Memory that the machine could still give without moving anything out, in bytes; `None` where it does not say.
pub fn available_bytes() -> Option<u64> {
    AvailableMemory::default().bytes()
}

/// The same for whoever looks again and again: once it has looked, a look takes no memory of the kernel's.
#[derive(Debug)]
pub struct AvailableMemory(KeptFile);

impl Default for AvailableMemory {
    fn default() -> AvailableMemory {
        AvailableMemory(KeptFile::new("/proc/meminfo"))
    }
}

impl AvailableMemory {
    /// Bytes now; `None` where the system does not say.
    pub fn bytes(&self) -> Option<u64> {
        memory_of(&self.0.read()?, "MemAvailable:")
    }
}

/// Memory that this process can still have: what its control group has left, and what the machine has. Files that the
/// kernel can drop are left.
#[derive(Debug)]
pub struct MemoryLeft {
    gauge: Option<MemoryGauge>,
    available: AvailableMemory,
}

impl MemoryLeft {
    /// Looks once, so that later looks open nothing.
    pub fn open() -> MemoryLeft {
        let left = MemoryLeft { gauge: MemoryGauge::read(), available: Default::default() };
        left.bytes();
        left
    }

    /// Bytes now; `None` where the system does not say.
    pub fn bytes(&self) -> Option<u64> {
        let of_group =
            self.gauge.as_ref().and_then(|it| Some(it.limit.saturating_sub(it.taken(0)?)));
        of_group.into_iter().chain(self.available.bytes()).min()
    }
}

/// A line of `/proc/meminfo`, in bytes.
pub(crate) fn memory_of(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|it| it.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

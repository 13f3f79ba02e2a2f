//! The counters that `count.c` keeps within the server.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::Outcome;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/copies/count.c");

/// As in `count.c`.
const KINDS: usize = 4;
const FRAMES: usize = 12;
const SITE: usize = 4 + FRAMES;

/// Calls and their bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    pub calls: u64,
    pub bytes: u64,
}

impl Count {
    fn since(self, earlier: Count) -> Count {
        Count { calls: self.calls - earlier.calls, bytes: self.bytes - earlier.bytes }
    }
}

/// A library that counts, and the file that it counts in.
pub struct Counters {
    pub library: PathBuf,
    pub file: PathBuf,
}

impl Counters {
    /// Compiles the library with `CC`, or `cc`.
    pub fn new(folder: &Path) -> Outcome<Counters> {
        let compiler = env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
        let library = folder.join("count.so");
        let mut command = Command::new(&compiler);
        // A loop that copies must not become a call of the function that it stands for.
        command.args(["-O2", "-fPIC", "-shared", "-fno-builtin", "-o"]).arg(&library);
        let output = command.args([SOURCE, "-ldl"]).output();
        let output = output.map_err(|it| format!("cannot run {}: {it}", compiler.display()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{SOURCE} does not compile:\n{text}").into());
        }
        let file = folder.join("counters");
        fs::write(&file, [])?;
        Ok(Counters { library, file })
    }

    /// # Errors
    /// When nothing counts: the library was not loaded.
    pub fn read(&self) -> Outcome<Snapshot> {
        let bytes = fs::read(&self.file)?;
        let words = bytes.chunks_exact(8).flat_map(|it| it.try_into().map(u64::from_ne_bytes));
        let words: Vec<u64> = words.collect();
        let Some((kinds, sites)) = words.split_at_checked(2 * KINDS) else {
            return Err("nothing is counted: is this a system of the GNU C library?".into());
        };
        let count = |kind: usize| Count { calls: kinds[2 * kind], bytes: kinds[2 * kind + 1] };
        let site = |words: &[u64]| {
            let frames = words[4..].iter().copied().take_while(|&it| it != 0).collect();
            let count = Count { calls: words[1], bytes: words[2] };
            (words[0], Site { cleared: words[3] == 1, count, frames })
        };
        Ok(Snapshot {
            copied: count(0),
            cleared: count(1),
            received: count(2),
            sent: count(3),
            sites: sites.chunks_exact(SITE).filter(|it| it[0] != 0).map(site).collect(),
        })
    }
}

/// A place that copies, or clears, 4 KiB and more at a time.
#[derive(Debug, Clone)]
pub struct Site {
    pub cleared: bool,
    pub count: Count,
    /// Return addresses, the innermost first.
    pub frames: Vec<u64>,
}

/// The counters at one moment, or between two.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub copied: Count,
    pub cleared: Count,
    pub received: Count,
    pub sent: Count,
    sites: BTreeMap<u64, Site>,
}

impl Snapshot {
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let site = |(&key, site): (&u64, &Site)| {
            let before = earlier.sites.get(&key).map_or(Count::default(), |it| it.count);
            (key, Site { count: site.count.since(before), ..site.clone() })
        };
        Snapshot {
            copied: self.copied.since(earlier.copied),
            cleared: self.cleared.since(earlier.cleared),
            received: self.received.since(earlier.received),
            sent: self.sent.since(earlier.sent),
            sites: self.sites.iter().map(site).collect(),
        }
    }

    /// Those with the most bytes first.
    pub fn sites(&self) -> Vec<&Site> {
        let mut sites: Vec<&Site> = self.sites.values().filter(|it| 0 < it.count.calls).collect();
        sites.sort_by_key(|it| std::cmp::Reverse(it.count.bytes));
        sites
    }
}

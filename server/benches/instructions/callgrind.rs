//! Counting in a simulated processor: `valgrind --tool=callgrind` runs the server from its start to its end.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Bench, FLAGS,
    support::{Outcome, server::Start},
};

/// Instructions by function.
type Profile = BTreeMap<String, u64>;

/// Instructions of a request.
pub struct PerRequest {
    /// Of the threads that serve it.
    pub served: f64,
    /// Of the main thread, which accepts connections and watches the process by the clock: so much fell into the time
    /// of a request, which is some fifty times longer here.
    pub beside: f64,
    /// Of each function of the threads that serve it, the largest first.
    pub functions: Vec<(f64, String)>,
}

/// What one run of the server took.
struct Counts {
    /// The threads that serve requests.
    serving: Profile,
    main: u64,
}

/// Runs of the server whose instructions are counted.
pub struct Callgrind {
    /// Of its own files.
    folder: PathBuf,
}

/// What callgrind's files are called, in front of the number of a thread.
const NAME: &str = "threads.out";

/// The number of the main thread.
const MAIN: &str = "-01";

impl Callgrind {
    /// # Errors
    /// When valgrind is not there.
    pub fn new(folder: &Path) -> Outcome<Callgrind> {
        let found = Command::new("valgrind").arg("--version").output();
        match found.is_ok_and(|it| it.status.success()) {
            true => {
                let folder = folder.join("callgrind");
                fs::create_dir_all(&folder)?;
                Ok(Callgrind { folder })
            }
            false => Err("valgrind is missing: install it, or use a machine where \
                          'perf stat -e instructions:u' counts"
                .into()),
        }
    }

    /// The difference of two runs of the server.
    pub fn per_request(&self, bench: &Bench<'_>, few: u64, many: u64) -> Outcome<PerRequest> {
        let (less, more) = (self.counts(bench, few)?, self.counts(bench, many)?);
        let each = |more: u64, less: u64| (more as f64 - less as f64) / (many - few) as f64;
        let of = |name: &String| less.serving.get(name).copied().unwrap_or_default();
        let function = |(name, count): (&String, &u64)| (each(*count, of(name)), name.clone());
        let mut functions: Vec<_> = more.serving.iter().map(function).collect();
        functions.sort_by(|a, b| b.0.total_cmp(&a.0));
        let all = |profile: &Profile| profile.values().sum();
        Ok(PerRequest {
            served: each(all(&more.serving), all(&less.serving)),
            beside: each(more.main, less.main),
            functions,
        })
    }

    fn counts(&self, bench: &Bench<'_>, requests: u64) -> Outcome<Counts> {
        let mut output = OsString::from("--callgrind-out-file=");
        output.push(self.folder.join(NAME));
        let under = ["valgrind", "-q", "--tool=callgrind", "--separate-threads=yes"];
        let under = [&under.map(OsStr::new)[..], &[&output]].concat();
        let start = Start { flags: &FLAGS, under: &under, ..Start::new(bench.repository) };
        let server = start.start()?;
        bench.send(&server, requests)?;
        // The counts are written at the end.
        server.stop()?;
        let mut counts = Counts { serving: Profile::new(), main: 0 };
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            // The one without a number has the head of all others.
            if let Some(thread) = name.strip_prefix(NAME).filter(|it| !it.is_empty()) {
                let profile = profile(&path)?;
                match thread == MAIN {
                    true => counts.main = profile.values().sum(),
                    false => {
                        for (name, count) in profile {
                            *counts.serving.entry(name).or_default() += count;
                        }
                    }
                }
            }
            fs::remove_file(&path)?;
        }
        match counts.serving.is_empty() || counts.main == 0 {
            true => Err("callgrind has not counted the threads apart".into()),
            false => Ok(counts),
        }
    }
}

/// Instructions of one thread.
fn profile(path: &Path) -> Outcome<Profile> {
    let annotated = Command::new("callgrind_annotate")
        .args(["--threshold=100", "--auto=no"])
        .arg(path)
        .output()
        .map_err(|it| format!("cannot run callgrind_annotate: {it}"))?;
    let text = String::from_utf8_lossy(&annotated.stdout);
    let mut profile = Profile::new();
    // A function has a line for every file from which code was inlined into it.
    for (name, count) in text.lines().filter_map(function) {
        *profile.entry(name).or_default() += count;
    }
    Ok(profile)
}

/// `1,234 (5.67%)  file.rs:name [program]` → the name and the count.
fn function(line: &str) -> Option<(String, u64)> {
    let (count, rest) = line.trim().split_once(" (")?;
    let count = count.replace(',', "").parse().ok()?;
    let (_, name) = rest.split_once("%)")?;
    let name = name.trim();
    if name.starts_with("PROGRAM TOTALS") {
        return None;
    }
    let (name, _) = name.rsplit_once(" [").unwrap_or((name, ""));
    let name = name.split_once(':').map_or(name, |(_, it)| it);
    Some((name.to_owned(), count))
}

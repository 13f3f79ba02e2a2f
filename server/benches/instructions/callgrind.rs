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

/// Runs of the server whose instructions are counted.
pub struct Callgrind {
    output: PathBuf,
}

impl Callgrind {
    /// # Errors
    /// When valgrind is not there.
    pub fn new(folder: &Path) -> Outcome<Callgrind> {
        let found = Command::new("valgrind").arg("--version").output();
        match found.is_ok_and(|it| it.status.success()) {
            true => Ok(Callgrind { output: folder.join("callgrind.out") }),
            false => Err("valgrind is missing: install it, or use a machine where \
                          'perf stat -e instructions:u' counts"
                .into()),
        }
    }

    /// The difference of two runs of the server: of all functions together, and of each, the largest first.
    pub fn per_request(
        &self,
        bench: &Bench<'_>,
        few: u64,
        many: u64,
    ) -> Outcome<(f64, Vec<(f64, String)>)> {
        let (less, more) = (self.profile(bench, few)?, self.profile(bench, many)?);
        let each = |difference: i64| difference as f64 / (many - few) as f64;
        let count = |profile: &Profile, name: &str| profile.get(name).map_or(0, |&it| it as i64);
        let difference = |name: &String| each(count(&more, name) - count(&less, name));
        let mut functions: Vec<_> = more.keys().map(|it| (difference(it), it.clone())).collect();
        functions.sort_by(|a, b| b.0.total_cmp(&a.0));
        let total = |profile: &Profile| profile.values().sum::<u64>() as i64;
        Ok((each(total(&more) - total(&less)), functions))
    }

    fn profile(&self, bench: &Bench<'_>, requests: u64) -> Outcome<Profile> {
        let mut output = OsString::from("--callgrind-out-file=");
        output.push(&self.output);
        let under = ["valgrind", "-q", "--tool=callgrind"].map(OsStr::new);
        let under = [&under[..], &[&output]].concat();
        let start = Start { flags: &FLAGS, under: &under, ..Start::new(bench.repository) };
        let server = start.start()?;
        bench.send(&server, requests)?;
        // The counts are written at the end.
        server.stop()?;
        let annotated = Command::new("callgrind_annotate")
            .args(["--threshold=100", "--auto=no"])
            .arg(&self.output)
            .output()
            .map_err(|it| format!("cannot run callgrind_annotate: {it}"))?;
        fs::remove_file(&self.output)?;
        let text = String::from_utf8_lossy(&annotated.stdout);
        let mut profile = Profile::new();
        // A function has a line for every file from which code was inlined into it.
        for (name, count) in text.lines().filter_map(function) {
            *profile.entry(name).or_default() += count;
        }
        match profile.is_empty() {
            true => Err(format!("callgrind_annotate names no function:\n{text}").into()),
            false => Ok(profile),
        }
    }
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

//! Addresses in a running process as the names of functions, by `addr2line`.

use std::{collections::BTreeMap, fs, process::Command};

use crate::support::Outcome;

/// What is mapped where in a process.
pub struct Symbols {
    program: String,
    /// Start and end of every mapped file's part, and the file with its first address.
    parts: Vec<(u64, u64, String)>,
    starts: BTreeMap<String, u64>,
}

impl Symbols {
    pub fn of(pid: u32) -> Outcome<Symbols> {
        let program = fs::read_link(format!("/proc/{pid}/exe"))?.to_string_lossy().into_owned();
        let (mut parts, mut starts) = (Vec::new(), BTreeMap::new());
        for line in fs::read_to_string(format!("/proc/{pid}/maps"))?.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some((start, end)), Some(file)) = (words[0].split_once('-'), words.get(5)) else {
                continue;
            };
            let start = u64::from_str_radix(start, 16)?;
            starts.entry((*file).to_owned()).or_insert(start);
            parts.push((start, u64::from_str_radix(end, 16)?, (*file).to_owned()));
        }
        Ok(Symbols { program, parts, starts })
    }

    /// The functions around that return address, the innermost first. Of a library only its name: without its
    /// own symbols, the nearest one that it exports would mislead.
    pub fn names(&self, address: u64) -> Vec<String> {
        let is_in = |(start, end, _): &&(u64, u64, String)| (*start..*end).contains(&address);
        let Some((_, _, file)) = self.parts.iter().find(is_in) else {
            return vec!["unknown".to_owned()];
        };
        if *file != self.program {
            return vec![file.rsplit('/').next().unwrap_or(file).to_owned()];
        }
        // The call is before the address to which it returns.
        let offset = address - self.starts.get(file).copied().unwrap_or(0) - 1;
        let output = Command::new("addr2line")
            .args(["-f", "-C", "-i", "-e", file, &format!("{offset:#x}")])
            .output();
        let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        let lines = text.unwrap_or_default();
        let names: Vec<_> =
            lines.lines().step_by(2).filter(|it| *it != "??").map(str::to_owned).collect();
        if names.is_empty() { vec![format!("{offset:#x}")] } else { names }
    }
}

//! The programs that `muster bench` and `muster recommend` run. They are packages of their own, which cargo builds with
//! the workspace, and not with the tests of the server alone.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
    time::SystemTime,
};

use serde_json::Value;

use super::program;

const TOOLS: [&str; 2] = ["muster-bench", "muster-recommend"];

/// The program that is tested, for its commands that are programs of their own: these are there, and no file that cargo
/// made them of has changed since.
#[track_caller]
pub fn with_tools() -> String {
    static PROBLEM: OnceLock<Option<String>> = OnceLock::new();
    let problem = PROBLEM.get_or_init(|| TOOLS.into_iter().find_map(problem));
    assert_eq!(*problem, None, "`cargo build -p muster-bench -p muster-recommend` makes it");
    program()
}

fn problem(name: &str) -> Option<String> {
    let path = Path::new(&program()).with_file_name(name);
    let made = match modified(&path) {
        Ok(made) => made,
        Err(error) => return Some(format!("{}: {error}", path.display())),
    };
    // Cargo writes there what a program is made of.
    let sources = fs::read_to_string(path.with_extension("d")).unwrap_or_default();
    let sources = sources.split_once(": ").map_or("", |it| it.1).split_whitespace();
    let changed = sources.filter(|it| modified(Path::new(it)).is_ok_and(|it| made < it));
    changed.map(|it| format!("{} is older than {it}", path.display())).next()
}

fn modified(path: &Path) -> std::io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

/// What `muster bench` says of a server in JSON with these words, its standard error, and whether all was well.
pub fn bench(url: &str, words: &[&str]) -> (Value, String, bool) {
    let output = Command::new(with_tools())
        .args(["bench", url, "--json", "--warm-up", "0", "-n", "40"])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let problem = String::from_utf8(output.stderr).unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (found, problem, output.status.success())
}

//! The programs that `muster bench` and `muster recommend` run. They are packages of their own, which cargo builds with
//! the workspace, and not with the tests of the server alone.

use std::{fs, path::Path, sync::OnceLock, time::SystemTime};

use super::{MUSTER, root};

const TOOLS: [(&str, &str); 2] =
    [("muster-bench", "server/tools/bench/src"), ("muster-recommend", "server/tools")];

/// The program that is tested, for its commands that are programs of their own: these are there, and as their sources
/// say.
#[track_caller]
pub fn with_tools() -> &'static str {
    static PROBLEM: OnceLock<Option<String>> = OnceLock::new();
    let problem = PROBLEM.get_or_init(|| TOOLS.into_iter().find_map(problem));
    assert_eq!(*problem, None, "`cargo build -p muster-bench -p muster-recommend` makes it");
    MUSTER
}

fn problem((name, sources): (&str, &str)) -> Option<String> {
    let path = Path::new(MUSTER).with_file_name(name);
    let Ok(made) = fs::metadata(&path).and_then(|it| it.modified()) else {
        return Some(format!("there is no {}", path.display()));
    };
    (made < newest(&root(sources))).then(|| format!("{} is older than {sources}", path.display()))
}

/// When a file below this folder was changed last.
fn newest(folder: &Path) -> SystemTime {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let times = entries.map(|it| match it.is_dir() {
        true => newest(&it),
        false => it.metadata().unwrap().modified().unwrap(),
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

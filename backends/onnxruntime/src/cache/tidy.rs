//! Removes entries that are not used any more, whenever an entry was added.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::entry::{ASIDE, LIST, remove};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An entry that no start has used for so long is removed. Whoever has it mapped keeps it.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// What is this?
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    CacheEntry,
    /// Being written or removed, or left behind by a process that died.
    Aside,
    /// Not the cache's.
    Foreign,
}

/// Removes entries that were not used for 30 days, and what was left half written a day ago. Failures are
/// of no consequence: another time will do.
pub(super) fn tidy(folder: &Path) {
    let now = SystemTime::now();
    let Ok(files) = fs::read_dir(folder) else { return };
    for file in files.flatten() {
        let path = file.path();
        let (used, allowed) = match kind(&file.file_name().to_string_lossy()) {
            Kind::CacheEntry => (path.join(LIST), UNUSED),
            Kind::Aside => (path.clone(), DAY),
            Kind::Foreign => continue,
        };
        let age = fs::metadata(used).and_then(|it| it.modified()).map(|it| now.duration_since(it));
        // One that was used in the future is not old.
        if let Ok(Ok(age)) = age
            && age > allowed
        {
            let _ = remove(folder, &path);
        }
    }
}

fn kind(name: &str) -> Kind {
    let is_key = name.len() == 32 && name.bytes().all(|it| it.is_ascii_hexdigit());
    match name.starts_with(ASIDE) {
        true => Kind::Aside,
        false if is_key => Kind::CacheEntry,
        false => Kind::Foreign,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    #[test]
    fn old_entries_and_remains_go_and_everything_else_stays() {
        let folder = std::env::temp_dir().join(format!("muster-tidy-{}", std::process::id()));
        let days = |count: u32| SystemTime::now() - count * DAY;
        let make = |name: &str, file: &str, changed: SystemTime| {
            fs::create_dir_all(folder.join(name)).unwrap();
            let path = folder.join(name).join(file);
            fs::write(&path, "").unwrap();
            fs::File::open(path).unwrap().set_modified(changed).unwrap();
        };
        let (old, new) = ("0".repeat(32), "1".repeat(32));
        make(&old, LIST, days(31));
        make(&new, LIST, days(29));
        make("somebody's", LIST, days(400));
        make(".aside-1", "model.onnx", days(2));
        fs::File::open(folder.join(".aside-1")).unwrap().set_modified(days(2)).unwrap();
        make(".aside-2", "model.onnx", days(0));
        tidy(&folder);
        let mut left: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".aside-2", new.as_str(), "somebody's"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}

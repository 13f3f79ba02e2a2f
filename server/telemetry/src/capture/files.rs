//! Files of captured requests: `<dir>/<model>/AllTraffic/yyyy/mm/dd/hh/<minute>-<second>-<id>.jsonl`, a new one when
//! the hour changes or the last has become long.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use chrono::{DateTime, Utc};

use super::capture_settings::CaptureSettings;
use inference::identifier::new_uuid;

/// The name of an endpoint's variant: there is one.
const VARIANT: &str = "AllTraffic";

/// Files that are open at one time. With more models they are closed, and opened anew.
const MOST_OPEN: usize = 64;

/// Longest part of a model's name in a path.
const LONGEST_NAME: usize = 128;

/// The files that are being written.
pub(super) struct Files {
    dir: PathBuf,
    /// A file that is as long gets no further lines.
    most_bytes: u64,
    open: BTreeMap<Arc<str>, Open>,
}

struct Open {
    /// `yyyy/mm/dd/hh`.
    hour: String,
    file: File,
    written: u64,
}

impl Files {
    pub(super) fn new(config: &CaptureSettings) -> Files {
        Files { dir: config.dir.clone(), most_bytes: config.file_bytes, open: BTreeMap::new() }
    }

    /// Appends a line to the file of this model and hour. Blocking.
    pub(super) fn write(
        &mut self,
        model: &Arc<str>,
        at: DateTime<Utc>,
        line: &str,
    ) -> io::Result<()> {
        let hour = at.format("%Y/%m/%d/%H").to_string();
        let goes_on = |it: &Open| it.hour == hour && it.written < self.most_bytes;
        if !self.open.get(model).is_some_and(goes_on) {
            if MOST_OPEN <= self.open.len() {
                self.open.clear();
            }
            let folder = self.dir.join(folder_of(model)).join(VARIANT).join(&hour);
            fs::create_dir_all(&folder)?;
            let path = folder.join(format!("{}-{}.jsonl", at.format("%M-%S"), new_uuid()));
            let file = OpenOptions::new().create_new(true).append(true).open(path)?;
            let open = Open { hour, file, written: 0 };
            self.open.insert(model.clone(), open);
        }
        let Some(open) = self.open.get_mut(model) else { return Ok(()) };
        open.written += line.len() as u64;
        let done = open.file.write_all(line.as_bytes());
        if done.is_err() {
            // It may have half a line, behind which no whole one can stand.
            self.open.remove(model);
        }
        done
    }
}

/// The name of a model as one part of a path.
fn folder_of(model: &str) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() || "._-".contains(it) { it } else { '_' };
    let name: String = model.chars().map(plain).take(LONGEST_NAME).collect();
    match name.trim_start_matches('.') {
        "" => "_".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn no_model_has_files_outside_the_folder() {
        for (name, expected) in [
            ("fraud", "fraud"),
            ("a/b.tar.gz", "a_b.tar.gz"),
            ("..", "_"),
            ("", "_"),
            ("../x", "_x"),
        ] {
            assert_eq!(folder_of(name), expected);
        }
    }

    #[test]
    fn an_hour_and_a_length_end_a_file() {
        let dir =
            std::env::temp_dir().join(format!("muster-files-of-capture-{}", std::process::id()));
        let mut files = Files { dir: dir.clone(), most_bytes: 4, open: BTreeMap::new() };
        let model: Arc<str> = "m".into();
        let first = DateTime::from_timestamp(1_644_859_549, 0).unwrap();
        for (at, line) in
            [(first, "1\n"), (first, "2\n"), (first, "3\n"), (first + TimeDelta::hours(1), "4\n")]
        {
            files.write(&model, at, line).unwrap();
        }
        let texts = |hour: &str| {
            let folder = dir.join("m/AllTraffic/2022/02/14").join(hour);
            let entries = fs::read_dir(folder).unwrap();
            let mut texts: Vec<String> =
                entries.map(|it| fs::read_to_string(it.unwrap().path()).unwrap()).collect();
            texts.sort();
            texts
        };
        assert_eq!(texts("17"), ["1\n2\n", "3\n"]);
        assert_eq!(texts("18"), ["4\n"]);
        fs::remove_dir_all(dir).unwrap();
    }
}

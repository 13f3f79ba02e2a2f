//! What an optimised model depends on: the model, the library, the processor, and settings.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use super::trouble::Trouble;
use crate::{digest::Digest, files::ModelFiles, options::Settings};

/// Settings with these beginnings are about writing models, which is what the cache does itself.
const NOT_FOR_US: [&str; 3] =
    ["session.optimized_model_", "session.save_", "session.load_model_format"];

/// Settings that are about runs: whether threads spin, and how long.
const OF_RUNS: [&str; 7] = [
    "session.intra_op.allow_spinning",
    "session.intra_op.spin_duration_us",
    "session.intra_op.spin_backoff_max",
    "session.inter_op.allow_spinning",
    "session.inter_op.spin_duration_us",
    "session.inter_op.spin_backoff_max",
    "session.force_spinning_stop",
];

/// Lines of `/proc/cpuinfo` that decide which kernels run, and so how weights are laid out. (First x86's,
/// then ARM's.)
const OF_THE_PROCESSOR: [&str; 8] = [
    "vendor_id",
    "cpu family",
    "model",
    "flags",
    "CPU implementer",
    "CPU architecture",
    "CPU part",
    "Features",
];

/// All that an optimised model depends on, one thing a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    text: String,
}

impl Key {
    /// Reads the model's files.
    pub(super) fn of(files: &ModelFiles, settings: &Settings) -> Result<Key, Trouble> {
        let folder = files.model.parent().unwrap_or(Path::new(""));
        let paths = files.weights.iter().map(|it| (it.as_str(), folder.join(it)));
        let mut digests = BTreeMap::new();
        // The model's own name does not matter; the names of its weights stand in it.
        for (name, path) in [("", files.model.clone())].into_iter().chain(paths) {
            let digest = Digest::of_file(&path).map_err(|it| Trouble::File(path, it))?;
            digests.insert(name, digest);
        }
        let machine = Path::new("/proc/cpuinfo");
        let processor = fs::read_to_string(machine)
            .map_err(|error| Trouble::File(machine.to_owned(), error))?;
        Key::new(&digests, ort::info(), &processor_of(&processor), settings)
    }

    /// Digests by the names of files. Numbers of threads and whether they spin, the arena and memory patterns are left
    /// out: they are about runs, and change neither graph nor weights.
    fn new(
        files: &BTreeMap<&str, Digest>,
        runtime: &str,
        processor: &str,
        settings: &Settings,
    ) -> Result<Key, Trouble> {
        let mut text = String::new();
        // Writing to a string does not fail; whatever may hold a line's end is written with escapes.
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name} {value}");
        };
        for (name, digest) in files {
            line("model", &format!("{name:?} {digest}"));
        }
        line("runtime", &format!("{runtime:?}"));
        line("processor", &format!("{} {processor:?}", std::env::consts::ARCH));
        line("graph", &format!("{:?}", settings.graph_level));
        let entries = settings.entries.iter().filter(|(key, _)| !OF_RUNS.contains(&key.as_str()));
        for (key, value) in entries {
            if NOT_FOR_US.iter().any(|it| key.starts_with(it)) {
                return Err(Trouble::Unfit(format!("the model has a setting {key} of its own")));
            }
            line("setting", &format!("{key:?} {value:?}"));
        }
        Ok(Key { text })
    }

    /// One that depends on this text alone.
    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Key {
        Key { text: format!("{text}\n") }
    }

    /// A name for a file.
    pub(super) fn name(&self) -> String {
        Digest::name_of(&self.text)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// The lines about the first processor that matter.
fn processor_of(text: &str) -> String {
    let first = text.lines().take_while(|it| !it.trim().is_empty());
    let lines = first.filter(|line| {
        let name = line.split(':').next().unwrap_or_default().trim();
        OF_THE_PROCESSOR.contains(&name)
    });
    lines
        .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join(";")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    fn digest(content: &str) -> Digest {
        let path =
            std::env::temp_dir().join(format!("muster-key-{}-{content}", std::process::id()));
        fs::write(&path, content).unwrap();
        let digest = Digest::of_file(&path).unwrap();
        fs::remove_file(&path).unwrap();
        digest
    }

    fn key(content: &str, runtime: &str, processor: &str, options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let settings = Settings::read(&options.collect(), NonZeroUsize::MIN).unwrap();
        let files = BTreeMap::from([("", digest(content))]);
        Key::new(&files, runtime, processor, &settings).ok().unwrap().name()
    }

    #[test]
    fn everything_that_the_optimised_model_depends_on_changes_the_key_and_threads_do_not() {
        let first = key("m", "1.31.1", "avx2", &[]);
        assert_eq!(key("m", "1.31.1", "avx2", &[]), first);
        assert_eq!(key("m", "1.31.1", "avx2", &[("intra_op_thread_count", "4")]), first);
        for other in [
            key("n", "1.31.1", "avx2", &[]),
            key("m", "1.31.2", "avx2", &[]),
            key("m", "1.31.1", "avx2 avx512f", &[]),
            key("m", "1.31.1", "avx2", &[("optimization.graph.level", "1")]),
            key("m", "1.31.1", "avx2", &[("session.disable_prepacking", "1")]),
        ] {
            assert_ne!(other, first);
        }
    }

    #[test]
    fn the_processors_kind_and_abilities_count_and_its_clock_does_not() {
        let text = "processor\t: 0\nmodel\t\t: 143\nmodel name\t: X\ncpu MHz\t: 2100.5\nflags\t\t: fpu  avx2\n\n\
                    processor\t: 1\nmodel\t: 144\n";
        assert_eq!(processor_of(text), "model : 143;flags : fpu avx2");
        assert!(processor_of(&fs::read_to_string("/proc/cpuinfo").unwrap()).len() > 20);
    }

    #[test]
    fn a_model_that_writes_itself_elsewhere_is_not_kept() {
        let options = BTreeMap::from([("session.save_model_format".to_owned(), "ORT".to_owned())]);
        let settings = Settings::read(&options, NonZeroUsize::MIN).unwrap();
        let trouble = Key::new(&BTreeMap::new(), "", "", &settings).err().unwrap();
        assert!(trouble.to_string().contains("session.save_model_format"));
    }
}

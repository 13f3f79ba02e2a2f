//! That a model runs in the server, kept on disk: a later start of a server does not try it with the same files,
//! settings, libraries and processors.

use std::{
    fmt::Write,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use backend::{Backend, ModelSource};

use crate::{
    place::{Decision, Place},
    stamp::Stamp,
};

/// The first line of a file.
const FORMAT: &str = "muster place 1";

/// A file has less than that.
const MOST_BYTES: u64 = 4096;

/// Lines of `/proc/cpuinfo` that say how fast a processor is, and what kernels run on it.
const OF_PROCESSORS: [&str; 5] = ["model name", "flags", "CPU part", "CPU variant", "Features"];

/// What the server reads of a model's directory: it says which runs a load makes.
const OF_SERVER: [&str; 3] = ["config.pbtxt", "configs", "warmup"];

/// The file of one model.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    path: PathBuf,
    /// All that its place depends on, in one line.
    of: String,
}

impl Mark {
    /// In that folder, which need not exist. Reads the model's files; blocking. `None` where one cannot be read.
    pub(crate) fn new(
        folder: &Path,
        engine: &dyn Backend,
        source: &ModelSource,
        stamp: &Stamp,
    ) -> Option<Mark> {
        let mut text = String::new();
        // Writing to a string does not fail; whatever may hold a line's end is written with escapes.
        let mut line = |name: &str, value: &dyn std::fmt::Debug| {
            let _ = writeln!(text, "{name} {value:?}");
        };
        line("muster", &env!("CARGO_PKG_VERSION"));
        line("engine", &engine.name());
        for library in engine.places().reads {
            let metadata = fs::metadata(&library);
            line("library", &(&library, metadata.map(|it| (it.len(), it.modified().ok())).ok()));
        }
        line("processors", &processors());
        line("threads", &(source.default_threads, source.wide_threads));
        line("options", &source.options);
        line("hints", &source.hints);
        let root = &source.directory;
        let of_server = OF_SERVER.iter().flat_map(|it| files(&root.join(it)));
        for path in stamp.files().map(Path::to_owned).chain(of_server) {
            let mut digest = blake3::Hasher::new();
            digest.update_reader(File::open(&path).ok()?).ok()?;
            let name = path.strip_prefix(root).unwrap_or(&path);
            line("file", &(name, digest.finalize().to_hex().as_str()));
        }
        let of = blake3::hash(text.as_bytes()).to_hex().to_string();
        // Not the form of a name in the cache of models, which may be in the same folder.
        Some(Mark { path: folder.join(format!("place-{}", of.get(..32)?)), of })
    }

    /// That it runs in the server, and why. `None` where nothing was, or it is not what was written.
    pub(crate) fn read(&self) -> Option<Decision> {
        let length = fs::metadata(&self.path).ok()?.len();
        let text = fs::read_to_string(&self.path).ok().filter(|_| length < MOST_BYTES)?;
        let mut lines = text.lines();
        let is_its = (lines.next(), lines.next()) == (Some(FORMAT), Some(&self.of));
        let why = lines.next().filter(|_| is_its)?.to_owned();
        Some(Decision { place: Place::Server, is_measured: true, why })
    }

    /// Writes it anew, as a whole. A failure is a line of log: the next start finds out again.
    pub(crate) fn write(&self, why: &str) {
        if let Err(error) = self.replace(why) {
            let path = self.path.display();
            tracing::debug!(%error, "where a model runs cannot be kept in {path}");
        }
    }

    /// It is to be found out again.
    pub(crate) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    fn replace(&self, why: &str) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // Two servers may write at once, and two versions of a model in one of them.
        let thread = std::thread::current().id();
        let aside = self.path.with_extension(format!("{}-{thread:?}", std::process::id()));
        fs::write(&aside, format!("{FORMAT}\n{}\n{why}\n", self.of))?;
        fs::rename(&aside, &self.path).inspect_err(|_| {
            // Nothing else is to be done about it.
            let _ = fs::remove_file(&aside);
        })
    }
}

/// That file, or those in that directory, in the order of their names.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return path.is_file().then(|| path.to_owned()).into_iter().collect();
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|it| it.path()).collect();
    files.retain(|it| it.is_file());
    files.sort();
    files
}

/// What the first processor is.
fn processors() -> Vec<String> {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let first = text.lines().take_while(|it| !it.trim().is_empty());
    let lines = first.filter(|line| {
        let name = line.split(':').next().unwrap_or_default().trim();
        OF_PROCESSORS.contains(&name)
    });
    lines.map(str::to_owned).collect()
}

//! What runs of texts cost, kept on disk: a load begins with what an earlier one of the same graph has learned.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use schedule::{KeepCosts, cost::CostTable};

/// The first line of a file.
const FORMAT: &str = "muster run costs 1";

/// A file of today has less than half of that.
const MOST_BYTES: u64 = 64 * 1024;

/// The file of one graph, run by one engine with so many threads.
#[derive(Debug, Clone)]
pub(crate) struct KeptCosts {
    path: PathBuf,
    /// What the costs depend on, in one line.
    of: String,
}

impl KeptCosts {
    /// In that folder, which need not exist. Reads the graph; blocking. `None` where it cannot be read.
    pub(crate) fn new(
        folder: &Path,
        graph: &Path,
        engine: &str,
        threads: usize,
    ) -> Option<KeptCosts> {
        let mut digest = blake3::Hasher::new();
        digest.update_reader(backend::open_file(graph).ok()?).ok()?;
        let of = format!("graph {} engine {engine:?} threads {threads}", digest.finalize());
        let name = blake3::hash(of.as_bytes()).to_hex();
        // Not the form of a name in the cache of models, which may be in the same folder.
        Some(KeptCosts { path: folder.join(format!("run-costs-{}", &name[..32])), of })
    }

    /// What was kept. `None` where nothing was, and, with one line of log, where it is not what was written.
    pub(crate) fn read(&self) -> Option<CostTable> {
        let told = |problem: &str| {
            tracing::warn!("{} is ignored: {problem}", self.path.display());
        };
        let text = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Ok(it) if MOST_BYTES < it.len() => Err("it is too long".to_owned()),
            _ => backend::read_text(&self.path).map_err(|it| it.to_string()),
        };
        let table = text.and_then(|it| parse(&it, &self.of).map_err(str::to_owned));
        table.inspect_err(|problem| told(problem)).ok()
    }

    /// Writes it anew, as a whole. A failure is one line of log: the next load learns again.
    pub(crate) fn write(&self, costs: &CostTable) {
        if let Err(error) = self.replace(costs) {
            tracing::warn!(%error, "what runs cost cannot be kept in {}", self.path.display());
        }
    }

    fn replace(&self, costs: &CostTable) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // Two servers may write at once, and two versions of a model in one of them.
        let thread = std::thread::current().id();
        let aside = self.path.with_extension(format!("{}-{thread:?}", std::process::id()));
        fs::write(&aside, text_of(costs, &self.of))?;
        fs::rename(&aside, &self.path).inspect_err(|_| {
            // Nothing else is to be done about it.
            let _ = fs::remove_file(&aside);
        })
    }

    /// Writes what was learned when a queue closes.
    pub(crate) fn at_end(&self) -> KeepCosts {
        let kept = self.clone();
        KeepCosts(Arc::new(move |costs| {
            if 0 < costs.runs() {
                kept.write(costs);
            }
        }))
    }
}

fn text_of(costs: &CostTable, of: &str) -> String {
    let mut text = format!("{FORMAT}\n{of}\n");
    for [difference, weight] in costs.cells() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{difference} {weight}");
    }
    text
}

/// # Errors
/// What is wrong with it.
fn parse(text: &str, of: &str) -> Result<CostTable, &'static str> {
    let mut lines = text.lines();
    if lines.next() != Some(FORMAT) {
        return Err("it is no file of what runs cost, or one of another version");
    }
    if lines.next() != Some(of) {
        return Err("it is of another graph, engine or number of threads");
    }
    let cell = |line: &str| {
        let (difference, weight) = line.split_once(' ')?;
        Some([difference.parse().ok()?, weight.parse().ok()?])
    };
    let cells: Option<Vec<[f32; 2]>> = lines.map(cell).collect();
    cells.and_then(|it| CostTable::of_cells(&it)).ok_or("its numbers are not those of a table")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A folder with a graph in it, gone at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("muster-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("model.onnx"), "a graph").unwrap();
            Folder(path)
        }

        fn costs(&self, engine: &str, threads: usize) -> KeptCosts {
            KeptCosts::new(&self.0.join("kept"), &self.0.join("model.onnx"), engine, threads)
                .unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn learned() -> CostTable {
        let mut table = CostTable::default();
        table.record(1, 8, Duration::from_millis(3));
        table.record(8, 64, Duration::from_millis(70));
        table
    }

    #[test]
    fn what_was_learned_is_there_at_the_next_load() {
        let folder = Folder::new("kept-costs");
        assert!(folder.costs("1.31", 2).read().is_none());
        (folder.costs("1.31", 2).at_end().0)(&learned());
        let read = folder.costs("1.31", 2).read().unwrap();
        assert_eq!(read.seconds(5, 40), learned().seconds(5, 40));
        assert!(fs::metadata(&folder.costs("1.31", 2).path).unwrap().len() < MOST_BYTES / 2);
        // A table that has seen no run says nothing.
        (folder.costs("1.32", 2).at_end().0)(&CostTable::default());
        assert!(folder.costs("1.32", 2).read().is_none());
    }

    #[test]
    fn another_graph_engine_or_number_of_threads_has_a_file_of_its_own() {
        let folder = Folder::new("kept-costs-of-others");
        folder.costs("1.31", 2).write(&learned());
        assert!(folder.costs("1.30", 2).read().is_none());
        assert!(folder.costs("1.31", 1).read().is_none());
        fs::write(folder.0.join("model.onnx"), "another graph").unwrap();
        assert!(folder.costs("1.31", 2).read().is_none());
    }

    #[test]
    fn a_file_that_is_foreign_or_damaged_is_ignored() {
        let folder = Folder::new("kept-costs-damaged");
        let costs = folder.costs("1.31", 2);
        costs.write(&learned());
        let good = fs::read_to_string(&costs.path).unwrap();
        let cut = &good[..good.len() - 40];
        let foreign = good.replace("threads 2", "threads 4");
        let numbers = good.replace("\n0.", "\nnan ");
        for text in ["", "muster run costs 2\n", cut, &foreign, &numbers] {
            assert!(parse(text, &costs.of).is_err());
            fs::write(&costs.path, text).unwrap();
            assert!(costs.read().is_none());
        }
        fs::write(&costs.path, &good).unwrap();
        assert!(costs.read().is_some());
        fs::write(&costs.path, " ".repeat(100_000)).unwrap();
        assert!(costs.read().is_none());
    }
}

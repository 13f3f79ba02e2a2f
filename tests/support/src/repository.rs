//! A model repository for one test, deleted at its end.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::root;

/// A directory of models.
pub struct Repository(PathBuf);

impl Repository {
    /// An empty one.
    #[allow(clippy::new_without_default, reason = "each is a folder of its own")]
    pub fn new() -> Repository {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-tests-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        Repository(dir)
    }

    /// Models of `tests/fixtures/models`.
    pub fn of(fixtures: &[&str]) -> Repository {
        fixtures.iter().fold(Repository::new(), |it, name| it.fixture(name, name))
    }

    /// One model `name` of the engine `identity`: `INPUT0` → `OUTPUT0`, `[-1, 4]` of FP32, in batches of at
    /// most 8. `parameters` are those of the engine, as `("execute_delay_ms", "100")`.
    pub fn identity(name: &str, parameters: &[(&str, &str)]) -> Repository {
        Repository::new().with_identity(name, parameters)
    }

    /// Adds such a model.
    pub fn with_identity(self, name: &str, parameters: &[(&str, &str)]) -> Repository {
        let parameters = parameters.iter().map(|(key, value)| {
            format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
        });
        let config = format!(
            "backend: \"identity\"\nmax_batch_size: 8\n\
             input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n\
             output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n{}",
            parameters.collect::<String>()
        );
        self.model(name, &config)
    }

    /// Adds version 1 of a model that is only a `config.pbtxt`: enough for the engine `identity`.
    pub fn model(self, name: &str, config: &str) -> Repository {
        fs::create_dir_all(self.0.join(name).join("1")).unwrap();
        self.file(&format!("{name}/config.pbtxt"), config)
    }

    /// Adds a model of `tests/fixtures/models` under a name.
    pub fn fixture(self, name: &str, fixture: &str) -> Repository {
        self.copy(name, &format!("tests/fixtures/models/{fixture}"))
    }

    /// Adds a copy of a file or directory of the project at `path`.
    pub fn copy(self, path: &str, from: &str) -> Repository {
        copy(&root(from), &self.0.join(path));
        self
    }

    /// Adds a file.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Repository {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of something in it, as an argument of a command.
    pub fn at(&self, path: &str) -> String {
        self.0.join(path).to_str().unwrap().to_owned()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

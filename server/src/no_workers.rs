//! In the place of `workers`, where processes of models' own were left out of the build: every model runs in the
//! server's process, and one whose configuration wants another is refused.

use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    process::{ExitCode, ExitStatus},
    sync::Arc,
};

use backend::{Backend, BackendError, EngineDescription, Model, ModelSource, Places, PortNames};

use crate::features::ISOLATION;

/// The parameter of a model's configuration that says where it runs.
const PARAMETER: &str = "ISOLATION";

/// Which models are to run in processes of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Those of these names.
    Named(BTreeSet<String>),
    /// All.
    All,
    /// Those that run for long.
    Auto,
}

/// How little such a process may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// Whatever the server may reach.
    Off,
    /// What its model needs.
    On,
    /// The same, whatever a configuration says.
    Strict,
}

/// Children of this process, of which none is the server's own.
#[derive(Debug, Clone, Default)]
pub struct Children(());

impl Children {
    /// Takes statuses by `take` until there is none.
    pub fn reap(&self, mut take: impl FnMut() -> Option<(u32, ExitStatus)>) {
        while take().is_some() {}
    }
}

/// How the processes of models would be started.
#[derive(Debug, Clone)]
pub struct Start<'a> {
    /// Which models would have them.
    pub which: Which,
    /// The largest inputs of one run, and its largest outputs.
    pub arena_bytes: usize,
    /// What they could reach.
    pub sandbox: Sandbox,
    /// What is the server's own.
    pub kept: Vec<PathBuf>,
    /// Where it would be kept for later starts which models are being loaded.
    pub kept_loads: Option<PathBuf>,
    /// The server's program.
    pub program: PathBuf,
    /// What it would be given.
    pub settings: String,
    /// Who takes exit statuses.
    pub children: &'a Children,
}

/// These engines, in this process. `start` was looked at when the settings were read.
///
/// # Errors
/// None.
pub fn isolate(
    engines: Vec<Arc<dyn Backend>>,
    start: Start<'_>,
) -> io::Result<Vec<Arc<dyn Backend>>> {
    drop(start);
    Ok(engines.into_iter().map(|it| Arc::new(InServer(it)) as Arc<dyn Backend>).collect())
}

/// Says that there are no workers.
pub fn serve(engines: Vec<Arc<dyn Backend>>) -> ExitCode {
    drop(engines);
    eprintln!("{}", ISOLATION.missing());
    ExitCode::FAILURE
}

/// An engine whose models all run in this process.
struct InServer(Arc<dyn Backend>);

impl Backend for InServer {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn description(&self) -> &'static EngineDescription {
        self.0.description()
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let said = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(PARAMETER));
        let problem = match said.map(|(_, value)| value.trim()) {
            None | Some("in_process" | "auto") => return self.0.load(source),
            Some("process") => ISOLATION.missing(),
            Some(other) => format!("expected 'in_process' or 'auto', given '{other}'"),
        };
        let name = &source.name;
        Err(BackendError::Load(format!("model '{name}': parameter '{PARAMETER}': {problem}")))
    }

    fn check(&self, source: &ModelSource) -> Result<PortNames, BackendError> {
        self.0.check(source)
    }

    fn version(&self) -> Option<String> {
        self.0.version()
    }

    fn places(&self) -> Places {
        self.0.places()
    }

    fn give_back_memory(&self) {
        self.0.give_back_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::Identity;

    #[test]
    fn a_model_that_wants_a_process_is_refused_by_the_name_of_the_feature() {
        let engine = InServer(Arc::new(Identity));
        let load = |place: &str| {
            let options = [(PARAMETER.to_owned(), place.to_owned())].into();
            engine.load(&ModelSource { options, ..ModelSource::new("m", "/m") }).err()
        };
        let text = load("process").unwrap().to_string();
        assert!(text.contains("'ISOLATION'") && text.contains("--features isolation"), "{text}");
        assert!(load("elsewhere").unwrap().to_string().contains("given 'elsewhere'"));
        assert!(load("in_process").is_none() && load("auto").is_none());
    }
}

//! Models in processes of their own: what the rest of the server knows of them. Where they were left out of a build,
//! `no_workers` stands in its place.

use std::{env, ffi::OsString, io, path::PathBuf, sync::Arc};

use backend::Backend;
use isolation::{Isolated, Isolation, Program, Settings};

pub use isolation::{Children, Sandbox, Which, serve};

/// How the processes of models are started.
#[derive(Debug, Clone)]
pub struct Start<'a> {
    /// Which models have them.
    pub which: Which,
    /// The largest inputs of one run, and its largest outputs.
    pub arena_bytes: usize,
    /// What they may reach.
    pub sandbox: Sandbox,
    /// What is the server's own: no setting of a model opens any of it to a worker.
    pub kept: Vec<PathBuf>,
    /// Where it is kept for later starts which models are being loaded, if it is.
    pub kept_loads: Option<PathBuf>,
    /// The server's program, whose main function comes to [`serve`] at the word `worker`.
    pub program: PathBuf,
    /// What follows that word.
    pub settings: String,
    /// Who takes exit statuses.
    pub children: &'a Children,
}

/// These engines, whose models run in processes of their own as that says.
///
/// # Errors
/// When the kernel cannot do what a strict sandbox needs.
pub fn isolate(
    engines: Vec<Arc<dyn Backend>>,
    start: Start<'_>,
) -> io::Result<Vec<Arc<dyn Backend>>> {
    let Start { which, arena_bytes, sandbox, kept, kept_loads, program, settings, children } =
        start;
    let settings = Settings {
        which,
        arena_bytes,
        program: Program {
            path: program,
            name: "muster".into(),
            args: vec!["worker".into(), settings.into()],
            environment: environment(sandbox),
            sandbox,
            kept,
            temporary: env::temp_dir(),
            lacks_directory: Arc::default(),
        },
        children: children.clone(),
        kept_loads,
    };
    let isolation = Arc::new(Isolation::new(settings)?);
    let isolated = |it| -> Arc<dyn Backend> { Arc::new(Isolated::new(it, isolation.clone())) };
    Ok(engines.into_iter().map(isolated).collect())
}

/// This process's variables, of which a worker in that sandbox is given those that it may know.
fn environment(sandbox: Sandbox) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsString| isolation::passes(sandbox, &name.to_string_lossy());
    env::vars_os().filter(|(name, _)| passes(name)).collect()
}

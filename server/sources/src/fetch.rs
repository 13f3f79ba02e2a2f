//! From a name to a directory of this machine.

use std::path::PathBuf;

use crate::{
    cache::CachedModel,
    error::{SourceError, SourceProblem},
    http::Http,
    hub,
    lock::{LockFile, Pin},
    lock_use::LockUse,
    mlflow,
    name::Name,
    oci,
    source_settings::SourceSettings,
    web,
};

/// Brings a model here, unless it is. Where there is a lock file, it is obeyed or written as `usage` says. Blocking,
/// for as long as that takes.
///
/// # Errors
/// Names the model and what is wrong. What has come so far is gone on with the next time.
pub fn fetch(
    name: &Name,
    settings: &SourceSettings,
    usage: LockUse,
) -> Result<PathBuf, SourceError> {
    let failed = |problem| SourceError { name: name.to_string(), problem };
    locked(name, settings, usage).map_err(failed)
}

fn locked(
    name: &Name,
    settings: &SourceSettings,
    usage: LockUse,
) -> Result<PathBuf, SourceProblem> {
    let Some(lock) = &settings.lock_file else { return Ok(bring(name, settings, None)?.0) };
    let mut lock = LockFile::read(lock)?;
    let key = name.to_string();
    let (path, pin) = bring(name, settings, lock.pin(&key, usage)?)?;
    if usage != LockUse::Obey {
        lock.put(key, pin()?)?;
    }
    Ok(path)
}

/// What makes the pin of a model that is here.
type MakePin = Box<dyn FnOnce() -> Result<Pin, SourceProblem>>;

fn bring(
    name: &Name,
    settings: &SourceSettings,
    pin: Option<&Pin>,
) -> Result<(PathBuf, MakePin), SourceProblem> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(SourceProblem::System)?;
    runtime.block_on(async {
        let http = Http::new()?;
        let found = match name {
            Name::Hub(name) => hub::fetch(&http, name, settings, pin).await?,
            Name::Mlflow(name) => mlflow::fetch(&http, name, settings, pin).await?,
            Name::Oci(name) => oci::fetch(&http, name, settings, pin).await?,
            Name::Web(web) => {
                let path = web::fetch(&http, web, &settings.cache).await?;
                let pin = Pin::of_one(&web.sha256, &web.file);
                return Ok((path, Box::new(move || Ok(pin)) as MakePin));
            }
        };
        let CachedModel { revision, directory, files } = found;
        let path = directory.clone();
        Ok((path, Box::new(move || Pin::of(&revision, &directory, &files)) as MakePin))
    })
}

//! From a name to a directory of this machine.

use crate::{
    error::{Problem, SourceError},
    fetched::Fetched,
    http::Http,
    hub,
    name::Name,
    source_settings::SourceSettings,
};

/// Brings a model here, unless it is. Blocking, for as long as that takes.
///
/// # Errors
/// Names the model and what is wrong. What has come so far is gone on with the next time.
pub fn fetch(name: &Name, settings: &SourceSettings) -> Result<Fetched, SourceError> {
    let failed = |problem| SourceError { name: name.to_string(), problem };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|it| failed(Problem::System(it)))?;
    let path = runtime.block_on(async {
        let http = Http::new()?;
        match name {
            Name::Hub(hub) => hub::fetch(&http, hub, settings).await,
        }
    });
    let path = path.map_err(failed)?;
    Ok(Fetched { path, name: name.model().to_owned() })
}

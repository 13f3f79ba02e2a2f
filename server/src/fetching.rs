//! A model by name: it is brought here before there is a server, and its directory takes the place of its name.

use loading::settings::ModelsFrom;
use sources::{Fetched, LockUse, SourceError, fetch};

use crate::config::ServerConfig;

/// The configuration of a server whose model is here. Blocking, for as long as that takes.
///
/// # Errors
/// Names the model that cannot be fetched, and why.
pub fn bring(config: ServerConfig) -> Result<ServerConfig, SourceError> {
    let Some(wanted) = &config.wanted else { return Ok(config) };
    let Fetched { path, name } = fetch(wanted, &config.sources, LockUse::Obey)?;
    tracing::info!(model = %wanted, directory = %path.display(), "served by name");
    let mut repository = config.repository;
    repository.from = ModelsFrom::Path(path);
    repository.model_name.get_or_insert(name);
    Ok(ServerConfig { repository, wanted: None, ..config })
}

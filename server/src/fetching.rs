//! A model by name: it is brought here before anything is loaded, and from then on its directory is known.

use loading::settings::ModelsFrom;
use sources::{LockUse, SourceError, fetch};

use crate::config::ServerConfig;

/// Brings the model of a configuration here, where it names one. Blocking, for as long as that takes.
///
/// # Errors
/// Names the model that cannot be fetched, and why.
pub fn bring(config: &ServerConfig) -> Result<(), SourceError> {
    let (Some(wanted), ModelsFrom::Fetched(place)) = (&config.wanted, &config.repository.from)
    else {
        return Ok(());
    };
    let path = fetch(wanted, &config.sources, LockUse::Obey)?;
    tracing::info!(model = %wanted, directory = %path.display(), "served by name");
    place.set(path);
    Ok(())
}

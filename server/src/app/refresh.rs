//! Refreshes the tokens and certificates from their files while the server runs, so that renewing or revoking one
//! needs no restart.

use std::{collections::HashMap, error::Error, sync::Arc, time::Duration};

use frontend::net::tls::Acceptor;
use inference::access::TokenFile;

/// How often files are compared. They are small, and a comparison takes some microseconds.
const EVERY: Duration = Duration::from_secs(2);

/// What is wrong with files of either kind.
type RefreshError = Box<dyn Error + Send + Sync>;

/// Content that comes from files.
pub(super) struct WatchedFiles {
    /// Its name, for the log.
    what: &'static str,
    /// Reads it again. True when it has changed; an error says why the old content stays in use.
    refresh: Box<dyn Fn() -> Result<bool, RefreshError> + Send>,
}

/// The content to watch: tokens, and certificates with their names for the log, as `the certificate of HTTP`.
pub(super) fn watched<'a>(
    tokens: Option<&Arc<TokenFile>>,
    tls: impl IntoIterator<Item = (&'static str, &'a Acceptor)>,
) -> Vec<WatchedFiles> {
    let tokens = tokens.cloned().map(|file| WatchedFiles {
        what: "the tokens",
        refresh: Box::new(move || Ok(file.refresh()?)),
    });
    let tls = tls.into_iter().map(|(what, acceptor)| {
        let acceptor = acceptor.clone();
        WatchedFiles { what, refresh: Box::new(move || Ok(acceptor.refresh()?)) }
    });
    tokens.into_iter().chain(tls).collect()
}

/// Watches for ever.
pub(super) async fn watch(mut all: Vec<WatchedFiles>) {
    // The problem of each at the last look, so that it is logged once.
    let mut problems: HashMap<&'static str, String> = HashMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        // Files may lie on a slow disk, and this thread accepts connections.
        let looked = tokio::task::spawn_blocking(move || {
            let refreshed = |it: &WatchedFiles| (it.refresh)().map_err(|it| it.to_string());
            let outcomes: Vec<_> = all.iter().map(|it| (it.what, refreshed(it))).collect();
            (all, outcomes)
        });
        let Ok((back, outcomes)) = looked.await else { return };
        all = back;
        for (what, outcome) in outcomes {
            match outcome {
                Ok(changed) => {
                    problems.remove(what);
                    if changed {
                        tracing::info!("{what} changed, and what is new is in use");
                    }
                }
                Err(problem) if problems.get(what) == Some(&problem) => {}
                Err(problem) => {
                    tracing::warn!(
                        "{what} cannot be read again, and what was there stays in use: {problem}"
                    );
                    problems.insert(what, problem);
                }
            }
        }
    }
}

//! One file at an address, whose digest the operator has given.

use std::path::{Path, PathBuf};

use reqwest::Url;

use crate::{
    cache::Folder,
    digest::Digest,
    download::WantedFile,
    error::SourceProblem,
    http::{Ask, Http},
    name::WebName,
};

/// Brings the file here, unless it is, and returns where it lies.
pub(crate) async fn fetch(
    http: &Http,
    name: &WebName,
    cache: &Path,
) -> Result<PathBuf, SourceProblem> {
    let url = Url::parse(&name.url).map_err(|it| SourceProblem::Answer {
        url: name.shown().to_owned(),
        problem: it.to_string(),
    })?;
    let host = url.host_str().unwrap_or_default();
    let folder = Folder::new(cache, format!("https--{}", plain(host)));
    let path = folder.snapshot(&name.sha256).join(&name.file);
    if path.is_file() {
        tracing::info!(file = %path.display(), "it is here already");
        return Ok(path);
    }
    folder.make()?;
    let _turn = folder.turn(&name.sha256).await?;
    let blob = folder.blob(&name.sha256);
    if !blob.is_file() {
        let digest = Some(Digest::Sha256(name.sha256.clone()));
        let wanted = WantedFile { ask: Ask::get(url, None), size: None, digest };
        wanted.bring(http, &blob).await?;
    }
    folder.link(&name.sha256, &name.file, &name.sha256)?;
    Ok(path)
}

/// A word that may name a folder.
pub(crate) fn plain(text: &str) -> String {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let letters = text.chars().map(|it| if is_letter(it) { it } else { '-' });
    letters.collect::<String>().trim_start_matches('.').to_owned()
}

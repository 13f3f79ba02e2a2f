//! Models of Hugging Face's hub, or of what speaks as it does: asked as its own client asks.

use reqwest::{
    Method, Response, StatusCode, Url,
    header::{ACCEPT_ENCODING, CONTENT_LENGTH, ETAG, HeaderValue},
};

use crate::{
    cache::{CachedModel, Folder, Item, is_blob, is_commit, is_inside},
    choose::{self, ChoiceError, choose},
    digest::Digest,
    download::WantedFile,
    error::{LockError, SourceProblem},
    http::{Ask, Http, Redirects, bearer, unexpected},
    lock::Pin,
    name::HubName,
    source_settings::{HubSettings, SourceSettings},
};

/// Most files of a repository.
const MOST_FILES: usize = 100_000;

/// A repository of a hub, to be asked.
struct Hub<'a> {
    http: &'a Http,
    settings: &'a HubSettings,
    repository: &'a str,
    credentials: Option<HeaderValue>,
    folder: Folder,
}

/// Brings the files of a model here that a server needs: those of the pin, where there is one.
pub(crate) async fn fetch(
    http: &Http,
    name: &HubName,
    settings: &SourceSettings,
    pin: Option<&Pin>,
) -> Result<CachedModel, SourceProblem> {
    let hub = &settings.hub;
    let cache = hub.cache.as_deref().ok_or(SourceProblem::NoCache)?;
    let folder = Folder::new(cache, format!("models--{}", name.repository.replace('/', "--")));
    let credentials = hub.token.as_ref().and_then(|it| bearer(it.reveal()));
    let hub = Hub { http, settings: hub, repository: &name.repository, credentials, folder };
    if let Some(pin) = pin {
        return hub.pinned(pin).await;
    }
    let revision = name.revision.as_deref().unwrap_or(&hub.settings.revision);
    if hub.settings.is_offline {
        return hub.kept(revision, &settings.graphs)?.ok_or_else(|| hub.not_here());
    }
    let (commit, files) = match hub.look(revision).await {
        Ok(found) => found,
        Err(problem @ SourceProblem::Away { .. }) => {
            let Some(kept) = hub.kept(revision, &settings.graphs)? else { return Err(problem) };
            tracing::warn!(
                "the copy that is here is served, as the hub cannot be asked: {problem}"
            );
            return Ok(kept);
        }
        Err(problem) => return Err(problem),
    };
    let chosen = match choose(hub.repository, &files, &settings.graphs) {
        Err(error @ ChoiceError::NoGraph { .. }) => {
            let described = files.iter().filter(|it| graphs::DESCRIBED_BY.contains(&it.as_str()));
            let described: Vec<String> = described.cloned().collect();
            let weights = choose::weights(&files).ok_or_else(|| error.clone())?;
            // Weights of an unknown family are not fetched in vain.
            hub.bring(&commit, &described, None).await?;
            hub.known_weights(&commit, weights).ok_or(error)?
        }
        chosen => chosen?,
    };
    hub.bring(&commit, &chosen, None).await?;
    if commit != revision {
        hub.folder.note_reference(revision, &commit)?;
    }
    Ok(hub.found(commit, chosen))
}

impl Hub<'_> {
    /// The directory of a revision that was fetched earlier, where what is to be served is in it.
    fn kept(
        &self,
        revision: &str,
        graphs: &[String],
    ) -> Result<Option<CachedModel>, SourceProblem> {
        let of_name = is_commit(revision).then(|| revision.to_owned());
        let Some(commit) = self.folder.reference(revision).or(of_name) else { return Ok(None) };
        let files = self.folder.files(&commit);
        if files.is_empty() {
            return Ok(None);
        }
        let chosen = match choose(self.repository, &files, graphs) {
            Err(error @ ChoiceError::NoGraph { .. }) => {
                let weights = choose::weights(&files);
                weights.and_then(|it| self.known_weights(&commit, it)).ok_or(error)?
            }
            chosen => chosen?,
        };
        Ok(Some(self.found(commit, chosen)))
    }

    /// These files of weights, if a graph is made for them: what describes them is here.
    fn known_weights(&self, commit: &str, weights: Vec<String>) -> Option<Vec<String>> {
        graphs::is_of_known_family(&self.folder.snapshot(commit)).then_some(weights)
    }

    fn found(&self, revision: String, files: Vec<String>) -> CachedModel {
        CachedModel { directory: self.folder.snapshot(&revision), revision, files }
    }

    /// The files of a pin. Nobody is asked for those that are here.
    async fn pinned(&self, pin: &Pin) -> Result<CachedModel, SourceProblem> {
        let files: Vec<String> = pin.files.keys().cloned().collect();
        if !is_commit(&pin.revision) || !files.iter().all(|it| is_inside(it)) {
            let problem = "expected a commit and paths within the model's folder".to_owned();
            let path = self.repository.to_owned();
            return Err(SourceProblem::Lock(LockError::Content { path, problem }));
        }
        let directory = self.folder.snapshot(&pin.revision);
        if self.settings.is_offline && !files.iter().all(|it| directory.join(it).is_file()) {
            return Err(self.not_here());
        }
        self.bring(&pin.revision, &files, Some(pin)).await?;
        pin.check(&directory)?;
        Ok(self.found(pin.revision.clone(), files))
    }

    fn not_here(&self) -> SourceProblem {
        let path = self.folder.snapshot("");
        SourceProblem::Offline { dir: path.parent().unwrap_or(&path).display().to_string() }
    }

    /// The commit that a revision is, and the names of its files.
    async fn look(&self, revision: &str) -> Result<(String, Vec<String>), SourceProblem> {
        let mut url = self.address("api/models")?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(self.repository.split('/')).extend(["revision", revision]);
        }
        let ask = Ask::get(url, self.credentials.clone());
        let document = self.http.json(&ask).await.map_err(|it| self.explain(it))?;
        let unexpected = |problem: &str| unexpected(&ask.url, problem);
        let commit = document["sha"].as_str().filter(|it| is_commit(it));
        let commit =
            commit.ok_or_else(|| unexpected("expected a commit as 'sha', there is none"))?;
        let siblings = document["siblings"].as_array().filter(|it| it.len() <= MOST_FILES);
        let siblings =
            siblings.ok_or_else(|| unexpected("expected a list of files as 'siblings'"))?;
        let names = siblings.iter().filter_map(|it| it["rfilename"].as_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        match names.iter().find(|it| !is_inside(it)) {
            Some(name) => {
                Err(unexpected(&format!("its file {name:?} would lie outside of its folder")))
            }
            None => Ok((commit.to_owned(), names)),
        }
    }

    /// Brings files of a commit here that are not. None is fetched that has another digest than its pin.
    async fn bring(
        &self,
        commit: &str,
        files: &[String],
        pin: Option<&Pin>,
    ) -> Result<(), SourceProblem> {
        let is_here = |file: &&String| self.folder.snapshot(commit).join(file).is_file();
        let mut wanted = Vec::new();
        for file in files.iter().filter(|it| !is_here(it)) {
            let found = self.describe(commit, file).await?;
            if let (Some(pin), Some(digest)) = (pin, &found.wanted.digest) {
                pin.compare(file, digest)?;
            }
            wanted.push(found);
        }
        if wanted.is_empty() {
            tracing::info!(model = self.repository, commit, "it is here already");
            return Ok(());
        }
        self.folder.bring(self.http, &wanted).await.map_err(|it| self.explain(it))?;
        for Item { file, blob, .. } in &wanted {
            self.folder.link(commit, file, blob)?;
        }
        Ok(())
    }

    /// What a file of a commit is: its content's name and size.
    async fn describe(&self, commit: &str, file: &str) -> Result<Item, SourceProblem> {
        let mut url = self.address(self.repository)?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(["resolve", commit]).extend(file.split('/'));
        }
        let ask = Ask::get(url, self.credentials.clone());
        let head = Ask { method: Method::HEAD, redirects: Redirects::OnHost, ..ask.clone() };
        let head = head.with(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = self.http.send(&head).await.map_err(|it| self.explain(it))?;
        let unexpected = |problem: &str| unexpected(&ask.url, problem);
        let text = |name: &str| answer.headers().get(name)?.to_str().ok();
        let tag = text("x-linked-etag").or_else(|| text(ETAG.as_str())).unwrap_or_default();
        let blob = tag.trim_start_matches("W/").trim_matches('"').to_owned();
        if !is_blob(&blob) {
            return Err(unexpected("expected the name of its content as ETag, there is none"));
        }
        let size = text("x-linked-size").or_else(|| content_length(&answer));
        let size = size.and_then(|it| it.parse().ok());
        let size = size.ok_or_else(|| unexpected("expected its size, there is none"))?;
        let wanted = WantedFile { ask, size: Some(size), digest: Digest::of_blob(&blob) };
        Ok(Item { file: file.to_owned(), blob, wanted })
    }

    fn address(&self, path: &str) -> Result<Url, SourceProblem> {
        let text = format!("{}/{path}", self.settings.endpoint);
        Url::parse(&text).map_err(|it| SourceProblem::Answer { url: text, problem: it.to_string() })
    }

    /// The same, with what to do.
    fn explain(&self, problem: SourceProblem) -> SourceProblem {
        let SourceProblem::Refused { url, status, said, .. } = problem else { return problem };
        let has_token = self.settings.token.is_some();
        let hint = match (status, has_token) {
            (401, false) => {
                "; the hub has no such model, or it is private: check its name, or set HF_TOKEN (--hub-token)"
            }
            (401, true) => "; the hub does not take the token of HF_TOKEN (--hub-token)",
            (403, false) => "; the model asks for a token: set HF_TOKEN (--hub-token)",
            (403, true) => {
                "; the owner of the token may not read the model: accept its terms on its page"
            }
            (404, _) => "; the hub has no such model, revision or file",
            _ => "",
        };
        SourceProblem::Refused { url, status, said, hint }
    }
}

/// Of an answer that has the content, and leads nowhere.
fn content_length(answer: &Response) -> Option<&str> {
    let is_content = answer.status() == StatusCode::OK;
    answer.headers().get(CONTENT_LENGTH).filter(|_| is_content)?.to_str().ok()
}

//! Models in a registry of images: an image whose folder `models` is the model, or an artifact whose layers are its
//! files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use reqwest::{
    Response, StatusCode, Url,
    header::{ACCEPT, HeaderValue, WWW_AUTHENTICATE},
};

use crate::{
    cache::{CachedModel, Folder, Item, files_below, is_inside},
    digest::Digest,
    download::{WantedFile, free_bytes},
    error::{LockError, SourceProblem},
    http::{Ask, Http, bearer, read, succeeded, unexpected},
    lock::Pin,
    oci_helper::{self, helper_of},
    oci_layers::{clear, unpack},
    oci_login::{Challenge, DOCKER_HUB, kept},
    oci_manifest::{ACCEPTED, Content, Layer, Manifest},
    oci_name::{OciName, OciReference, is_loopback},
    source_settings::{Secret, SourceSettings},
    web::plain,
};

/// The folder of an image that is the model, as KServe has it.
const MODELS: &str = "models";

/// A repository of a registry, to be asked.
struct Registry<'a> {
    http: &'a Http,
    name: &'a OciName,
    /// What `docker login` has kept for it.
    login: Option<HeaderValue>,
    folder: Folder,
}

/// A manifest, and by which credentials it was to be had.
struct Answer {
    digest: Digest,
    manifest: Manifest,
    url: Url,
}

/// Who asks, as the registry wanted to know it.
#[derive(Default)]
struct Caller {
    challenge: Option<Challenge>,
    credentials: Option<HeaderValue>,
}

/// Brings a model here, unless it is: that of the pin, where there is one.
pub(crate) async fn fetch(
    http: &Http,
    name: &OciName,
    settings: &SourceSettings,
    pin: Option<&Pin>,
) -> Result<CachedModel, SourceProblem> {
    let login = login(settings.docker_config.as_ref(), &name.host).await;
    let folder = format!("oci--{}--{}", plain(&name.host), name.repository.replace('/', "--"));
    let folder = Folder::new(&settings.cache, folder);
    let registry = Registry { http, name, login, folder };
    let found = match pin {
        Some(pin) => registry.pinned(pin).await,
        None => registry.newest().await,
    };
    found.map_err(|it| registry.explain(it))
}

/// What a credential helper has for a registry, or what `docker login` has written.
async fn login(config: Option<&Secret>, host: &str) -> Option<HeaderValue> {
    let config = config?;
    let of_helper = match helper_of(config, host) {
        Some(helper) => {
            let host = host.to_owned();
            let asked = tokio::task::spawn_blocking(move || oci_helper::ask(&helper, &host));
            asked.await.ok().flatten()
        }
        None => None,
    };
    of_helper.or_else(|| kept(config, host))
}

impl Registry<'_> {
    /// The image that the name means now. Where nobody can be asked, the one that its tag was.
    async fn newest(&self) -> Result<CachedModel, SourceProblem> {
        let tag = match &self.name.reference {
            OciReference::Digest(digest) => return self.of_digest(digest).await,
            OciReference::Tag(tag) => tag,
        };
        let mut caller = Caller::default();
        let answer = match self.manifest(tag, &mut caller).await {
            Err(problem @ SourceProblem::Away { .. }) => {
                let Some(kept) = self.folder.reference(&format!("tag/{tag}")) else {
                    return Err(problem);
                };
                tracing::warn!(
                    "the copy that is here is served, as the registry cannot be asked: {problem}"
                );
                return Ok(self.folder.found(&kept));
            }
            answer => answer?,
        };
        let digest = answer.digest.hex().to_owned();
        if !self.is_here(&digest) {
            self.bring(answer, &mut caller).await?;
        }
        self.folder.note_reference(&format!("tag/{tag}"), &digest)?;
        Ok(self.folder.found(&digest))
    }

    /// The image of a pin. Nobody is asked where its files are here.
    async fn pinned(&self, pin: &Pin) -> Result<CachedModel, SourceProblem> {
        let digest = Digest::of_blob(&pin.revision).filter(|it| matches!(it, Digest::Sha256(_)));
        let is_plain = pin.files.keys().all(|it| is_inside(it));
        let Some(digest) = digest.filter(|_| is_plain) else {
            let problem = "expected a digest and paths within the model's folder".to_owned();
            return Err(SourceProblem::Lock(LockError::Content {
                path: self.name.to_string(),
                problem,
            }));
        };
        let directory = self.folder.snapshot(digest.hex());
        if !pin.files.keys().all(|it| directory.join(it).is_file()) {
            let mut caller = Caller::default();
            let answer = self.manifest(&digest.to_string(), &mut caller).await?;
            self.bring(answer, &mut caller).await?;
        }
        pin.check(&directory)?;
        let files = pin.files.keys().cloned().collect();
        Ok(CachedModel { revision: digest.hex().to_owned(), directory, files })
    }

    async fn of_digest(&self, digest: &str) -> Result<CachedModel, SourceProblem> {
        if !self.is_here(digest) {
            let mut caller = Caller::default();
            let answer = self.manifest(&format!("sha256:{digest}"), &mut caller).await?;
            self.bring(answer, &mut caller).await?;
        }
        Ok(self.folder.found(digest))
    }

    /// Was all of it put here?
    fn is_here(&self, digest: &str) -> bool {
        let is_whole = self.folder.reference(&whole(digest)).is_some();
        let is_here = is_whole && !self.folder.files(digest).is_empty();
        if is_here {
            tracing::info!(model = %self.name, digest, "it is here already");
        }
        is_here
    }

    /// The manifest of a tag, or of `sha256:<digest>`.
    async fn manifest(
        &self,
        reference: &str,
        caller: &mut Caller,
    ) -> Result<Answer, SourceProblem> {
        let url = self.address("manifests", reference)?;
        let ask = || Ask::get(url.clone(), None).with(ACCEPT, HeaderValue::from_static(ACCEPTED));
        let document = read(self.ask(ask(), caller).await?).await?;
        let digest = Digest::of_bytes(&document);
        if let Ok(expected) = reference.parse::<Digest>()
            && expected != digest
        {
            let (expected, found) = (expected.to_string(), digest.to_string());
            return Err(SourceProblem::Digest { file: url.to_string(), expected, found });
        }
        let manifest = Manifest::parse(&document).map_err(|it| unexpected(&url, &it))?;
        Ok(Answer { digest, manifest, url })
    }

    /// Asks, and once more where the registry wants to know by whom.
    async fn ask(&self, ask: Ask, caller: &mut Caller) -> Result<Response, SourceProblem> {
        let first = Ask { credentials: caller.credentials.clone(), ..ask.clone() };
        let answer = self.http.answer(&first).await?;
        let headers = answer.headers().get_all(WWW_AUTHENTICATE).iter();
        let scope = format!("repository:{}:pull", self.name.repository);
        let challenge = headers
            .filter_map(|it| Challenge::parse(it.to_str().ok()?, &scope))
            .find(|_| answer.status() == StatusCode::UNAUTHORIZED);
        if challenge.is_none() {
            return succeeded(answer).await;
        }
        caller.challenge = challenge;
        self.log_in(caller).await?;
        self.http.send(&Ask { credentials: caller.credentials.clone(), ..ask }).await
    }

    /// Gets credentials by what the registry wants to know.
    async fn log_in(&self, caller: &mut Caller) -> Result<(), SourceProblem> {
        caller.credentials = match &caller.challenge {
            None => None,
            Some(Challenge::Basic) => self.login.clone(),
            Some(Challenge::Bearer { realm }) => {
                let is_safe =
                    realm.scheme() == "https" || realm.host_str().is_some_and(is_loopback);
                if !is_safe {
                    return Err(unexpected(realm, "expected to be sent to https for a token"));
                }
                let document = self.http.json(&Ask::get(realm.clone(), self.login.clone())).await?;
                let token =
                    document["token"].as_str().or_else(|| document["access_token"].as_str());
                let token = token.and_then(bearer);
                Some(token.ok_or_else(|| unexpected(realm, "expected a token, there is none"))?)
            }
        };
        Ok(())
    }

    /// Brings the layers of an image here and makes its revision of them.
    async fn bring(&self, answer: Answer, caller: &mut Caller) -> Result<(), SourceProblem> {
        let digest = answer.digest;
        let layers = match answer.manifest {
            Manifest::Image(layers) => layers,
            Manifest::List(only) => {
                let answer = self.manifest(&only.to_string(), caller).await?;
                match answer.manifest {
                    Manifest::Image(layers) => layers,
                    Manifest::List(_) => {
                        return Err(unexpected(
                            &answer.url,
                            "expected an image, it is a list in a list",
                        ));
                    }
                }
            }
        };
        let was_here = self.is_here(digest.hex());
        let _turn = self.folder.turn(digest.hex()).await?;
        // Somebody else may have brought it meanwhile.
        if !was_here && self.is_here(digest.hex()) {
            return Ok(());
        }
        let items = self.items(&layers, caller)?;
        match self.folder.bring(self.http, &items).await {
            // A token is for some minutes.
            Err(SourceProblem::Refused { status: 401, .. }) if caller.challenge.is_some() => {
                self.log_in(caller).await?;
                self.folder.bring(self.http, &self.items(&layers, caller)?).await?;
            }
            brought => brought?,
        }
        self.put_together(digest.hex(), &layers)?;
        self.folder.note_reference(&whole(digest.hex()), digest.hex())
    }

    /// The contents of layers, each once.
    fn items(&self, layers: &[Layer], caller: &Caller) -> Result<Vec<Item>, SourceProblem> {
        let mut seen = BTreeSet::new();
        let each = layers.iter().filter(|it| seen.insert(it.digest.clone()));
        each.map(|layer| {
            let url = self.address("blobs", &layer.digest.to_string())?;
            let file = match &layer.content {
                Content::File(file) => file.clone(),
                Content::Archive => layer.digest.to_string(),
            };
            let ask = Ask::get(url, caller.credentials.clone());
            let wanted =
                WantedFile { ask, size: Some(layer.size), digest: Some(layer.digest.clone()) };
            Ok(Item { file, blob: layer.digest.hex().to_owned(), wanted })
        })
        .collect()
    }

    /// Makes a revision of layers that are here. Blocking.
    fn put_together(&self, revision: &str, layers: &[Layer]) -> Result<(), SourceProblem> {
        let of_archives = layers.iter().filter(|it| it.content == Content::Archive);
        let archives: Vec<PathBuf> =
            of_archives.map(|it| self.folder.blob(it.digest.hex())).collect();
        let unpacked = self.folder.path().join(format!("unpacked-{revision}"));
        let disk = |it| SourceProblem::disk("remove", &unpacked, &it);
        clear(&unpacked).map_err(disk)?;
        let paths: Vec<_> = archives.iter().map(PathBuf::as_path).collect();
        let done = free_bytes(&self.folder.path())
            .and_then(|free| unpack(&paths, &unpacked, free).map_err(SourceProblem::Archive))
            .and_then(|()| self.adopt(revision, &unpacked))
            .and_then(|count| match count == 0 && layers.len() == archives.len() {
                true => Err(self.without_files(&unpacked)),
                false => Ok(()),
            });
        clear(&unpacked).map_err(disk)?;
        clear(&unpacked.with_extension("layer")).map_err(disk)?;
        done?;
        for layer in layers {
            if let Content::File(file) = &layer.content {
                self.folder.link(revision, file, layer.digest.hex())?;
            }
        }
        // Their files are here.
        for archive in &archives {
            let _ = fs::remove_file(archive);
        }
        Ok(())
    }

    /// Makes unpacked files contents of a revision: those of the folder of models, where there is one.
    /// So many.
    fn adopt(&self, revision: &str, unpacked: &Path) -> Result<usize, SourceProblem> {
        let models = unpacked.join(MODELS);
        let root = if models.is_dir() { &models } else { unpacked };
        let files = files_below(root);
        for file in &files {
            if !is_inside(file) {
                let problem = format!("its file {file:?} would lie outside of its folder");
                return Err(SourceProblem::Answer { url: self.name.to_string(), problem });
            }
            self.folder.adopt(revision, file, &root.join(file))?;
        }
        Ok(files.len())
    }

    /// Of an image whose layers hold no file that could be a model's.
    fn without_files(&self, unpacked: &Path) -> SourceProblem {
        let place = match unpacked.join(MODELS).is_dir() {
            true => format!(
                "in its folder /{MODELS}, there is none; copy the model there (COPY model.onnx /{MODELS}/)"
            ),
            false => format!(
                "in its layers, there is none; copy the model into it (COPY model.onnx /{MODELS}/)"
            ),
        };
        let problem = format!("expected the files of a model {place}, and push the image again");
        SourceProblem::Answer { url: self.name.to_string(), problem }
    }

    /// An address of the repository.
    fn address(&self, kind: &str, reference: &str) -> Result<Url, SourceProblem> {
        let OciName { host, repository, .. } = self.name;
        let scheme = if self.name.is_local() { "http" } else { "https" };
        let host = if host == DOCKER_HUB { "registry-1.docker.io" } else { host };
        let text = format!("{scheme}://{host}/v2/{repository}/{kind}/{reference}");
        Url::parse(&text).map_err(|it| SourceProblem::Answer { url: text, problem: it.to_string() })
    }

    /// The same, with what to do.
    fn explain(&self, problem: SourceProblem) -> SourceProblem {
        let SourceProblem::Refused { url, status, said, .. } = problem else { return problem };
        let hint = match (status, &self.login) {
            (401 | 403, None) => {
                "; the registry has no such image, or it is private: 'docker login' writes a login to \
                 ~/.docker/config.json (DOCKER_CONFIG), or to the credential helper that stands there"
            }
            (401, Some(_)) => "; the registry does not take the login of ~/.docker/config.json",
            (403, Some(_)) => "; the user of ~/.docker/config.json may not read the image",
            (404, _) => "; the registry has no such image, tag or digest",
            _ => "",
        };
        SourceProblem::Refused { url, status, said, hint }
    }
}

/// What says that all files of a revision are here.
fn whole(digest: &str) -> String {
    format!("whole/{digest}")
}

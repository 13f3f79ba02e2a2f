//! MLflow's REST interface: which version of a model is meant, where its artifacts lie, and which files those are.

use std::path::PathBuf;

use reqwest::{Url, header::HeaderValue};
use serde_json::Value;

use crate::{
    cache::{Item, is_inside},
    download::WantedFile,
    error::SourceProblem,
    http::{Ask, Http, basic, bearer, unexpected},
    mlflow_name::{MlflowName, MlflowVersion},
    source_settings::MlflowSettings,
};
use stores::{Provider, StoreUrl};

/// Most files of a version, and directories of them.
const MOST_FILES: usize = 100_000;

/// Where a server has artifacts.
const ARTIFACTS: &str = "api/2.0/mlflow-artifacts/artifacts";

/// A registered model, to be asked about.
pub(crate) struct Registry<'a> {
    http: &'a Http,
    name: &'a MlflowName,
    /// The registry.
    pub(crate) address: Url,
    /// The server that has artifacts.
    tracking: Url,
    credentials: Option<HeaderValue>,
    /// Where the buckets of `s3://` are, for MLflow's clients.
    s3_endpoint: Option<String>,
}

/// A version of a model.
pub(crate) struct Version {
    pub(crate) number: u64,
    /// What this version is called here: another one may have its number after the model was deleted.
    pub(crate) revision: String,
}

/// Where the artifacts of a version lie.
pub(crate) enum Place {
    /// On this machine.
    Here(PathBuf),
    /// Elsewhere.
    Away(Origin),
}

/// Where artifacts are fetched from.
#[derive(Debug, PartialEq)]
pub(crate) enum Origin {
    /// A server, below this path.
    Server(Url, String),
    /// A store: the directory of this name there.
    Store(StoreUrl, String),
}

impl<'a> Registry<'a> {
    /// That of the settings.
    ///
    /// # Errors
    /// When they name none.
    pub(crate) fn new(
        http: &'a Http,
        name: &'a MlflowName,
        settings: &MlflowSettings,
    ) -> Result<Registry<'a>, SourceProblem> {
        let address = server(settings.registry.as_deref())?;
        let tracking = match &settings.tracking {
            Some(_) => server(settings.tracking.as_deref())?,
            None => address.clone(),
        };
        let user = settings.user.as_ref().and_then(|it| basic(&it.0, it.1.reveal()));
        let token = || bearer(settings.token.as_ref()?.reveal());
        let s3_endpoint = settings.s3_endpoint.clone();
        Ok(Registry {
            http,
            name,
            address,
            tracking,
            credentials: user.or_else(token),
            s3_endpoint,
        })
    }

    /// Asks the registry for the version that is meant.
    pub(crate) async fn look(&self, version: &MlflowVersion) -> Result<Version, SourceProblem> {
        let (path, query) = match version {
            MlflowVersion::Number(number) => {
                ("model-versions/get", Some(("version", number.to_string())))
            }
            MlflowVersion::Alias(alias) => {
                ("registered-models/alias", Some(("alias", alias.clone())))
            }
            MlflowVersion::Latest => ("registered-models/get-latest-versions", None),
        };
        let (url, document) = self.ask(path, query).await?;
        let number = |it: &Value| -> Option<u64> { it["version"].as_str()?.parse().ok() };
        let found = match version {
            // The latest of each stage.
            MlflowVersion::Latest => {
                let all = document["model_versions"].as_array().into_iter().flatten();
                all.max_by_key(|it| number(it))
            }
            _ => Some(&document["model_version"]),
        };
        let Some(found) = found else {
            return Err(unexpected(&url, "the model has no version"));
        };
        let status = found["status"].as_str().unwrap_or("READY");
        if status != "READY" {
            return Err(unexpected(
                &url,
                &format!("expected a version that is READY, it is {status}"),
            ));
        }
        let number =
            number(found).ok_or_else(|| unexpected(&url, "expected the number of a version"))?;
        let made = integer(&found["creation_timestamp"]).unwrap_or_default();
        Ok(Version { number, revision: format!("{number}-{made}") })
    }

    /// Asks the registry where the artifacts of a version lie.
    pub(crate) async fn place(&self, number: u64) -> Result<Place, SourceProblem> {
        let query = Some(("version", number.to_string()));
        let (url, document) = self.ask("model-versions/get-download-uri", query).await?;
        let uri = document["artifact_uri"].as_str();
        let uri = uri.ok_or_else(|| unexpected(&url, "expected an address as 'artifact_uri'"))?;
        let elsewhere = |why| SourceProblem::Elsewhere {
            uri: uri.to_owned(),
            why,
            name: self.name.to_string(),
        };
        if let Some(path) = uri.strip_prefix("mlflow-artifacts:") {
            return self
                .proxied(path)
                .ok_or_else(|| elsewhere(", which is no address of a server's"));
        }
        let path = match Url::parse(uri) {
            Ok(url) if url.scheme() == "file" => url.to_file_path().ok(),
            Ok(_) => {
                let origin = in_store(uri, self.s3_endpoint.as_deref()).map(Place::Away);
                return origin.ok_or_else(|| elsewhere(", which muster does not fetch from"));
            }
            Err(_) => Some(PathBuf::from(uri)),
        };
        match path.filter(|it| it.is_absolute() && it.is_dir()) {
            Some(path) => Ok(Place::Here(path)),
            None => Err(elsewhere(", and there is no such directory on this machine")),
        }
    }

    /// A server and the path there, of what follows `mlflow-artifacts:`.
    fn proxied(&self, path: &str) -> Option<Place> {
        let (server, path) = match path.strip_prefix("//") {
            None => (self.tracking.clone(), path),
            Some(rest) => {
                let (host, path) = rest.split_once('/')?;
                let address = format!("{}://{host}/", self.tracking.scheme());
                (Url::parse(&address).ok().filter(|it| it.username().is_empty())?, path)
            }
        };
        let root = path.trim_matches('/');
        is_inside(root).then(|| Place::Away(Origin::Server(server, root.to_owned())))
    }

    /// The files below a path of a server.
    pub(crate) async fn list(&self, server: &Url, root: &str) -> Result<Vec<Item>, SourceProblem> {
        let mut items = Vec::new();
        let mut open = vec![String::new()];
        let mut seen = 0;
        while let Some(folder) = open.pop() {
            let mut url = below(server, ARTIFACTS, "");
            let path = [root, &folder].map(|it| it.trim_matches('/')).join("/");
            url.query_pairs_mut().append_pair("path", path.trim_end_matches('/'));
            let ask = Ask::get(url, self.credentials_for(server));
            let document = self.http.json(&ask).await?;
            for entry in document["files"].as_array().into_iter().flatten() {
                let name = entry["path"].as_str().unwrap_or_default();
                seen += 1;
                if !is_inside(name) || name.contains('/') || MOST_FILES < seen {
                    let problem = format!(
                        "its file {name:?} would lie outside of its folder, or is one too many"
                    );
                    return Err(unexpected(&ask.url, &problem));
                }
                let file = format!("{folder}{name}");
                if entry["is_dir"] == true {
                    open.push(format!("{file}/"));
                    continue;
                }
                let ask = Ask::get(
                    below(server, ARTIFACTS, &format!("{root}/{file}")),
                    ask.credentials.clone(),
                );
                let wanted = WantedFile { ask, size: integer(&entry["file_size"]), digest: None };
                items.push(Item { file, blob: String::new(), wanted });
            }
        }
        match items.is_empty() {
            true => Err(unexpected(server, &format!("the version has no files below '{root}'"))),
            false => Ok(items),
        }
    }

    /// The credentials, where the server is the one that they are for.
    fn credentials_for(&self, server: &Url) -> Option<HeaderValue> {
        let is_known =
            [&self.tracking, &self.address].iter().any(|it| it.origin() == server.origin());
        self.credentials.clone().filter(|_| is_known)
    }

    /// What the registry says about the model.
    async fn ask(
        &self,
        path: &str,
        query: Option<(&str, String)>,
    ) -> Result<(Url, Value), SourceProblem> {
        let mut url = below(&self.address, "api/2.0/mlflow", path);
        url.query_pairs_mut().append_pair("name", &self.name.model);
        if let Some((key, value)) = query {
            url.query_pairs_mut().append_pair(key, &value);
        }
        let ask = Ask::get(url, self.credentials.clone());
        let document = self.http.json(&ask).await?;
        Ok((ask.url, document))
    }
}

/// A directory of a store that MLflow's own clients would ask themselves; `None` for any other address.
fn in_store(uri: &str, s3_endpoint: Option<&str>) -> Option<Origin> {
    let (above, directory) = uri.trim_end_matches('/').rsplit_once('/')?;
    let url = StoreUrl::parse(above).ok().filter(|_| is_inside(directory))?;
    // Requests are signed for a host that the operator has named, and no other.
    let mut url = Some(url).filter(|it| it.endpoint.is_none())?;
    match url.provider {
        Provider::S3 if s3_endpoint.is_some() => url.endpoint = s3_endpoint.map(str::to_owned),
        Provider::S3 | Provider::Gcs => {}
        // MLflow writes the addresses of Azure's in another way.
        Provider::Azure => return None,
    }
    Some(Origin::Store(url, directory.to_owned()))
}

/// The address of a server of MLflow's.
fn server(given: Option<&str>) -> Result<Url, SourceProblem> {
    let none = || SourceProblem::NoRegistry { given: given.map(shown_uri) };
    let url = Url::parse(given.ok_or_else(none)?).map_err(|_| none())?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_one = ["http", "https"].contains(&url.scheme()) && url.query().is_none() && is_plain;
    if is_one { Ok(url) } else { Err(none()) }
}

/// An address without what may be secret in it.
fn shown_uri(given: &str) -> String {
    match (given.split_once("://"), given.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => given.to_owned(),
    }
}

/// An address below that of a server.
fn below(server: &Url, part: &str, path: &str) -> Url {
    let mut url = server.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        let parts = part.split('/').chain(path.split('/'));
        segments.pop_if_empty().extend(parts.filter(|it| !it.is_empty()));
    }
    url
}

/// A number: protobuf's JSON may have it as a text.
fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The same, with what to do.
pub(crate) fn explain(problem: SourceProblem, settings: &MlflowSettings) -> SourceProblem {
    let SourceProblem::Refused { url, status, said, .. } = problem else { return problem };
    let has_credentials = settings.user.is_some() || settings.token.is_some();
    let hint = match (status, has_credentials) {
        (401, false) => {
            "; set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        }
        (401, true) => {
            "; the server does not take the credentials of MLFLOW_TRACKING_USERNAME or _TOKEN"
        }
        (403, _) => "; the user may not read the model",
        (404, _) => {
            "; the registry has no such model, version or alias, or the server has no artifacts"
        }
        _ => "",
    };
    SourceProblem::Refused { url, status, said, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_and_another_store_is_said_without_its_password() {
        assert_eq!(server(Some("http://h:5000/a/")).unwrap().as_str(), "http://h:5000/a/");
        for (given, shown) in [
            ("sqlite:///mlflow.db", "it is 'sqlite:///mlflow.db'"),
            ("postgresql://user:secret@host/db", "it is 'postgresql://host/db'"),
            ("databricks", "it is 'databricks'"),
        ] {
            let problem = server(Some(given)).unwrap_err().to_string();
            assert!(problem.contains(shown) && !problem.contains("secret"), "{problem}");
        }
        assert!(server(None).unwrap_err().to_string().ends_with("of a server of MLflow's"));
    }

    #[test]
    fn a_directory_of_a_bucket_is_fetched_from_its_store() {
        let found = |uri: &str, endpoint| match in_store(uri, endpoint)? {
            Origin::Store(url, directory) => Some((url.text, url.endpoint, directory)),
            Origin::Server(..) => None,
        };
        let of = |url: &str, endpoint: Option<&str>, directory: &str| {
            Some((url.to_owned(), endpoint.map(str::to_owned), directory.to_owned()))
        };
        let uri = "s3://b/1/models/m-1/artifacts";
        assert_eq!(found(uri, None), of("s3://b/1/models/m-1", None, "artifacts"));
        let minio = Some("http://minio:9000");
        assert_eq!(found(uri, minio), of("s3://b/1/models/m-1", minio, "artifacts"));
        assert_eq!(found("gs://b/m/", minio), of("gs://b", None, "m"));
        assert_eq!(found("s3://https://other/b/m/x", minio), None);
        for other in [
            "s3://b",
            "s3://b/..",
            "s3://other:9000/b/m/x",
            "dbfs:/m",
            "wasbs://c@a.blob.core.windows.net/m",
        ] {
            assert_eq!(found(other, None), None, "{other}");
        }
    }

    #[test]
    fn addresses_lie_below_that_of_the_server_and_are_escaped() {
        let server = Url::parse("http://h/prefix/").unwrap();
        let url = below(&server, ARTIFACTS, "1/models/m-1/artifacts/a b#c");
        let whole =
            "http://h/prefix/api/2.0/mlflow-artifacts/artifacts/1/models/m-1/artifacts/a%20b%23c";
        assert_eq!(url.as_str(), whole);
    }
}

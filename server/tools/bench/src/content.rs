//! What is sent, as the command line says: made-up tensors, a file as it is, the texts of a file, or files of images.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    Check, Error, MadeUp, Method, Plan, Request, Server, Target,
    answers::TOLERANCE,
    fetch,
    files::{file_request, is_answer, list_files, read_bodies},
    format::{Format, Payload, Tensors},
    grpc_raw_outputs, inputs_from_metadata, invocations, is_inference, kserve, kserve_binary,
    kserve_grpc, kserve_json,
    made_up::{Filling, Shape},
    metadata,
    option_values::{header, share},
    reference::{self, Same, same_body},
    same_outputs, server_of,
    texts::{TextRoute, read_texts},
    tfs::{self, inputs_from_signature, is_prediction, tfs_predict},
    trust::Trust,
};

/// The arguments that say what is sent.
#[derive(Debug, Clone, clap::Args)]
#[command(group = clap::ArgGroup::new("body or bodies").args(["body", "bodies"]))]
pub(crate) struct Content {
    /// The model, for the formats of KServe and TensorFlow Serving; for openai-embeddings the `model` of the body
    #[arg(long, short)]
    model: Option<String>,
    /// What is sent
    #[arg(long, value_enum, default_value_t = Format::KserveBinary)]
    format: Format,
    /// The signature of the model, for tfs-json
    #[arg(long, value_name = "NAME", default_value = "serving_default")]
    signature: String,
    #[command(flatten)]
    made_up: MadeUp,
    /// The server's HTTP address, to be asked for the model's metadata where the URL is another port's
    #[arg(long, value_name = "URL", conflicts_with = "input")]
    describe: Option<Target>,
    /// A file that is sent as it is, instead of a made-up request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "shape", "value"])]
    body: Option<PathBuf>,
    /// A file with one body a line, or a directory with one body a file; they are sent in turn, in the order of the
    /// lines or of the names
    #[arg(long, value_name = "PATH", conflicts_with_all = ["body", "input", "shape", "value", "texts", "files"])]
    bodies: Option<PathBuf>,
    /// Compare no replies with what the server answers before the load to each body of --body and --bodies, or to each
    /// made-up request
    #[arg(long)]
    no_check: bool,
    /// By how much numbers of replies may differ from those before the load, as a share; whole numbers may not
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = TOLERANCE, conflicts_with = "no_check")]
    tolerance: f64,
    /// Content type of --body and --bodies
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "application/json",
        requires = "body or bodies"
    )]
    content_type: String,
    /// A header of each request, such as "Authorization: Bearer abc"; repeatable. So are questions for metadata asked
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// A file with one text a line, for the formats of texts: each line is a request, and they are sent in random
    /// order
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "input", "shape", "value"])]
    texts: Option<PathBuf>,
    /// Files of images or sounds, or directories of them, for --format image: each is a request, and they are sent in
    /// random order
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["body", "input", "shape", "value", "texts"])]
    files: Vec<PathBuf>,
}

impl Content {
    /// The same, believing these certificates.
    ///
    /// # Errors
    /// When a file of authorities cannot be used.
    pub(crate) fn trusting(mut self, trust: &Trust) -> Result<Content, Error> {
        self.describe = self.describe.map(|it| it.trusting(trust)).transpose()?;
        Ok(self)
    }

    /// The server whose metadata are asked for, where it is another one.
    pub(crate) fn described(&self) -> &Option<Target> {
        &self.describe
    }

    /// The requests that are sent in turn; `seed` is that of random data and of the order of texts.
    ///
    /// # Errors
    /// When an argument is missing, a file cannot be read or the model's metadata cannot be fetched.
    pub(crate) fn requests(&self, target: &Target, seed: u64) -> Result<Vec<Request>, Error> {
        let requests = self.bare_requests(target, seed)?;
        let with_headers = |it: Request| {
            self.header.iter().try_fold(it, |request, (name, value)| request.header(name, value))
        };
        requests.into_iter().map(with_headers).collect()
    }

    /// The same without the headers of `--header`.
    fn bare_requests(&self, target: &Target, seed: u64) -> Result<Vec<Request>, Error> {
        let path = Some(target.path()).filter(|it| !it.is_empty());
        let one = |it: Request| vec![it];
        match (self.format.payload(), &self.texts, &self.body) {
            (Payload::Texts(route), Some(file), None) => {
                self.text_requests(route, file, path, seed)
            }
            (Payload::Texts(_), ..) => {
                Err(Error::plan("--texts", "expected a file with one text a line"))
            }
            (Payload::Files, None, None) => {
                let request = |file: &PathBuf| at(path, file_request(file)?);
                list_files(&self.files, seed)?.iter().map(request).collect()
            }
            (Payload::Tensors(_) | Payload::File, None, None) if self.bodies.is_some() => {
                let path_of_bodies = self.bodies.as_deref().unwrap_or(Path::new(""));
                let bodies = read_bodies(path_of_bodies)?.into_iter();
                bodies.map(|it| self.body_request(it, path)).collect()
            }
            _ if !self.files.is_empty() => Err(Error::plan("--files", "expected --format image")),
            (_, Some(_), _) => Err(Error::plan(
                "--texts",
                "expected --format openai-embeddings, tei-embed or hf-invocations",
            )),
            (_, None, Some(file)) => {
                let failed = |source| Error::File { path: file.clone(), source };
                self.body_request(fs::read(file).map_err(failed)?, path).map(one)
            }
            (Payload::File, None, None) => match (path, &self.model) {
                (Some(path), None) => Request::new(Method::Get, path).map(one),
                _ => {
                    Err(Error::plan("--body", "expected a file to send with --format invocations"))
                }
            },
            (Payload::Tensors(how), None, None) => self.tensor_requests(how, target, path, seed),
        }
    }

    /// What makes a reply a right one.
    pub(crate) fn check(&self) -> Check {
        match (self.format.payload(), &self.model) {
            _ if self.body.is_some() || self.bodies.is_some() => Check::Nothing,
            (Payload::Texts(route), _) => {
                Check::FirstReply(Arc::new(move |it| route.is_answer(it.body)))
            }
            (Payload::Files, _) => Check::FirstReply(Arc::new(|it| is_answer(it.body))),
            (Payload::Tensors(Tensors::Grpc), Some(_)) => {
                Check::FirstReply(Arc::new(|it| !grpc_raw_outputs(it.body).is_empty()))
            }
            (Payload::Tensors(Tensors::Tfs), Some(_)) => Check::FirstReply(Arc::new(is_prediction)),
            (Payload::Tensors(_), Some(_)) => Check::FirstReply(Arc::new(is_inference)),
            (Payload::Tensors(_) | Payload::File, _) => Check::Nothing,
        }
    }

    /// Has a plan's replies compared with those that each body, or each made-up request, has alone, for which the
    /// server is asked now. The sentence says what is not compared.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub(crate) fn refer(&self, plan: &mut Plan) -> Result<Option<String>, Error> {
        let is_body = self.body.is_some() || self.bodies.is_some();
        let tolerance = self.tolerance;
        let same: Arc<Same> = match (self.format.payload(), &self.model) {
            _ if self.no_check => return Ok(None),
            _ if is_body => Arc::new(move |a, b| same_body(a, b, tolerance)),
            (Payload::Tensors(form), Some(_)) => {
                Arc::new(move |a, b| same_outputs::same(form, a, b, tolerance))
            }
            _ => return Ok(None),
        };
        let reference = reference::check(plan, same)?;
        plan.check = reference.check;
        let left = if is_body { "are not compared" } else { "are checked by their form alone" };
        Ok(reference.varies.then(|| {
            let target = &plan.target;
            format!("{target}: answers to one request differ even without a load; those {left}")
        }))
    }

    /// The server as it names itself, where this format has an address for that.
    pub(crate) fn server(&self, target: &Target) -> Option<Server> {
        let is_grpc = matches!(self.format.payload(), Payload::Tensors(Tensors::Grpc));
        let target = self.describe.as_ref().or(Some(target).filter(|_| !is_grpc))?;
        server_of(target, &self.header)
    }

    /// One request for each text.
    fn text_requests(
        &self,
        route: TextRoute,
        file: &Path,
        path: Option<&str>,
        seed: u64,
    ) -> Result<Vec<Request>, Error> {
        let request = |text: &String| at(path, route.request(self.model.as_deref(), text)?);
        read_texts(file, seed)?.iter().map(request).collect()
    }

    /// A body as it is.
    fn body_request(&self, body: Vec<u8>, path: Option<&str>) -> Result<Request, Error> {
        match (path, &self.model) {
            (None, None) => invocations(&self.content_type, body),
            (Some(path), _) => self.post(path.to_owned(), body),
            (None, Some(model)) => {
                let path = match self.format.payload() {
                    Payload::Tensors(Tensors::Tfs) => tfs::predict_path(model),
                    _ => format!("{}/infer", kserve::model_path(model)),
                };
                self.post(path, body)
            }
        }
    }

    /// Tensors for a model, of other numbers in each request; without a model, a GET of the path.
    fn tensor_requests(
        &self,
        how: Tensors,
        target: &Target,
        path: Option<&str>,
        seed: u64,
    ) -> Result<Vec<Request>, Error> {
        let Some(model) = &self.model else {
            let problem = "expected a model, a --body, or a path in the URL";
            let path = path.ok_or_else(|| Error::plan("--model", problem))?;
            return Ok(vec![Request::new(Method::Get, path)?]);
        };
        if matches!(how, Tensors::Grpc) && path.is_some() {
            return Err(Error::plan("URL", "expected no path with --format kserve-grpc"));
        }
        let metadata = self.metadata(how, target, model)?;
        let inputs = |shape: &Shape<'_>, fill: &Filling<'_>| match how {
            Tensors::Tfs => inputs_from_signature(&metadata, &self.signature, shape, fill),
            Tensors::Json | Tensors::Binary | Tensors::Grpc => {
                inputs_from_metadata(&metadata, shape, fill)
            }
        };
        self.made_up.each_of(&inputs, seed, |inputs| {
            let request = match how {
                Tensors::Json => kserve_json(model, inputs)?,
                Tensors::Binary => kserve_binary(model, inputs)?,
                Tensors::Grpc => kserve_grpc(model, inputs)?,
                Tensors::Tfs => tfs_predict(model, &self.signature, inputs)?,
            };
            let request = at(path, request)?;
            let size = request.body_len();
            Ok((request, size))
        })
    }

    fn post(&self, path: String, body: Vec<u8>) -> Result<Request, Error> {
        let request = Request::new(Method::Post, path)?;
        Ok(request.header("Content-Type", &self.content_type)?.body(body))
    }

    /// The model's metadata; nothing where inputs are given.
    fn metadata(&self, how: Tensors, target: &Target, model: &str) -> Result<Vec<u8>, Error> {
        if self.made_up.says_inputs() {
            return Ok(Vec::new());
        }
        let target = self.describe.as_ref().unwrap_or(target);
        let described = match how {
            Tensors::Tfs => fetch::get(target, &tfs::metadata_path(model), &self.header),
            Tensors::Json | Tensors::Binary | Tensors::Grpc => {
                metadata(target, model, &self.header)
            }
        };
        let is_grpc = how == Tensors::Grpc;
        described.map_err(|error| match error {
            // Some servers answer HTTP on this port, too, others hang up.
            Error::Fetch { url, problem } if is_grpc && self.describe.is_none() => {
                let way = "give the server's HTTP address with --describe, or inputs with --input";
                Error::Fetch { url, problem: format!("{problem}; {way}") }
            }
            error => error,
        })
    }
}

/// A request with the path of the URL, where it has one.
fn at(path: Option<&str>, request: Request) -> Result<Request, Error> {
    match path {
        Some(path) => request.to(path),
        None => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        content: Content,
    }

    #[test]
    fn a_port_of_grpc_that_hangs_up_on_http_is_said_with_the_way_out() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let target: Target = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let peer = thread::spawn(move || (0..2).for_each(|_| drop(listener.accept().unwrap())));
        let problem = |format: &str| {
            let command = Command::parse_from(["bench", "--model", "m", "--format", format]);
            command.content.requests(&target, 0).unwrap_err().to_string()
        };
        let (grpc, http) = (problem("kserve-grpc"), problem("kserve-json"));
        assert!(grpc.contains("give the server's HTTP address with --describe"), "{grpc}");
        assert!(!http.contains("--describe"), "{http}");
        peer.join().unwrap();
    }
}

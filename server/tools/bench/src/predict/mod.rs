//! `muster predict MODEL FILE..`: sends files to a model and prints what it answers. The model is one of a running
//! server, or a path of which a server is made for as long as this takes.

mod answer;
mod body;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use launch::{Launch, Limit, NotReady, Running, StartError, has_gpu};
use serde_json::{Value, json};

use crate::{
    Error, Request, Target, fetch, invocations,
    option_values::{duration, header},
    trust::Trust,
};
use answer::{readable, refusal};
use body::FileBody;

/// Where a server listens that was told nothing.
const USUAL: &str = "http://127.0.0.1:8080";
/// The header that names the model, where a server has several.
const MODEL: &str = "X-Amzn-SageMaker-Custom-Attributes";
/// The exit code where the command line cannot be used.
const USAGE: u8 = 2;

/// Sends files to a model and prints what it answers.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Exit status: 0 where every file was answered, 1 where the server refused one or is not there, \
                        2 where the command line is wrong or a file cannot be read."
)]
pub struct Args {
    /// A model's file or folder, for which a server is made as long as this takes; else the name of a model of the
    /// server at --url
    model: String,
    /// Files to send, a request each: a picture, sound, text, CSV, JSON or npy, told by its first bytes or its ending.
    /// `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A running server; MODEL is one of its models then. http://127.0.0.1:8080 where MODEL is no path
    #[arg(long, value_name = "URL")]
    url: Option<Target>,
    /// The type of the files, in place of the one that they seem to have
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Print the answer as JSON, as the server gives it; of several files a line for each, with its name
    #[arg(long)]
    json: bool,
    /// A header of each request, such as "Authorization: Bearer abc"; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Seconds that an answer may take
    #[arg(long, value_parser = duration, value_name = "SECONDS", default_value = "120")]
    timeout: Duration,
    #[command(flatten)]
    trust: Trust,
}

/// Why nothing could be sent, or what came instead of an answer.
#[derive(Debug, thiserror::Error)]
enum PredictProblem {
    /// Something that was asked for cannot be used.
    #[error(transparent)]
    Unusable(#[from] Error),
    /// The path is none, and no model can have it as a name.
    #[error("'{0}': expected a model's file or folder, or the name of a model of a running server")]
    NoModel(String),
    /// A server of the path does not start, for this reason of its own.
    #[error("'{path}': no server can be made for it: {reason}")]
    Start {
        /// As given.
        path: String,
        /// In the server's words, where it had some.
        reason: String,
    },
    /// A folder of several models.
    #[error("'{path}' has {} models: {}; expected one: give the path of one of them", .models.len(), .models.join(", "))]
    Several {
        /// As given.
        path: String,
        /// Their names.
        models: Vec<String>,
    },
    /// There is no server at the usual place.
    #[error(
        "'{model}' is no file or folder, and no server answers at {USUAL} ({source}): start one with `muster serve`, \
         name one with --url, or give the path of a model"
    )]
    NoServer {
        /// As given.
        model: String,
        /// What came of asking.
        source: Error,
    },
    /// A server has said no.
    #[error("the server answered {status}: {sentence}")]
    Refused {
        /// Its status.
        status: u16,
        /// Its own words.
        sentence: String,
    },
    /// The answer is not what was asked for.
    #[error("expected an answer in JSON, given {0} bytes of something else")]
    NoJson(usize),
    /// Nothing can be printed.
    #[error("output: {0}")]
    Output(#[from] io::Error),
}

impl PredictProblem {
    /// The exit code of the program.
    fn code(&self) -> ExitCode {
        match self {
            PredictProblem::Unusable(
                Error::File { .. } | Error::Plan { .. } | Error::Url { .. } | Error::Request(_),
            )
            | PredictProblem::NoModel(_)
            | PredictProblem::Several { .. } => ExitCode::from(USAGE),
            PredictProblem::Unusable(_)
            | PredictProblem::Start { .. }
            | PredictProblem::NoServer { .. }
            | PredictProblem::Refused { .. }
            | PredictProblem::NoJson(_)
            | PredictProblem::Output(_) => ExitCode::FAILURE,
        }
    }
}

/// Where requests go.
struct Endpoint {
    target: Target,
    /// The model that is named; `None` of a server that has one.
    model: Option<String>,
    /// It ends when this is dropped.
    _server: Option<Running>,
}

/// Sends the files that the arguments name and prints the answers to standard output. `program` is what serves, and
/// `stop` ends the wait for it. Blocks until all is answered.
pub fn run(args: &Args, program: &Path, stop: &Arc<AtomicBool>) -> ExitCode {
    let said = |problem: &PredictProblem| {
        eprintln!("{problem}");
        problem.code()
    };
    // What cannot be read is known before a server is made.
    let bodies: Result<Vec<(&PathBuf, FileBody)>, Error> = args
        .files
        .iter()
        .map(|it| Ok((it, FileBody::read(it, args.content_type.as_deref())?)))
        .collect();
    let bodies = match bodies {
        Ok(bodies) => bodies,
        Err(error) => return said(&error.into()),
    };
    let endpoint = match args.endpoint(program, stop) {
        Ok(endpoint) => endpoint,
        Err(problem) => return said(&problem),
    };
    let mut code = ExitCode::SUCCESS;
    for (file, body) in bodies {
        if let Err(problem) = args.one(&endpoint, file, body, stop) {
            eprintln!("{}: {problem}", file.display());
            code = problem.code();
        }
        if stop.load(Ordering::Relaxed) {
            return ExitCode::FAILURE;
        }
    }
    code
}

impl Args {
    /// The server that is asked, made where MODEL is a path.
    fn endpoint(&self, program: &Path, stop: &Arc<AtomicBool>) -> Result<Endpoint, PredictProblem> {
        Target::check_trust(&self.url, &self.trust)?;
        let named =
            |target: Target| Endpoint { target, model: Some(self.model.clone()), _server: None };
        if let Some(url) = &self.url {
            return Ok(named(url.clone().trusting(&self.trust)?));
        }
        if Path::new(&self.model).exists() {
            return self.served(program, stop);
        }
        if self.model.contains('/') {
            return Err(PredictProblem::NoModel(self.model.clone()));
        }
        let target: Target = USUAL.parse()?;
        match fetch::reaches(&target) {
            Ok(()) => Ok(named(target)),
            Err(source) => Err(PredictProblem::NoServer { model: self.model.clone(), source }),
        }
    }

    /// A server of its own for the path.
    fn served(&self, program: &Path, stop: &Arc<AtomicBool>) -> Result<Endpoint, PredictProblem> {
        let launch =
            Launch { program, model: &self.model, environment: &[], cpus: &[], gpu: has_gpu() };
        let limit = Limit { over: None, stop: stop.clone() };
        let started = launch.start(&limit, &mut |_| ());
        let server = started.map_err(|error| {
            let reason = match error {
                StartError::NotReady { source: NotReady::Ended(end), .. } => {
                    end.reason().unwrap_or_else(|| end.to_string())
                }
                StartError::NotReady { source, .. } => source.to_string(),
                StartError::NoProcess { .. } => error.to_string(),
            };
            PredictProblem::Start { path: self.model.clone(), reason }
        })?;
        match server.models() {
            models if models.len() > 1 => {
                Err(PredictProblem::Several { path: self.model.clone(), models })
            }
            _ => {
                Ok(Endpoint { target: server.address().into(), model: None, _server: Some(server) })
            }
        }
    }

    /// Sends a body and prints the answer.
    fn one(
        &self,
        endpoint: &Endpoint,
        file: &Path,
        body: FileBody,
        stop: &AtomicBool,
    ) -> Result<(), PredictProblem> {
        let request = self.request(endpoint, body)?;
        let reply = fetch::send(&endpoint.target, request, self.timeout, stop)?;
        if !(200..300).contains(&reply.status) {
            let sentence = refusal(&reply.body);
            return Err(PredictProblem::Refused { status: reply.status, sentence });
        }
        let several = self.files.len() > 1;
        let text = match (self.json, several) {
            (false, false) => readable(&reply.body),
            (false, true) => format!("{}:\n{}\n", file.display(), readable(&reply.body)),
            (true, _) => {
                let value: Value = serde_json::from_slice(&reply.body)
                    .map_err(|_| PredictProblem::NoJson(reply.body.len()))?;
                match several {
                    true => json!({"file": file.to_string_lossy(), "answer": value}).to_string(),
                    // Numbers as the server has written them.
                    false => String::from_utf8_lossy(&reply.body).trim_end().to_owned(),
                }
            }
        };
        writeln!(io::stdout().lock(), "{text}")?;
        Ok(())
    }

    fn request(&self, endpoint: &Endpoint, body: FileBody) -> Result<Request, Error> {
        let request = invocations(&body.content_type, body.bytes)?;
        let request = request.header("Accept", "application/json")?;
        let request = match &endpoint.model {
            Some(model) => request.header(MODEL, &format!("tfs-model-name={model}"))?,
            None => request,
        };
        let request =
            self.header.iter().try_fold(request, |it, (name, value)| it.header(name, value))?;
        match endpoint.target.path() {
            "" => Ok(request),
            path => request.to(path),
        }
    }
}

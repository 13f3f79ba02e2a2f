//! All operations by their names.

use std::{
    collections::hash_map::RandomState,
    fmt,
    fs::{self, DirBuilder, File, TryLockError},
    hash::BuildHasher,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::SystemTime,
};

use serde_json::{Value, json};

use super::{
    fault::Fault,
    jobs::Jobs,
    list, logs,
    models::{Models, located},
    reply::{Reply, success},
    requests::{CREATE_JOB, CREATE_MODEL, JOB, LIST_JOBS, LIST_STEPS, LOG_EVENTS, MODEL},
    shape::Shape,
    variables::may_be_set,
    worker::{self, ControlSettings},
};
use crate::{arn::job_arn, description::describe, job::Job, journal::LOCK};

/// A directory of jobs that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("directory of jobs '{}': {problem}", .directory.display())]
pub struct DirectoryError {
    directory: PathBuf,
    problem: String,
}

impl DirectoryError {
    fn new(directory: &Path, problem: impl fmt::Display) -> DirectoryError {
        DirectoryError { directory: directory.to_owned(), problem: problem.to_string() }
    }
}

/// Answers operations, and does the jobs that they ask for. Dropped, it ends the job that is being done, which goes on
/// where the directory is opened again.
#[derive(Debug)]
pub struct ControlPlane {
    jobs: Arc<Jobs>,
    models: Models,
    worker: Option<JoinHandle<()>>,
    /// The directory, where it is removed at the end.
    temporary: Option<PathBuf>,
    /// Locked for as long as the directory is used.
    _lock: File,
}

impl ControlPlane {
    /// Opens the directory of the settings and begins with the jobs that wait there.
    ///
    /// # Errors
    /// Those of the file system, and when another program uses the directory.
    pub fn open(settings: ControlSettings) -> Result<ControlPlane, DirectoryError> {
        let temporary = settings.jobs.is_none().then(temporary);
        let root = settings.jobs.clone().or(temporary.clone()).unwrap_or_default();
        let failed = |it: io::Error| DirectoryError::new(&root, it);
        // One in the directory of temporary files that somebody else has made is not used.
        let is_shared = temporary.is_none();
        DirBuilder::new().recursive(is_shared).mode(0o700).create(&root).map_err(failed)?;
        let lock = File::create(root.join("lock")).map_err(failed)?;
        lock.try_lock().map_err(|it| match it {
            TryLockError::WouldBlock => DirectoryError::new(&root, "another recommender uses it"),
            TryLockError::Error(it) => failed(it),
        })?;
        let jobs = Jobs::open(&root.join("jobs"), SystemTime::now()).map_err(failed)?;
        let jobs = Arc::new(jobs);
        let models = Models::open(&root.join("models")).map_err(failed)?;
        let (doing, measuring) = (jobs.clone(), root.join(LOCK));
        let worker = thread::Builder::new().name("jobs".to_owned());
        let worker =
            worker.spawn(move || worker::work(&doing, &settings, &measuring)).map_err(failed)?;
        Ok(ControlPlane { jobs, models, worker: Some(worker), temporary, _lock: lock })
    }

    /// Answers an operation, which the value of the header `X-Amz-Target` names.
    pub fn answer(&self, target: &str, body: &[u8]) -> Reply {
        let answered = self.operation(target).and_then(|(shape, operation)| {
            let mut request: Value = serde_json::from_slice(body)
                .map_err(|it| Fault::unreadable(format!("the body is not JSON: {it}")))?;
            shape.check(&mut request)?;
            operation(self, request)
        });
        answered.map_or_else(|fault| fault.reply(), |value| success(&value))
    }

    /// The request of an operation, and what it does.
    fn operation(&self, target: &str) -> Result<(&'static Shape, Operation), Fault> {
        Ok(match target {
            "SageMaker.CreateInferenceRecommendationsJob" => {
                (&CREATE_JOB, ControlPlane::create_job)
            }
            "SageMaker.DescribeInferenceRecommendationsJob" => {
                (&JOB, |it, request| it.jobs.read(text(&request, "JobName"), describe))
            }
            "SageMaker.ListInferenceRecommendationsJobs" => {
                (&LIST_JOBS, |it, request| it.jobs.read_all(|all| list::jobs(&request, all)))
            }
            "SageMaker.ListInferenceRecommendationsJobSteps" => (&LIST_STEPS, |it, request| {
                it.jobs.read(text(&request, "JobName"), |job| list::steps(&request, &job.steps))?
            }),
            "SageMaker.StopInferenceRecommendationsJob" => (&JOB, |it, request| {
                it.jobs.stop(text(&request, "JobName"), SystemTime::now()).map(|()| Value::Null)
            }),
            "SageMaker.CreateModel" => (&CREATE_MODEL, |it, request| {
                let name = text(&request, "ModelName").to_owned();
                it.models.create(&name, request, SystemTime::now())
            }),
            "SageMaker.DescribeModel" => {
                (&MODEL, |it, request| it.models.describe(text(&request, "ModelName")))
            }
            "Logs_20140328.GetLogEvents" => (&LOG_EVENTS, |it, request| {
                let said = it.jobs.said(logs::job(&request)?).ok_or_else(Fault::no_stream)?;
                logs::events(&request, &said)
            }),
            _ => return Err(Fault::unknown(target)),
        })
    }

    fn create_job(&self, request: Value) -> Result<Value, Fault> {
        let job = Job::parse(&request).map_err(|it| Fault::invalid(it.to_string()))?;
        let input = request.get("InputConfig").unwrap_or(&Value::Null);
        let is_given = |name: &str| input.get(name).is_some();
        if is_given("ModelName") && is_given("ModelPackageVersionArn") {
            let problem = "InputConfig: expected ModelName or ModelPackageVersionArn, given both";
            return Err(Fault::invalid(problem));
        }
        let ranges = job.configurations.iter().flat_map(|it| &it.ranges);
        if let Some((name, _)) = ranges.into_iter().find(|it| !may_be_set(&it.0)) {
            return Err(Fault::invalid(format!(
                "InputConfig.EndpointConfigurations: expected variables of models, threads and workers, given '{name}'"
            )));
        }
        let field = "InputConfig.ContainerConfig.PayloadConfig.SamplePayloadUrl";
        let is_here = |it: &&str| located(it).is_some_and(|it| !it.contains("://"));
        match (job.payload.as_deref(), &job.endpoint) {
            (Some(payload), _) if !is_here(&payload) => {
                return Err(Fault::invalid(format!(
                    "{field}: expected the path of a file, a directory or a .tar.gz on this machine, with or without \
                     file://, given '{payload}'"
                )));
            }
            // Of a model's inputs tensors are made up.
            (Some(_), _) | (None, None) => {}
            (None, Some(endpoint)) => {
                return Err(Fault::invalid(format!(
                    "{field}: expected what is sent to {endpoint}, given none"
                )));
            }
        }
        let model = job.model.as_ref().filter(|_| job.endpoint.is_none());
        let (model, left) = match model.map(|it| self.models.find(it)).transpose()? {
            Some((model, left)) => (Some(model), left),
            None => (None, Vec::new()),
        };
        self.jobs.create(&job.name, request, model, SystemTime::now())?;
        if !left.is_empty() {
            let names = left.join(", ");
            self.jobs.say(&job.name, &format!("WARNING servers do not get the variables {names}"));
        }
        Ok(json!({ "JobArn": job_arn(&job.name) }))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.jobs.close();
        // A defect of a job was said when it happened.
        let _ = self.worker.take().map(JoinHandle::join);
        if let Some(directory) = &self.temporary {
            // Nothing reads it any more.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// What is done with a request that has its shape.
type Operation = fn(&ControlPlane, Value) -> Result<Value, Fault>;

fn text<'a>(request: &'a Value, name: &str) -> &'a str {
    request.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A directory for this process alone, of a name that nobody can guess.
fn temporary() -> PathBuf {
    let random = RandomState::new().hash_one(std::process::id());
    std::env::temp_dir().join(format!("muster-recommender-{random:016x}"))
}

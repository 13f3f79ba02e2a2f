//! How far a job is and what came of it, as a value that is written down.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::setting::Variables;

/// The form of what is written. Another form is not read.
pub(crate) const FORMAT: u32 = 1;

/// How far a job is, in the words of SageMaker's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs)]
pub enum JobStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
    Stopping,
    Stopped,
}

impl JobStatus {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            JobStatus::Pending => "PENDING",
            JobStatus::InProgress => "IN_PROGRESS",
            JobStatus::Completed => "COMPLETED",
            JobStatus::Failed => "FAILED",
            JobStatus::Stopping => "STOPPING",
            JobStatus::Stopped => "STOPPED",
        }
    }

    /// Is the job over?
    pub fn is_over(self) -> bool {
        match self {
            JobStatus::Completed | JobStatus::Failed | JobStatus::Stopped => true,
            JobStatus::Pending | JobStatus::InProgress | JobStatus::Stopping => false,
        }
    }
}

/// What `job.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    /// [`FORMAT`] of the program that wrote it.
    pub(crate) format: u32,
    /// The body of `CreateInferenceRecommendationsJob`.
    pub request: Value,
    /// What the findings depend on besides: the program's version, the machine, the model's content. Findings on
    /// another basis are not used again.
    #[serde(default)]
    pub basis: Value,
    /// Where the model is that the request names, and the variables that go with it.
    #[serde(default)]
    pub model: Option<ModelAt>,
    /// How far it is.
    pub status: JobStatus,
    /// How often it was begun. More than once where a program ended before it was over.
    #[serde(default)]
    pub begun: u32,
    /// When it was asked for.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub created: SystemTime,
    /// When this was written.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub modified: SystemTime,
    /// When it was over.
    #[serde(default, serialize_with = "write_some_time", deserialize_with = "read_some_time")]
    pub ended: Option<SystemTime>,
    /// Why it failed.
    #[serde(default)]
    pub failure: Option<String>,
    /// `InferenceRecommendations` of the API, the best one first.
    #[serde(default)]
    pub recommendations: Vec<Value>,
    /// `EndpointPerformances` of the API.
    #[serde(default)]
    pub performances: Vec<Value>,
    /// `Steps` of the API.
    #[serde(default)]
    pub steps: Vec<Value>,
}

/// What a name of a model stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelAt {
    /// Its file, its directory, a repository or an address of a store.
    pub path: String,
    /// Variables of its servers.
    pub environment: Variables,
}

impl JobState {
    /// A job that nothing has been done for.
    pub fn new(request: Value, now: SystemTime) -> JobState {
        JobState {
            format: FORMAT,
            request,
            basis: Value::Null,
            model: None,
            status: JobStatus::Pending,
            begun: 0,
            created: now,
            modified: now,
            ended: None,
            failure: None,
            recommendations: Vec::new(),
            performances: Vec::new(),
            steps: Vec::new(),
        }
    }
}

/// Seconds since 1970, with a fraction, as in the API.
pub fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |it| it.as_secs_f64())
}

fn time<E: serde::de::Error>(seconds: f64) -> Result<SystemTime, E> {
    let since = Duration::try_from_secs_f64(seconds).map_err(E::custom)?;
    UNIX_EPOCH.checked_add(since).ok_or_else(|| E::custom("a time that is too far away"))
}

fn write_time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(seconds(*time))
}

fn read_time<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
    time(f64::deserialize(from)?)
}

fn write_some_time<S: Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    time.map(seconds).serialize(to)
}

fn read_some_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SystemTime>, D::Error> {
    Option::<f64>::deserialize(from)?.map(time).transpose()
}

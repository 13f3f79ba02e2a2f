//! The request for a job, and what is wrong with one.

use std::time::Duration;

use loadgen::{Percentile, Phase, Stairs, Threshold, Traffic, answers::TOLERANCE};
use serde::Deserialize;
use serde_json::Value;

pub use crate::create_job::{Kind, Serverless};
use crate::{
    create_job::{CreateJob, Endpoint, Input, Latency, Limit, Pattern, PatternPhase, Stopping},
    error::Invalid,
    setting::Variables,
};

/// Most configurations that an advanced job names.
const MOST_CONFIGURATIONS: usize = 10;
/// Longest job.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Users added per minute, from the guide to the service.
const GUIDE_USERS: u64 = 3;

/// A job that is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// What is looked for.
    pub kind: Kind,
    /// What is measured: the name or directory of a model.
    pub model: Option<String>,
    /// A running server that is measured instead.
    pub endpoint: Option<String>,
    /// Where bodies of requests are: a file, a directory or an archive.
    pub payload: Option<String>,
    /// Their types.
    pub content_types: Vec<String>,
    /// The load. A default job has its own.
    pub traffic: Option<Traffic>,
    /// The longest that the whole job takes.
    pub duration: Option<Duration>,
    /// Most tests.
    pub most_tests: usize,
    /// Most tests at a time.
    pub most_parallel: usize,
    /// How often each setting of an advanced job is tested, in turns.
    pub repeats: u32,
    /// What is tried.
    pub configurations: Vec<Configuration>,
    /// Other forms of the model, such as one in FP16, which are tried, too: each as the variable that has it served.
    pub variants: Variables,
    /// Numbers of answers may differ from those of the first setting by this share.
    pub tolerance: f64,
    /// When a test has seen enough.
    pub stop: Conditions,
    /// `InputConfig` as it was given.
    pub input: Value,
    /// `StoppingConditions` as they were given.
    pub stopping: Option<Value>,
    /// What SageMaker's guide asks for and this job does not do: each a sentence that names the field.
    pub warnings: Vec<String>,
}

/// A machine and the variables that are tried on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The name of the machine.
    pub instance_type: String,
    /// What it is instead of a machine, where it is an endpoint without servers: it cannot be measured.
    pub serverless: Option<Serverless>,
    /// Variables, each with its values.
    pub ranges: Vec<(String, Vec<String>)>,
}

/// When a test has seen enough.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Conditions {
    /// Requests per minute that are asked for.
    pub max_invocations: Option<u64>,
    /// The longest latency that is good.
    pub threshold: Option<Threshold>,
    /// Goes on where more users bring no more throughput.
    pub continue_flat: bool,
}

impl Job {
    /// The names of its machines.
    pub(crate) fn machines(&self) -> Vec<&str> {
        let machines = self.configurations.iter().filter(|it| it.serverless.is_none());
        machines.map(|it| it.instance_type.as_str()).collect()
    }

    /// The job of such a body.
    ///
    /// # Errors
    /// Names the field, what was expected and what was given.
    pub fn parse(body: &Value) -> Result<Job, Invalid> {
        let read =
            CreateJob::deserialize(body).map_err(|it| Invalid::new("body", it.to_string()))?;
        let Input { model_name, model_package_version_arn, container_config, .. } =
            read.input_config;
        check_name(&read.job_name)?;
        let endpoints = read.input_config.endpoints;
        let endpoint = endpoints.into_iter().find_map(|it| it.endpoint_name);
        let model = model_name.or(model_package_version_arn);
        if model.is_none() && endpoint.is_none() {
            let problem = "expected ModelName, ModelPackageVersionArn or Endpoints";
            return Err(Invalid::new("InputConfig", problem));
        }
        let limit = read.input_config.resource_limit;
        let most =
            |of: fn(&Limit) -> Option<usize>, usual| limit.as_ref().and_then(of).unwrap_or(usual);
        let supported = container_config.as_ref().map(|it| it.supported_instance_types.clone());
        let payload = container_config.and_then(|it| it.payload_config);
        let traffic = read.input_config.traffic_pattern.map(traffic).transpose()?;
        let mut job = Job {
            name: read.job_name,
            kind: read.job_type,
            model,
            endpoint,
            content_types: payload
                .as_ref()
                .map_or(Vec::new(), |it| it.supported_content_types.clone()),
            payload: payload.and_then(|it| it.sample_payload_url),
            traffic,
            duration: read.input_config.job_duration_in_seconds.map(Duration::from_secs),
            most_tests: most(|it| it.max_number_of_tests, 10),
            most_parallel: most(|it| it.max_parallel_of_tests, 1),
            repeats: 1,
            configurations: configurations(
                read.input_config.endpoint_configurations,
                supported.unwrap_or_default(),
            )?,
            variants: Vec::new(),
            tolerance: TOLERANCE,
            stop: conditions(read.stopping_conditions)?,
            input: body.get("InputConfig").cloned().unwrap_or_default(),
            stopping: body.get("StoppingConditions").cloned(),
            warnings: Vec::new(),
        };
        check_duration(job.duration)?;
        if job.most_tests == 0 || job.most_parallel == 0 {
            return Err(Invalid::new("ResourceLimit", "expected 1 or more, given 0"));
        }
        job.warnings = job.breaches();
        Ok(job)
    }

    /// Where the job leaves the narrower ranges of SageMaker's guide. Such jobs are done nevertheless.
    fn breaches(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        let mut warn = |field: &str, text: String| {
            breaches.push(format!(
                "{field}: {text}; SageMaker's guide does not allow it, this job goes on"
            ));
        };
        if let Some(Traffic::Stairs(stairs)) = &self.traffic
            && stairs.users_per_step as u64 > GUIDE_USERS
        {
            warn("UsersPerStep", format!("{} is more than 3", stairs.users_per_step));
        }
        if let Some(Traffic::Phases(phases)) = &self.traffic {
            for (phase, next) in phases.iter().zip(phases.iter().skip(1)) {
                let (end, start) = (last_users(phase), next.initial_users as u64);
                if end.abs_diff(start) > GUIDE_USERS {
                    let text =
                        format!("{start} is more than 3 away from {end}, the last phase's end");
                    warn("InitialNumberOfUsers", text);
                }
            }
            for phase in phases {
                if last_users(phase) <= phase.initial_users as u64 {
                    warn(
                        "Phases",
                        format!(
                            "one ends with the {} users that it starts with",
                            phase.initial_users
                        ),
                    );
                }
                if phase.initial_users as u64 > GUIDE_USERS {
                    warn("InitialNumberOfUsers", format!("{} is more than 3", phase.initial_users));
                }
                if phase.spawn_rate > GUIDE_USERS as f64 {
                    warn("SpawnRate", format!("{} is more than 3", phase.spawn_rate));
                }
                if !(120..=3600).contains(&phase.duration.as_secs()) {
                    let seconds = phase.duration.as_secs();
                    warn("DurationInSeconds", format!("{seconds} is not within 120 to 3600"));
                }
            }
        }
        for it in self.configurations.iter().filter(|it| it.instance_type.starts_with("ml.t2.")) {
            warn("InstanceType", format!("{} is of the kind t2", it.instance_type));
        }
        if self.stop.max_invocations.is_some_and(|it| it > 30_000) {
            warn("MaxInvocations", "it is more than 30000".to_owned());
        }
        if self.most_tests > 10 || self.most_parallel > 10 {
            warn("ResourceLimit", "it allows more than 10 tests".to_owned());
        }
        let whole = self.traffic.as_ref().map(Traffic::duration);
        if let (Some(whole), Some(allowed)) = (whole, self.duration)
            && whole > allowed
        {
            let (whole, allowed) = (whole.as_secs(), allowed.as_secs());
            warn(
                "JobDurationInSeconds",
                format!("one test takes {whole} s of the job's {allowed} s"),
            );
        }
        breaches
    }
}

/// Users at the end of a phase.
fn last_users(phase: &Phase) -> u64 {
    let added = phase.spawn_rate * phase.duration.as_secs_f64() / 60.0;
    phase.initial_users as u64 + added.floor() as u64
}

/// A job takes at most a week.
pub(crate) fn check_duration(duration: Option<Duration>) -> Result<(), Invalid> {
    match duration {
        Some(it) if it.is_zero() || it > LONGEST => {
            let problem = format!("expected 1 second to a week, given {} s", it.as_secs());
            Err(Invalid::new("JobDurationInSeconds", problem))
        }
        _ => Ok(()),
    }
}

/// A name as SageMaker has it: letters, digits and single hyphens inside, at most 64.
fn check_name(name: &str) -> Result<(), Invalid> {
    let ends = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    let inside = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
    match inside && name.len() <= 64 && ends(name.chars().next()) && ends(name.chars().last()) {
        true => Ok(()),
        false => {
            let problem =
                format!("expected 1 to 64 letters, digits and inner hyphens, given '{name}'");
            Err(Invalid::new("JobName", problem))
        }
    }
}

fn traffic(pattern: Pattern) -> Result<Traffic, Invalid> {
    let field = "InputConfig.TrafficPattern";
    let seconds = |it: u64| Duration::from_secs(it);
    match (pattern.traffic_type.as_deref().unwrap_or("PHASES"), pattern.stairs) {
        ("PHASES", _) if pattern.phases.is_empty() => {
            Err(Invalid::new(field, "expected one phase or more in Phases"))
        }
        ("PHASES", _) => {
            let phase = |it: PatternPhase| Phase {
                initial_users: it.initial_number_of_users as usize,
                spawn_rate: it.spawn_rate as f64,
                duration: seconds(it.duration_in_seconds),
            };
            Ok(Traffic::Phases(pattern.phases.into_iter().map(phase).collect()))
        }
        ("STAIRS", Some(stairs)) => Ok(Traffic::Stairs(Stairs {
            users_per_step: stairs.users_per_step as usize,
            steps: stairs.number_of_steps as usize,
            duration: seconds(stairs.duration_in_seconds),
        })),
        ("STAIRS", None) => Err(Invalid::new(field, "expected Stairs with the type STAIRS")),
        (other, _) => Err(Invalid::new(
            field,
            format!("expected TrafficType PHASES or STAIRS, given {other}"),
        )),
    }
    .and_then(|it| {
        it.validate().map_err(|error| Invalid::new(field, error.to_string()))?;
        Ok(it)
    })
}

fn configurations(
    given: Vec<Endpoint>,
    supported: Vec<String>,
) -> Result<Vec<Configuration>, Invalid> {
    let field = "InputConfig.EndpointConfigurations";
    if given.len() > MOST_CONFIGURATIONS {
        let problem = format!("expected at most {MOST_CONFIGURATIONS}, given {}", given.len());
        return Err(Invalid::new(field, problem));
    }
    let configuration = |it: Endpoint| {
        let serverless = it.serverless_config;
        let instance_type = match (it.instance_type, serverless) {
            (Some(name), None) => name,
            (None, Some(it)) => {
                let Serverless { memory_size_in_mb: memory, max_concurrency: most, .. } = it;
                let ready = it.provisioned_concurrency.map(|it| format!(", {it} ready"));
                format!("serverless, {memory} MB, {most} at a time{}", ready.unwrap_or_default())
            }
            (given, _) => {
                let given = given.map_or("neither", |_| "both");
                let problem = format!("expected InstanceType or ServerlessConfig, given {given}");
                return Err(Invalid::new(field, problem));
            }
        };
        let ranges = it.environment_parameter_ranges.map(|it| it.categorical_parameter_ranges);
        let ranges: Vec<_> =
            ranges.unwrap_or_default().into_iter().map(|it| (it.name, it.value)).collect();
        if let Some((name, _)) = ranges.iter().find(|it| it.1.is_empty()) {
            return Err(Invalid::new(field, format!("{name}: expected a value, given none")));
        }
        Ok(Configuration { instance_type, serverless, ranges })
    };
    let given: Vec<Configuration> =
        given.into_iter().map(configuration).collect::<Result<_, _>>()?;
    let plain =
        |instance_type| Configuration { instance_type, serverless: None, ranges: Vec::new() };
    match given.is_empty() {
        true => Ok(supported.into_iter().map(plain).collect()),
        false => Ok(given),
    }
}

fn conditions(given: Option<Stopping>) -> Result<Conditions, Invalid> {
    let Some(given) = given else { return Ok(Conditions::default()) };
    let zero = |of: &'static str| Invalid::new(of, "expected 1 or more, given 0");
    if given.max_invocations == Some(0) {
        return Err(zero("StoppingConditions.MaxInvocations"));
    }
    let mut conditions =
        Conditions { max_invocations: given.max_invocations, ..Conditions::default() };
    if let Some(Latency { percentile, value_in_milliseconds }) =
        given.model_latency_thresholds.first()
    {
        let percentile = match percentile.as_str() {
            "P95" => Percentile::P95,
            "P99" => Percentile::P99,
            other => {
                let problem = format!("expected Percentile P95 or P99, given {other}");
                return Err(Invalid::new("StoppingConditions.ModelLatencyThresholds", problem));
            }
        };
        if *value_in_milliseconds == 0 {
            return Err(zero("StoppingConditions.ModelLatencyThresholds"));
        }
        let latency = Duration::from_millis(*value_in_milliseconds);
        conditions.threshold = Some(Threshold { percentile, latency });
    }
    conditions.continue_flat = match given.flat_invocations.as_deref() {
        None | Some("Stop") => false,
        Some("Continue") => true,
        Some(other) => {
            let problem = format!("expected Stop or Continue, given {other}");
            return Err(Invalid::new("StoppingConditions.FlatInvocations", problem));
        }
    };
    Ok(conditions)
}

#[cfg(test)]
mod tests;

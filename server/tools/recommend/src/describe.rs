//! What a job has found, in the form of SageMaker's API: `DescribeInferenceRecommendationsJob`,
//! `ListInferenceRecommendationsJobSteps`.

use std::hash::{DefaultHasher, Hash, Hasher};

use machine::Machine;
use serde_json::{Map, Value, json};

use crate::{
    description::{LONGEST_REASON, describe},
    job::{Configuration, Job},
    job_state::{JobState, JobStatus, seconds},
    rejection::Rejection,
    run::{Done, Status},
    served::Served,
    setting::{Variables, overlaid},
    step::{Length, Step},
    words::shortened,
};

/// Most recommendations of a reply, and most variables of one.
const MOST: usize = 10;
/// Characters of a job's name in that of an endpoint, which has 63 at most.
const LONGEST_JOB: usize = 54;

impl Done {
    /// The reply to `DescribeInferenceRecommendationsJob`.
    pub fn describe(&self) -> Value {
        let request = json!({
            "JobName": self.job.name,
            "JobType": format!("{:?}", self.job.kind),
            "InputConfig": self.job.input,
            "StoppingConditions": self.job.stopping,
        });
        let mut state = JobState::new(request, self.created);
        self.write_to(&mut state);
        describe(&state)
    }

    /// The reply to `ListInferenceRecommendationsJobSteps`: each setting that was tried, failed ones included.
    pub fn list_steps(&self) -> Value {
        json!({ "Steps": self.entries() })
    }

    /// Writes down how the job ended and what was found.
    pub fn write_to(&self, state: &mut JobState) {
        let best = self.ranked.iter().filter_map(|it| self.steps.get(*it)).take(MOST);
        state.recommendations = best.map(|it| recommendation(&self.job, it)).collect();
        state.performances = self.performance().into_iter().collect();
        state.steps = self.entries();
        state.status = match self.status {
            Status::Completed => JobStatus::Completed,
            Status::Stopped => JobStatus::Stopped,
            Status::Failed => JobStatus::Failed,
        };
        (state.modified, state.ended) = (self.ended, Some(self.ended));
        state.failure = (self.status == Status::Failed).then(|| self.reason().to_owned());
    }

    /// Why nothing could be measured.
    pub(crate) fn reason(&self) -> &str {
        let failed = self.steps.iter().find_map(|it| it.outcome.as_ref().err());
        let left_out = self.left_out.first().map(|it| it.why.as_str());
        failed.map(Rejection::reason).or(left_out).unwrap_or("nothing was to be tried")
    }

    fn entries(&self) -> Vec<Value> {
        let mut entries = Vec::new();
        let tried = self.steps.iter().filter(|it| it.length != Length::Round);
        tried.for_each(|it| put_entry(&mut entries, step(&self.job, it)));
        entries
    }

    /// What a server that ran already carries.
    fn performance(&self) -> Option<Value> {
        let best = self.ranked.first().and_then(|it| self.steps.get(*it))?;
        let endpoint = self.job.endpoint.as_ref()?;
        let endpoint = json!({ "EndpointName": endpoint });
        Some(json!({ "Metrics": measured(best)?, "EndpointInfo": endpoint }))
    }
}

/// Puts an entry among those of `Steps`. There is one for each setting, in the order of their first trial: what was
/// measured later, for its full time, takes the place of what was seen in a moment.
pub(crate) fn put_entry(entries: &mut Vec<Value>, entry: Value) {
    // What is in effect is not known of one that has failed.
    let setting = |it: &Value| {
        let name = it.pointer("/InferenceBenchmark/EndpointConfiguration/EndpointName");
        name.and_then(Value::as_str).map(str::to_owned)
    };
    match entries.iter_mut().find(|it| setting(it) == setting(&entry)) {
        Some(earlier) => *earlier = entry,
        None => entries.push(entry),
    }
}

/// An entry of `Steps`.
pub(crate) fn step(job: &Job, step: &Step) -> Value {
    let mut benchmark = Map::new();
    match &step.outcome {
        Ok(measured) => {
            benchmark.insert("Metrics".into(), metrics(job, step));
            benchmark.insert("InvocationStartTime".into(), json!(seconds(measured.started)));
            benchmark.insert("InvocationEndTime".into(), json!(seconds(measured.ended)));
        }
        Err(reason) => {
            benchmark
                .insert("FailureReason".into(), json!(shortened(reason.reason(), LONGEST_REASON)));
        }
    }
    if job.endpoint.is_some() {
        benchmark.extend(measured(step).map(|it| ("EndpointMetrics".to_owned(), it)));
    }
    benchmark.insert("EndpointConfiguration".into(), endpoint(job, step));
    benchmark.insert("ModelConfiguration".into(), model(step));
    let status = if step.outcome.is_ok() { "COMPLETED" } else { "FAILED" };
    json!({
        "StepType": "BENCHMARK",
        "JobName": job.name,
        "Status": status,
        "InferenceBenchmark": benchmark,
    })
}

/// An entry of `InferenceRecommendations`.
fn recommendation(job: &Job, step: &Step) -> Value {
    let mut entry = json!({
        "RecommendationId": format!("{}/{}", job.name, word(step)),
        "Metrics": metrics(job, step),
        "EndpointConfiguration": endpoint(job, step),
        "ModelConfiguration": model(step),
    });
    if let Ok(measured) = &step.outcome {
        entry["InvocationStartTime"] = json!(seconds(measured.started));
        entry["InvocationEndTime"] = json!(seconds(measured.ended));
    }
    entry
}

/// A word of eight characters that each setting of a job has for itself.
fn word(step: &Step) -> String {
    let mut hasher = DefaultHasher::new();
    (&step.setting.instance_type, &step.setting.environment).hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

/// `Metrics` of an entry.
pub(crate) fn metrics(job: &Job, step: &Step) -> Value {
    let Some(row) = step.row() else { return json!({}) };
    let target = job.stop.max_invocations;
    let mut metrics = json!({
        "MaxInvocations": row.max_invocations,
        "ModelLatency": row.model_latency,
    });
    if step.setting.instance.price_per_hour.is_some() {
        metrics["CostPerHour"] = json!(row.cost_per_hour(target));
        metrics["CostPerInference"] = json!(row.cost_per_inference());
    }
    let usage = step.outcome.as_ref().ok().and_then(|it| it.window()).and_then(|it| it.server);
    if let Some(usage) = usage {
        metrics["CpuUtilization"] = json!(usage.cores * 100.0);
        if let Some(limit) = Machine::read().memory {
            metrics["MemoryUtilization"] = json!(usage.resident as f64 / limit as f64 * 100.0);
        }
    }
    if let Some(setup) = step.setup {
        metrics["ModelSetupTime"] = json!(setup.as_secs_f64().round() as u64);
    }
    metrics
}

/// `EndpointConfiguration` of an entry.
fn endpoint(job: &Job, step: &Step) -> Value {
    let target = job.stop.max_invocations;
    let count = step.row().and_then(|it| it.instances(target)).unwrap_or(1);
    let name = &step.setting.instance_type;
    let of = |it: &&Configuration| it.instance_type == *name;
    let mut endpoint = json!({
        "EndpointName": endpoint_name(job, step),
        "VariantName": "AllTraffic",
    });
    match job.configurations.iter().find(of).and_then(|it| it.serverless) {
        Some(serverless) => endpoint["ServerlessConfig"] = json!(serverless),
        None => {
            endpoint["InstanceType"] = json!(name);
            endpoint["InitialInstanceCount"] = json!(count);
        }
    }
    endpoint
}

/// The endpoint of a setting. As in the service each has one of its own.
pub(crate) fn endpoint_name(job: &Job, step: &Step) -> String {
    format!("{}-{}", shortened(&job.name, LONGEST_JOB), word(step))
}

/// Throughput and latency of a server that ran already.
fn measured(step: &Step) -> Option<Value> {
    let row = step.row()?;
    Some(json!({ "MaxInvocations": row.max_invocations, "ModelLatency": row.model_latency }))
}

/// The variables of a setting, and what is in effect besides: what the server has found out by itself, or has from the
/// model's configuration.
fn model(step: &Step) -> Value {
    let parameter = |(key, value): (String, String)| json!({ "Key": key, "ValueType": "String", "Value": value });
    let in_effect = step.served.as_ref().map_or_else(Vec::new, Served::variables);
    let parameters = overlaid(&in_effect, &step.setting.environment);
    let is_said = |it: &(String, String)| step.setting.environment.contains(it);
    let (said, found): (Variables, Variables) = parameters.into_iter().partition(is_said);
    let parameters: Vec<Value> = said.into_iter().chain(found).take(MOST).map(parameter).collect();
    match parameters.is_empty() {
        true => json!({}),
        false => json!({ "EnvironmentParameters": parameters }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        prices::Instance,
        setting::Setting,
        trial::Measured,
        windows::{Chosen, tests::window},
    };
    use loadgen::Usage;
    use std::time::{Duration, UNIX_EPOCH};

    fn step(instance_type: &str, price: Option<f64>, per_second: f64, latency: u64) -> Step {
        let mut window = window(4, per_second, latency, 0);
        window.server = Some(Usage { cores: 1.0635, resident: 1 << 20 });
        let measured = Measured {
            started: UNIX_EPOCH,
            ended: UNIX_EPOCH + Duration::from_secs(3),
            samples: vec![window],
            windows: vec![window],
            chosen: Chosen { index: 0, meets: true },
            latency: Duration::from_millis(latency),
            stop: None,
            client_bound: false,
            client_cores: 0.25,
            answers_vary: false,
            answers: Vec::new(),
        };
        Step {
            setting: Setting {
                instance_type: instance_type.to_owned(),
                instance: Instance { cpus: 2, gpu: false, price_per_hour: price },
                environment: vec![("OMP_NUM_THREADS".to_owned(), "2".to_owned())],
            },
            outcome: Ok(measured),
            setup: Some(Duration::from_millis(1600)),
            served: None,
            shares_processors: false,
            command: String::new(),
            length: crate::step::Length::Full,
            rounds: Vec::new(),
        }
    }

    fn done(steps: Vec<Step>, status: Status) -> Done {
        let body = json!({"JobName": "j", "JobType": "Advanced", "InputConfig": {"ModelName": "m"},
                          "StoppingConditions": {"MaxInvocations": 30000}});
        Done {
            job: Job::parse(&body).unwrap(),
            status,
            ranked: (0..steps.len()).filter(|it| steps[*it].outcome.is_ok()).collect(),
            steps,
            noise: None,
            left_out: Vec::new(),
            payload: String::new(),
            time_scale: 1.0,
            currency: Some("USD".to_owned()),
            created: UNIX_EPOCH,
            ended: UNIX_EPOCH,
        }
    }

    #[test]
    fn a_recommendation_has_the_fields_and_formulas_of_the_service() {
        let done =
            done(vec![step("ml.m5.large", Some(0.115), 13_793.0 / 60.0, 19)], Status::Completed);
        let reply = done.describe();
        let first = &reply["InferenceRecommendations"][0];
        let metrics = &first["Metrics"];
        assert_eq!(
            (&metrics["MaxInvocations"], &metrics["ModelLatency"]),
            (&json!(13_793), &json!(19))
        );
        assert!((metrics["CostPerHour"].as_f64().unwrap() - 0.345).abs() < 1e-9);
        let each = metrics["CostPerInference"].as_f64().unwrap();
        assert!((each - 0.115 / (13_793.0 * 60.0)).abs() < 1e-12);
        assert!((metrics["CpuUtilization"].as_f64().unwrap() - 106.35).abs() < 1e-9);
        assert_eq!(metrics["ModelSetupTime"], 2);
        assert_eq!(first["EndpointConfiguration"]["InitialInstanceCount"], 3);
        let parameter = json!({"Key": "OMP_NUM_THREADS", "ValueType": "String", "Value": "2"});
        assert_eq!(first["ModelConfiguration"]["EnvironmentParameters"][0], parameter);
        let id = first["RecommendationId"].as_str().unwrap();
        assert!(id.starts_with("j/") && id.len() == 10, "{id}");
        assert_eq!(reply["Status"], "COMPLETED");
        // 0.139 dollars for a million requests, and 1.0635 cores for 229.9 requests a second.
        let table = done.table();
        assert!(table.contains("| cost/h (USD) | cost/million (USD) | CPU s/million |"), "{table}");
        let row = "| ml.m5.large | 3 | 13793 | 19 | 0.3450 | 0.139 | 4626.3 | 106 |";
        assert!(
            table.contains(row) && table.contains("| 25 | yes | OMP_NUM_THREADS=2 |"),
            "{table}"
        );
        let mut bound = done;
        let first = bound.steps[0].outcome.as_mut().unwrap();
        (first.client_bound, first.client_cores) = (true, 0.93);
        assert!(bound.table().contains("| 93, bound | yes |"), "{}", bound.table());
    }

    #[test]
    fn each_setting_that_was_tried_is_one_step_whatever_came_of_it() {
        let of = |threads: &str, length, outcome: Option<&str>| {
            let mut step = step("local.cpu2", None, 100.0, 5);
            step.length = length;
            step.setting.environment[0].1 = threads.to_owned();
            if let Some(problem) = outcome {
                step.outcome = Err(Rejection::new(problem));
            }
            step
        };
        let steps = vec![
            of("1", Length::Probe, None),
            of("2", Length::Probe, Some("it does not start")),
            of("3", Length::Probe, None),
            of("1", Length::Full, Some("another answer")),
        ];
        let listed = done(steps, Status::Completed).list_steps();
        let seen: Vec<_> = listed["Steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                let benchmark = &it["InferenceBenchmark"];
                let parameters = &benchmark["ModelConfiguration"]["EnvironmentParameters"];
                let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
                let reason = text(&benchmark["FailureReason"]);
                [text(&parameters[0]["Value"]), text(&it["Status"]), reason].join(" ")
            })
            .collect();
        assert_eq!(seen, ["1 FAILED another answer", "2 FAILED it does not start", "3 COMPLETED "]);
    }

    #[test]
    fn what_is_in_effect_comes_back_behind_what_was_tried() {
        let mut tried = step("local.cpu2", None, 100.0, 5);
        tried.served = Some(Served {
            engine: "onnxruntime".to_owned(),
            version: None,
            device: "CPU".to_owned(),
            instances: 2,
            threads: 1,
            rows: 4,
        });
        let mut own = tried.clone();
        own.setting.environment.clear();
        let mut told = own.clone();
        told.setting.environment = tried.served.as_ref().unwrap().variables();
        let done = done(vec![tried, own, told], Status::Completed);
        let listed = done.list_steps();
        let names = |at: usize| -> Vec<String> {
            let benchmark = &listed["Steps"][at]["InferenceBenchmark"];
            let parameters = benchmark["ModelConfiguration"]["EnvironmentParameters"].as_array();
            let text = |it: &Value| {
                format!("{}={}", it["Key"].as_str().unwrap(), it["Value"].as_str().unwrap())
            };
            parameters.unwrap().iter().map(text).collect()
        };
        let found = [
            "MUSTER_DEFAULT_INSTANCE_COUNT=2",
            "MUSTER_DEFAULT_INTRA_OP_THREADS=1",
            "MUSTER_DEFAULT_MAX_BATCH_SIZE=4",
        ];
        assert_eq!(names(0), [&["OMP_NUM_THREADS=2"][..], &found].concat());
        // The server's own settings and those that say the same are two.
        assert_eq!(
            (names(1), names(2)),
            (found.map(str::to_owned).into(), found.map(str::to_owned).into())
        );
    }

    #[test]
    fn without_a_price_there_is_no_cost_and_a_failed_job_says_why() {
        let steps = vec![step("local.cpu2", None, 100.0, 5)];
        let first = done(steps, Status::Completed).describe();
        assert!(first.pointer("/InferenceRecommendations/0/Metrics/CostPerHour").is_none());
        let mut failed = step("local.cpu2", None, 100.0, 5);
        failed.outcome = Err(Rejection::new("payload 'a.csv': status 400"));
        let done = done(vec![failed], Status::Failed);
        let reply = done.describe();
        assert_eq!(
            (&reply["Status"], &reply["FailureReason"]),
            (&json!("FAILED"), &json!("payload 'a.csv': status 400"))
        );
        let step = &done.list_steps()["Steps"][0];
        assert_eq!((&step["Status"], &step["StepType"]), (&json!("FAILED"), &json!("BENCHMARK")));
        assert!(step["InferenceBenchmark"]["Metrics"].is_null());
    }
}

//! A job, done: a server for each setting, and what came of it.

use std::time::SystemTime;

use crate::{
    bench::Bench,
    difference::Difference,
    job::{Configuration, Job, Kind},
    job_state::JobStatus,
    journal::Journal,
    left_out::LeftOut,
    means::Means,
    payload,
    prices::Instance,
    ranking::{self, Row},
    step::{Step, prefer_automatic},
};

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All was tried.
    Completed,
    /// Its time was over, or it was asked to stop.
    Stopped,
    /// Nothing could be measured.
    Failed,
}

/// A job that is over.
#[derive(Debug, Clone)]
pub struct Done {
    /// What was asked for.
    pub job: Job,
    /// How it ended.
    pub status: Status,
    /// All steps in the order of their trial, failed ones and probes included.
    pub steps: Vec<Step>,
    /// How a setting of an advanced job differs from itself, where that was measured.
    pub(crate) noise: Option<Difference>,
    /// What was not measured.
    pub left_out: Vec<LeftOut>,
    /// Places of steps that can be recommended, the best first.
    pub ranked: Vec<usize>,
    /// What was sent, in words.
    pub payload: String,
    /// By what the times of loads were divided.
    pub time_scale: f64,
    /// What prices are in, where that is known.
    pub currency: Option<String>,
    /// When it began.
    pub created: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
}

/// Does a job; blocks until it is over. `journal` has what an earlier program has measured of it, and keeps what is
/// measured. `say` is told each thing that happens, a line each.
pub fn go_on(job: Job, means: &Means, journal: Journal, say: &mut dyn FnMut(&str)) -> Done {
    let created = journal.created().unwrap_or_else(SystemTime::now);
    job.warnings.iter().for_each(|it| say(&format!("WARNING {it}")));
    let mut bench = Bench::new(&job, means, journal, say);
    if let Some(endpoint) = &job.endpoint {
        bench.endpoint(endpoint);
    }
    let mut machine = |it: &'_ Configuration| bench.machine(it);
    let machines: Vec<(&Configuration, Instance)> =
        job.configurations.iter().filter_map(|it| Some((it, machine(it)?))).collect();
    match job.kind {
        Kind::Advanced => bench.advanced(&machines),
        Kind::Default => bench.search(&machines),
    }
    let Bench { steps, noise, left_out, was_stopped, journal, say, .. } = bench;
    let full: Vec<usize> = (0..steps.len())
        .filter(|it| steps.get(*it).is_some_and(|it| it.is_full() && it.outcome.is_ok()))
        .collect();
    let rows: Vec<Row> = full.iter().filter_map(|it| steps.get(*it)?.row()).collect();
    let order = ranking::ranking(&rows, means.objective, job.stop.max_invocations);
    let mut ranked: Vec<usize> = order.into_iter().filter_map(|it| full.get(it).copied()).collect();
    prefer_automatic(&steps, &mut ranked, job.stop.max_invocations);
    let status = match (was_stopped, ranked.is_empty()) {
        (true, _) => Status::Stopped,
        (false, true) => Status::Failed,
        (false, false) => Status::Completed,
    };
    let kept = journal.end(match status {
        Status::Completed => JobStatus::Completed,
        Status::Stopped => JobStatus::Stopped,
        Status::Failed => JobStatus::Failed,
    });
    if let Err(problem) = kept {
        say(&format!("WARNING the job's state: {problem}"));
    }
    // The clock may have been set in the meantime.
    let ended = SystemTime::now().max(created);
    let currency = means.prices.currency.clone();
    let (payload, time_scale) = (payload::described(&means.bodies), means.time_scale);
    Done {
        job,
        status,
        steps,
        noise,
        left_out,
        ranked,
        payload,
        time_scale,
        currency,
        created,
        ended,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{prices::Prices, ranking::Objective, shares::Places, watch::Watch};

    #[test]
    fn an_endpoint_without_servers_is_a_step_that_has_failed_and_says_what_to_name_instead() {
        let serverless = json!({"MemorySizeInMB": 2048, "MaxConcurrency": 20});
        let body = json!({"JobName": "j", "JobType": "Advanced", "RoleArn": "r", "InputConfig": {"ModelName": "m",
            "EndpointConfigurations": [{"ServerlessConfig": serverless}, {"InstanceType": "local.cpu9999"}]}});
        let means = Means {
            program: "no/such/program".into(),
            prices: Prices::default(),
            places: Places::default(),
            bodies: Vec::new(),
            time_scale: 1.0,
            stop: Default::default(),
            objective: Objective::Cost,
            environment: Vec::new(),
            trust: Default::default(),
            has_lists: false,
            watch: Watch::default(),
        };
        let job = Job::parse(&body).unwrap();
        let steps = go_on(job, &means, Journal::default(), &mut |_| ()).list_steps();
        let benchmark = |at: usize| &steps["Steps"][at]["InferenceBenchmark"];
        let reason = benchmark(0)["FailureReason"].as_str().unwrap();
        assert!(
            reason.starts_with("serverless") && reason.contains("name an InstanceType"),
            "{reason}"
        );
        let endpoint = &benchmark(0)["EndpointConfiguration"];
        assert_eq!(endpoint["ServerlessConfig"], serverless);
        assert!(endpoint.get("InstanceType").is_none(), "{endpoint}");
        // The others have their turn.
        assert_eq!(benchmark(1)["EndpointConfiguration"]["InstanceType"], "local.cpu9999");
        assert_eq!(steps["Steps"].as_array().unwrap().len(), 2);
    }
}

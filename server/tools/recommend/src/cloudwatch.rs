//! The windows of a job as requests of CloudWatch's `PutMetricData`, under the names that SageMaker's own jobs have
//! there. Pure.

use loadgen::Interval;
use serde_json::{Value, json};

use crate::{
    describe::endpoint_name, job::Job, job_state::seconds, run::Done, step::Step, trial::Measured,
};

const NAMESPACE: &str = "/aws/sagemaker/InferenceRecommendationsJobs";
/// Most values of one request.
const MOST: usize = 1000;

impl Done {
    /// The requests in their order, each with as many values as one may have.
    pub(crate) fn put_metric_data(&self) -> Value {
        let measured = self.steps.iter().filter_map(|it| Some((it, it.outcome.as_ref().ok()?)));
        let values: Vec<Value> = measured
            .flat_map(|(step, measured)| {
                measured.windows.iter().flat_map(|it| data(&self.job, step, measured, it))
            })
            .collect();
        let request = |it: &[Value]| json!({ "Namespace": NAMESPACE, "MetricData": it });
        values.chunks(MOST).map(request).collect()
    }
}

/// The values of a window. It is as long as the time between two points.
fn data(job: &Job, step: &Step, measured: &Measured, window: &Interval) -> Vec<Value> {
    let endpoint = job.endpoint.clone().unwrap_or_else(|| endpoint_name(job, step));
    let dimensions = json!([
        { "Name": "JobName", "Value": job.name },
        { "Name": "EndpointName", "Value": endpoint },
    ]);
    let at = seconds(measured.started) + window.end.as_secs_f64();
    let latency = window.latency.mean.as_secs_f64() * 1e3;
    let all = [
        ("ClientInvocations", window.requests as f64, "Count"),
        ("ClientInvocationErrors", window.errors as f64, "Count"),
        ("NumberOfUsers", window.users as f64, "Count"),
        ("ClientLatency", latency, "Milliseconds"),
    ];
    // Where nothing was answered there is no latency.
    let all = all.iter().filter(|it| it.2 != "Milliseconds" || window.ok() > 0);
    all.map(|(name, value, unit)| {
        json!({
            "MetricName": name,
            "Dimensions": dimensions,
            "Timestamp": at,
            "Value": value,
            "Unit": unit,
        })
    })
    .collect()
}

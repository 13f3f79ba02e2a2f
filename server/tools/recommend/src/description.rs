//! The reply to `DescribeInferenceRecommendationsJob`, from the state of a job. Pure.

use serde_json::{Map, Value, json};

use crate::{
    arn::{ROLE, job_arn},
    job_state::{JobState, seconds},
    words::shortened,
};

/// Longest reason of a failure.
pub const LONGEST_REASON: usize = 1024;

/// The reply. What is not known is left out.
pub fn describe(job: &JobState) -> Value {
    let mut reply = Map::new();
    let mut put = |name: &str, value: Value| {
        let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            reply.insert(name.to_owned(), value);
        }
    };
    let given = |name: &str| job.request.get(name).cloned().unwrap_or_default();
    let name = given("JobName").as_str().unwrap_or_default().to_owned();
    put("JobName", json!(name));
    put("JobDescription", given("JobDescription"));
    put("JobType", given("JobType"));
    put("JobArn", json!(job_arn(&name)));
    let role = given("RoleArn");
    put("RoleArn", if role.is_null() { json!(ROLE) } else { role });
    put("Status", json!(job.status.name()));
    put("CreationTime", json!(seconds(job.created)));
    put("CompletionTime", json!(job.ended.map(seconds)));
    put("LastModifiedTime", json!(seconds(job.modified)));
    let reason = job.failure.as_ref().map(|it| shortened(it, LONGEST_REASON));
    put("FailureReason", json!(reason));
    put("InputConfig", given("InputConfig"));
    put("StoppingConditions", given("StoppingConditions"));
    put("InferenceRecommendations", json!(job.recommendations));
    put("EndpointPerformances", json!(job.performances));
    Value::Object(reply)
}

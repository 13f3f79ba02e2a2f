//! A job in the words of `CreateInferenceRecommendationsJob`: what a body would say that asks for it. Pure.

use loadgen::{Percentile, Stairs, Traffic};
use serde_json::{Map, Value, json};

use crate::job::{Configuration, Job, Kind};

/// `InputConfig`.
pub(crate) fn input_config(job: &Job) -> Value {
    let mut input = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        input.extend(value.map(|it| (name.to_owned(), it)));
    };
    put("ModelName", job.model.as_ref().map(|it| json!(it)));
    put("Endpoints", job.endpoint.as_ref().map(|it| json!([{ "EndpointName": it }])));
    put("JobDurationInSeconds", job.duration.map(|it| json!(it.as_secs())));
    put("TrafficPattern", job.traffic.as_ref().map(pattern));
    let limit =
        json!({ "MaxNumberOfTests": job.most_tests, "MaxParallelOfTests": job.most_parallel });
    put("ResourceLimit", (job.kind == Kind::Advanced).then_some(limit));
    let configurations: Vec<Value> = job.configurations.iter().map(configuration).collect();
    put("EndpointConfigurations", (!configurations.is_empty()).then(|| json!(configurations)));
    let payload = job
        .payload
        .as_ref()
        .map(|it| json!({ "SamplePayloadUrl": it, "SupportedContentTypes": job.content_types }));
    put("ContainerConfig", payload.map(|it| json!({ "PayloadConfig": it })));
    Value::Object(input)
}

/// `StoppingConditions`; `None` where there are none.
pub(crate) fn stopping_conditions(job: &Job) -> Option<Value> {
    let mut conditions = Map::new();
    if let Some(invocations) = job.stop.max_invocations {
        conditions.insert("MaxInvocations".to_owned(), json!(invocations));
    }
    if let Some(threshold) = job.stop.threshold {
        let percentile = match threshold.percentile {
            Percentile::P95 => "P95",
            Percentile::P99 => "P99",
        };
        let milliseconds = threshold.latency.as_millis() as u64;
        let given = json!([{ "Percentile": percentile, "ValueInMilliseconds": milliseconds }]);
        conditions.insert("ModelLatencyThresholds".to_owned(), given);
    }
    if job.stop.continue_flat {
        conditions.insert("FlatInvocations".to_owned(), json!("Continue"));
    }
    (!conditions.is_empty()).then_some(Value::Object(conditions))
}

fn pattern(traffic: &Traffic) -> Value {
    match traffic {
        Traffic::Phases(phases) => {
            let phases: Vec<Value> = phases
                .iter()
                .map(|it| {
                    json!({
                        "InitialNumberOfUsers": it.initial_users,
                        "SpawnRate": number(it.spawn_rate),
                        "DurationInSeconds": number(it.duration.as_secs_f64()),
                    })
                })
                .collect();
            json!({ "TrafficType": "PHASES", "Phases": phases })
        }
        Traffic::Stairs(Stairs { users_per_step, steps, duration }) => json!({
            "TrafficType": "STAIRS",
            "Stairs": {
                "DurationInSeconds": number(duration.as_secs_f64()),
                "NumberOfSteps": steps,
                "UsersPerStep": users_per_step,
            },
        }),
    }
}

/// A whole number as the API has it. A command line may say a fraction, which the API has no word for.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        true => json!(value as u64),
        false => json!(value),
    }
}

fn configuration(it: &Configuration) -> Value {
    let range = |(name, values): &(String, Vec<String>)| json!({ "Name": name, "Value": values });
    let ranges: Vec<Value> = it.ranges.iter().map(range).collect();
    let mut configuration = json!({ "InstanceType": it.instance_type });
    if !ranges.is_empty() {
        configuration["EnvironmentParameterRanges"] =
            json!({ "CategoricalParameterRanges": ranges });
    }
    configuration
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_job_ask_for_it_again() {
        let phases = json!({"TrafficType": "PHASES", "Phases": [
            {"InitialNumberOfUsers": 2, "SpawnRate": 2, "DurationInSeconds": 120}]});
        let stairs = json!({"TrafficType": "STAIRS",
            "Stairs": {"DurationInSeconds": 9, "NumberOfSteps": 2, "UsersPerStep": 3}});
        for pattern in [phases, stairs] {
            let mut body = json!({"JobName": "j", "JobType": "Advanced",
              "InputConfig": {"ModelName": "m", "JobDurationInSeconds": 60, "TrafficPattern": pattern,
                "ResourceLimit": {"MaxNumberOfTests": 4, "MaxParallelOfTests": 2},
                "EndpointConfigurations": [{"InstanceType": "local.cpu1",
                  "EnvironmentParameterRanges": {"CategoricalParameterRanges": [{"Name": "A", "Value": ["1", "2"]}]}}],
                "ContainerConfig": {"PayloadConfig": {
                  "SamplePayloadUrl": "p", "SupportedContentTypes": ["text/csv"]}}},
              "StoppingConditions": {"MaxInvocations": 30000, "FlatInvocations": "Continue",
                "ModelLatencyThresholds": [{"Percentile": "P99", "ValueInMilliseconds": 100}]}});
            let job = Job::parse(&body).unwrap();
            assert_eq!(input_config(&job), body["InputConfig"]);
            assert_eq!(stopping_conditions(&job).unwrap(), body["StoppingConditions"]);
            body["StoppingConditions"] = json!({});
            assert_eq!(stopping_conditions(&Job::parse(&body).unwrap()), None);
        }
    }
}

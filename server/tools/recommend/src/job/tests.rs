//! Which jobs are understood, which are refused, and of what they warn.

use super::*;
use serde_json::json;

/// The advanced job of Amazon's article on fraud detection.
fn fraud() -> Value {
    json!({"JobName": "fraud-advanced", "JobType": "Advanced", "RoleArn": "arn:aws:iam::111111111111:role/x",
      "InputConfig": {"ModelName": "fraud", "JobDurationInSeconds": 7200,
        "TrafficPattern": {"TrafficType": "PHASES", "Phases": [
          {"InitialNumberOfUsers": 2, "SpawnRate": 2, "DurationInSeconds": 120},
          {"InitialNumberOfUsers": 6, "SpawnRate": 6, "DurationInSeconds": 120}]},
        "ResourceLimit": {"MaxNumberOfTests": 10, "MaxParallelOfTests": 3},
        "EndpointConfigurations": [{"InstanceType": "ml.m5.4xlarge",
          "EnvironmentParameterRanges": {"CategoricalParameterRanges": [
            {"Name": "OMP_NUM_THREADS", "Value": ["3", "4", "5"]}]}}]},
      "StoppingConditions": {"MaxInvocations": 30000,
        "ModelLatencyThresholds": [{"Percentile": "P95", "ValueInMilliseconds": 100}]}})
}

#[test]
fn the_job_of_the_article_is_understood_and_its_breaches_are_named() {
    let job = Job::parse(&fraud()).unwrap();
    assert_eq!((job.kind, job.model.as_deref()), (Kind::Advanced, Some("fraud")));
    assert_eq!(job.traffic.as_ref().unwrap().most_users(), 17);
    assert_eq!(job.stop.max_invocations, Some(30_000));
    let latency = Duration::from_millis(100);
    assert_eq!(job.stop.threshold, Some(Threshold { percentile: Percentile::P95, latency }));
    let range = ("OMP_NUM_THREADS".to_owned(), ["3", "4", "5"].map(str::to_owned).to_vec());
    assert_eq!(job.configurations[0].ranges, [range]);
    assert_eq!((job.most_tests, job.most_parallel), (10, 3));
    // Its second phase has six users and adds six a minute.
    assert_eq!(job.warnings.len(), 2, "{:?}", job.warnings);
    assert!(job.warnings[0].starts_with("InitialNumberOfUsers: 6"), "{:?}", job.warnings);
}

#[test]
fn what_the_guide_does_not_allow_is_a_warning_that_names_its_field() {
    let warnings = |phases: Value| {
        let mut body = fraud();
        body["InputConfig"]["TrafficPattern"]["Phases"] = phases;
        Job::parse(&body).unwrap().warnings
    };
    let phase = |users: u64, rate: u64| json!({"InitialNumberOfUsers": users, "SpawnRate": rate, "DurationInSeconds": 120});
    // From 1 to 3 users, then from 3 to 7.
    assert!(warnings(json!([phase(1, 1), phase(3, 2)])).is_empty());
    let far = warnings(json!([phase(3, 3), phase(3, 1)]));
    let expected = "InitialNumberOfUsers: 3 is more than 3 away from 9, the last phase's end";
    assert!(far.len() == 1 && far[0].starts_with(expected), "{far:?}");
    let level = warnings(json!([phase(2, 0)]));
    assert!(
        level.len() == 1 && level[0].starts_with("Phases: one ends with the 2 users"),
        "{level:?}"
    );
    let mut body = fraud();
    body["InputConfig"]["TrafficPattern"] = json!({"TrafficType": "STAIRS",
        "Stairs": {"DurationInSeconds": 60, "NumberOfSteps": 2, "UsersPerStep": 4}});
    body["InputConfig"]["EndpointConfigurations"][0]["InstanceType"] = json!("ml.t2.large");
    let said = Job::parse(&body).unwrap().warnings.join(" ");
    assert!(
        said.contains("UsersPerStep: 4") && said.contains("InstanceType: ml.t2.large"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_done_names_its_field() {
    for (pointer, value, expected) in [
        ("/JobName", json!("-x"), "JobName: expected 1 to 64"),
        ("/JobType", json!("Custom"), "expected `Default` or `Advanced`"),
        ("/InputConfig/ModelName", Value::Null, "expected ModelName"),
        ("/InputConfig/TrafficPattern/TrafficType", json!("WAVES"), "given WAVES"),
        ("/InputConfig/TrafficPattern/Phases", json!([]), "one phase or more"),
        ("/InputConfig/TrafficPattern/Phases/0/InitialNumberOfUsers", json!(0), "1 user or more"),
        ("/InputConfig/ResourceLimit/MaxNumberOfTests", json!(0), "ResourceLimit"),
        ("/InputConfig/EndpointConfigurations/0/InstanceType", Value::Null, "given neither"),
        ("/StoppingConditions/ModelLatencyThresholds/0/Percentile", json!("P50"), "given P50"),
        ("/InputConfig/JobDurationInSeconds", json!(u64::MAX), "a week"),
        (
            "/InputConfig/EndpointConfigurations/0/EnvironmentParameterRanges/CategoricalParameterRanges/0/Value",
            json!([]),
            "OMP_NUM_THREADS: expected a value",
        ),
        ("/StoppingConditions/MaxInvocations", json!(-1), "u64"),
        ("/StoppingConditions/MaxInvocations", json!(0), "expected 1 or more, given 0"),
        (
            "/StoppingConditions/ModelLatencyThresholds/0/ValueInMilliseconds",
            json!(0),
            "expected 1 or more, given 0",
        ),
    ] {
        let mut body = fraud();
        *body.pointer_mut(pointer).unwrap() = value;
        let error = Job::parse(&body).unwrap_err().to_string();
        assert!(error.contains(expected), "{pointer}: {error}");
    }
}

#[test]
fn instance_types_of_the_container_are_configurations_where_none_is_given() {
    let mut body = fraud();
    body["InputConfig"]["EndpointConfigurations"] = json!([]);
    body["InputConfig"]["ContainerConfig"] = json!({"SupportedInstanceTypes": ["local.cpu1", "local.cpu2"],
               "PayloadConfig": {"SamplePayloadUrl": "file:///x.tar.gz", "SupportedContentTypes": ["text/csv"]}});
    let job = Job::parse(&body).unwrap();
    let names: Vec<_> = job.configurations.iter().map(|it| it.instance_type.as_str()).collect();
    assert_eq!(names, ["local.cpu1", "local.cpu2"]);
    assert_eq!(job.payload.as_deref(), Some("file:///x.tar.gz"));
}

#[test]
fn an_entry_without_servers_is_read_and_is_no_machine() {
    let mut body = fraud();
    let serverless = json!({"ServerlessConfig": {"MemorySizeInMB": 2048, "MaxConcurrency": 20}});
    let mut ready = serverless.clone();
    ready["ServerlessConfig"]["ProvisionedConcurrency"] = json!(5);
    let entries = body["InputConfig"]["EndpointConfigurations"].as_array_mut().unwrap();
    entries.extend([ready, serverless.clone()]);
    let job = Job::parse(&body).unwrap();
    assert_eq!(job.machines(), ["ml.m5.4xlarge"]);
    assert_eq!(job.configurations[1].instance_type, "serverless, 2048 MB, 20 at a time, 5 ready");
    let last = job.configurations.last().unwrap();
    assert_eq!(last.instance_type, "serverless, 2048 MB, 20 at a time");
    assert_eq!(json!(last.serverless), serverless["ServerlessConfig"]);
    body["InputConfig"]["EndpointConfigurations"][1]["InstanceType"] = json!("local.cpu1");
    assert!(Job::parse(&body).unwrap_err().to_string().contains("given both"));
}

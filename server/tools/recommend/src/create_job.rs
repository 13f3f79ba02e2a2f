//! The body of `CreateInferenceRecommendationsJob`, as the service model of botocore 1.44 has it. Fields that only
//! Amazon's side needs are read over.

use serde::{Deserialize, Serialize};

/// What a job looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Kind {
    /// The best settings.
    Default,
    /// What given settings carry under a given load.
    Advanced,
}

/// The whole body.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct CreateJob {
    pub(crate) job_name: String,
    pub(crate) job_type: Kind,
    pub(crate) input_config: Input,
    pub(crate) stopping_conditions: Option<Stopping>,
}

/// `InputConfig`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Input {
    pub(crate) model_name: Option<String>,
    pub(crate) model_package_version_arn: Option<String>,
    pub(crate) job_duration_in_seconds: Option<u64>,
    pub(crate) traffic_pattern: Option<Pattern>,
    pub(crate) resource_limit: Option<Limit>,
    #[serde(default)]
    pub(crate) endpoint_configurations: Vec<Endpoint>,
    pub(crate) container_config: Option<Container>,
    #[serde(default)]
    pub(crate) endpoints: Vec<Running>,
}

/// `TrafficPattern`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Pattern {
    pub(crate) traffic_type: Option<String>,
    #[serde(default)]
    pub(crate) phases: Vec<PatternPhase>,
    pub(crate) stairs: Option<PatternStairs>,
}

/// One of `Phases`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PatternPhase {
    pub(crate) initial_number_of_users: u64,
    pub(crate) spawn_rate: u64,
    pub(crate) duration_in_seconds: u64,
}

/// `Stairs`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PatternStairs {
    pub(crate) duration_in_seconds: u64,
    pub(crate) number_of_steps: u64,
    pub(crate) users_per_step: u64,
}

/// `ResourceLimit`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Limit {
    pub(crate) max_number_of_tests: Option<usize>,
    pub(crate) max_parallel_of_tests: Option<usize>,
}

/// One of `EndpointConfigurations`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Endpoint {
    pub(crate) instance_type: Option<String>,
    pub(crate) serverless_config: Option<Serverless>,
    pub(crate) environment_parameter_ranges: Option<Ranges>,
}

/// `ServerlessConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Serverless {
    /// Memory of a copy.
    #[serde(rename = "MemorySizeInMB")]
    pub memory_size_in_mb: u64,
    /// Requests at a time.
    pub max_concurrency: u64,
    /// Copies that wait for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned_concurrency: Option<u64>,
}

/// `EnvironmentParameterRanges`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Ranges {
    #[serde(default)]
    pub(crate) categorical_parameter_ranges: Vec<Range>,
}

/// One of `CategoricalParameterRanges`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Range {
    pub(crate) name: String,
    pub(crate) value: Vec<String>,
}

/// `ContainerConfig`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Container {
    pub(crate) payload_config: Option<Payload>,
    #[serde(default)]
    pub(crate) supported_instance_types: Vec<String>,
}

/// `PayloadConfig`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Payload {
    pub(crate) sample_payload_url: Option<String>,
    #[serde(default)]
    pub(crate) supported_content_types: Vec<String>,
}

/// One of `Endpoints`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Running {
    pub(crate) endpoint_name: Option<String>,
}

/// `StoppingConditions`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Stopping {
    pub(crate) max_invocations: Option<u64>,
    #[serde(default)]
    pub(crate) model_latency_thresholds: Vec<Latency>,
    pub(crate) flat_invocations: Option<String>,
}

/// One of `ModelLatencyThresholds`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Latency {
    pub(crate) percentile: String,
    pub(crate) value_in_milliseconds: u64,
}

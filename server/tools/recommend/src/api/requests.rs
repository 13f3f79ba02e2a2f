//! The requests of the operations, as the service models of botocore 1.44 have them. Ranges that exist to protect
//! Amazon's side are wider: names of models and endpoints may be paths and addresses. Lists that have no end there have
//! one, so that what a client makes the server keep is bounded.

use super::shape::{
    Member,
    Need::{Optional, Required},
    Shape::{self, Choice, Flag, List, Map, Name, Number, Structure, Text, Whole},
};

/// Entries of a list that the service has no bound for.
const MANY: usize = 100;
/// Characters of a text that the service has no bound for.
const LONG: usize = 256;
/// Characters of a path or an address.
const ADDRESS: usize = 1024;
/// The largest whole number.
const MOST: i64 = i32::MAX as i64;

const JOB_NAME: Shape = Name(64);
const STATUS: Shape = Choice(&[
    "PENDING",
    "IN_PROGRESS",
    "COMPLETED",
    "FAILED",
    "STOPPING",
    "STOPPED",
    "DELETING",
    "DELETED",
]);
const LOCATION: Shape = Text(0, ADDRESS);
const ARN: Shape = Text(0, 2048);
const TOKEN: Shape = Text(0, 8192);
const PAGE: Shape = Whole(1, 100);
const TAGS: Shape = List(
    0,
    50,
    &Structure(&[Member("Key", Required, Text(1, 128)), Member("Value", Required, Text(0, 256))]),
);
const NETWORK: Shape = Structure(&[
    Member("SecurityGroupIds", Required, List(1, 5, &Text(0, 32))),
    Member("Subnets", Required, List(1, 16, &Text(0, 32))),
]);

/// Operations that name a job and nothing else.
pub(super) const JOB: Shape = Structure(&[Member("JobName", Required, JOB_NAME)]);

/// Operations that name a model and nothing else.
pub(super) const MODEL: Shape = Structure(&[Member("ModelName", Required, LOCATION)]);

/// `CreateInferenceRecommendationsJob`.
pub(super) const CREATE_JOB: Shape = Structure(&[
    Member("JobName", Required, JOB_NAME),
    Member("JobType", Required, Choice(&["Default", "Advanced"])),
    Member("RoleArn", Optional, ARN),
    Member("InputConfig", Required, INPUT),
    Member("JobDescription", Optional, Text(0, 128)),
    Member("StoppingConditions", Optional, STOPPING),
    Member("OutputConfig", Optional, OUTPUT),
    Member("Tags", Optional, TAGS),
]);

const INPUT: Shape = Structure(&[
    Member("ModelPackageVersionArn", Optional, Text(1, 2048)),
    Member("ModelName", Optional, LOCATION),
    Member("JobDurationInSeconds", Optional, Whole(1, MOST)),
    Member("TrafficPattern", Optional, TRAFFIC),
    Member("ResourceLimit", Optional, RESOURCES),
    Member("EndpointConfigurations", Optional, List(1, 10, &CONFIGURATION)),
    Member("VolumeKmsKeyId", Optional, ARN),
    Member("ContainerConfig", Optional, CONTAINER_CONFIG),
    Member(
        "Endpoints",
        Optional,
        List(0, 1, &Structure(&[Member("EndpointName", Optional, LOCATION)])),
    ),
    Member("VpcConfig", Optional, NETWORK),
]);

const TRAFFIC: Shape = Structure(&[
    Member("TrafficType", Optional, Choice(&["PHASES", "STAIRS"])),
    Member(
        "Phases",
        Optional,
        List(
            1,
            MANY,
            &Structure(&[
                Member("InitialNumberOfUsers", Required, Whole(1, MOST)),
                Member("SpawnRate", Required, Whole(0, MOST)),
                Member("DurationInSeconds", Required, Whole(1, MOST)),
            ]),
        ),
    ),
    Member(
        "Stairs",
        Optional,
        Structure(&[
            Member("DurationInSeconds", Required, Whole(1, MOST)),
            Member("NumberOfSteps", Required, Whole(1, MOST)),
            Member("UsersPerStep", Required, Whole(1, 3)),
        ]),
    ),
]);

const RESOURCES: Shape = Structure(&[
    Member("MaxNumberOfTests", Optional, Whole(1, MOST)),
    Member("MaxParallelOfTests", Optional, Whole(1, MOST)),
]);

const CONFIGURATION: Shape = Structure(&[
    Member("InstanceType", Optional, Text(1, LONG)),
    Member(
        "ServerlessConfig",
        Optional,
        Structure(&[
            Member("MemorySizeInMB", Required, Whole(1024, 6144)),
            Member("MaxConcurrency", Required, Whole(1, 200)),
            Member("ProvisionedConcurrency", Optional, Whole(1, 200)),
        ]),
    ),
    Member("InferenceSpecificationName", Optional, Name(63)),
    Member(
        "EnvironmentParameterRanges",
        Optional,
        Structure(&[Member(
            "CategoricalParameterRanges",
            Optional,
            List(
                1,
                5,
                &Structure(&[
                    Member("Name", Required, Text(0, 64)),
                    Member("Value", Required, List(1, 3, &Text(0, 128))),
                ]),
            ),
        )]),
    ),
]);

const CONTAINER_CONFIG: Shape = Structure(&[
    Member("Domain", Optional, Text(0, LONG)),
    Member("Task", Optional, Text(0, LONG)),
    Member("Framework", Optional, Text(0, LONG)),
    Member("FrameworkVersion", Optional, Text(3, 10)),
    Member(
        "PayloadConfig",
        Optional,
        Structure(&[
            Member("SamplePayloadUrl", Optional, LOCATION),
            Member("SupportedContentTypes", Optional, List(0, MANY, &Text(0, LONG))),
        ]),
    ),
    Member("NearestModelName", Optional, Text(0, LONG)),
    Member("SupportedInstanceTypes", Optional, List(0, MANY, &Text(0, LONG))),
    Member("SupportedEndpointType", Optional, Choice(&["RealTime", "Serverless"])),
    Member("DataInputConfig", Optional, Text(1, 1024)),
    Member("SupportedResponseMIMETypes", Optional, List(0, MANY, &Text(0, 1024))),
]);

const STOPPING: Shape = Structure(&[
    Member("MaxInvocations", Optional, Whole(0, MOST)),
    Member(
        "ModelLatencyThresholds",
        Optional,
        List(
            1,
            1,
            &Structure(&[
                Member("Percentile", Required, Choice(&["P95", "P99"])),
                Member("ValueInMilliseconds", Required, Whole(1, MOST)),
            ]),
        ),
    ),
    Member("FlatInvocations", Optional, Choice(&["Continue", "Stop"])),
]);

const OUTPUT: Shape = Structure(&[
    Member("KmsKeyId", Optional, ARN),
    Member(
        "CompiledOutputConfig",
        Optional,
        Structure(&[Member("S3OutputUri", Optional, LOCATION)]),
    ),
]);

/// `ListInferenceRecommendationsJobs`.
pub(super) const LIST_JOBS: Shape = Structure(&[
    Member("CreationTimeAfter", Optional, Number),
    Member("CreationTimeBefore", Optional, Number),
    Member("LastModifiedTimeAfter", Optional, Number),
    Member("LastModifiedTimeBefore", Optional, Number),
    Member("NameContains", Optional, Text(0, 63)),
    Member("StatusEquals", Optional, STATUS),
    Member("SortBy", Optional, Choice(&["Name", "CreationTime", "Status"])),
    Member("SortOrder", Optional, Choice(&["Ascending", "Descending"])),
    Member("NextToken", Optional, TOKEN),
    Member("MaxResults", Optional, PAGE),
    Member("ModelNameEquals", Optional, LOCATION),
    Member("ModelPackageVersionArnEquals", Optional, Text(1, 2048)),
]);

/// `ListInferenceRecommendationsJobSteps`.
pub(super) const LIST_STEPS: Shape = Structure(&[
    Member("JobName", Required, JOB_NAME),
    Member("Status", Optional, STATUS),
    Member("StepType", Optional, Choice(&["BENCHMARK"])),
    Member("MaxResults", Optional, PAGE),
    Member("NextToken", Optional, TOKEN),
]);

/// `CreateModel`.
pub(super) const CREATE_MODEL: Shape = Structure(&[
    Member("ModelName", Required, Name(63)),
    Member("PrimaryContainer", Optional, CONTAINER),
    Member("Containers", Optional, List(0, 15, &CONTAINER)),
    Member("ExecutionRoleArn", Optional, ARN),
    Member("Tags", Optional, TAGS),
    Member("VpcConfig", Optional, NETWORK),
    Member("EnableNetworkIsolation", Optional, Flag),
]);

const CONTAINER: Shape = Structure(&[
    Member("ContainerHostname", Optional, Text(0, 63)),
    Member("Image", Optional, Text(0, 255)),
    Member("Mode", Optional, Choice(&["SingleModel", "MultiModel"])),
    Member("ModelDataUrl", Optional, LOCATION),
    Member(
        "ModelDataSource",
        Optional,
        Structure(&[Member(
            "S3DataSource",
            Optional,
            Structure(&[
                Member("S3Uri", Required, LOCATION),
                Member("S3DataType", Required, Choice(&["S3Prefix", "S3Object"])),
                Member("CompressionType", Required, Choice(&["None", "Gzip"])),
            ]),
        )]),
    ),
    Member("Environment", Optional, Map(100, 1024)),
    Member("ModelPackageName", Optional, Text(1, 176)),
    Member("InferenceSpecificationName", Optional, Name(63)),
]);

/// `GetLogEvents` of CloudWatch Logs.
pub(super) const LOG_EVENTS: Shape = Structure(&[
    Member("logGroupName", Optional, Text(1, 512)),
    Member("logGroupIdentifier", Optional, Text(1, 2048)),
    Member("logStreamName", Required, Text(1, 512)),
    Member("startTime", Optional, Whole(0, i64::MAX)),
    Member("endTime", Optional, Whole(0, i64::MAX)),
    Member("nextToken", Optional, Text(1, 100)),
    Member("limit", Optional, Whole(1, 10_000)),
    Member("startFromHead", Optional, Flag),
]);

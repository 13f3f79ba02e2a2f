//! SageMaker's operations on jobs and models, by `muster recommend --serve` and by `muster serve --aws-facade`. The
//! clients themselves are in `clients.rs`.

use std::{fs, net::SocketAddr, process::Command};

use serde_json::{Value, json};

use crate::support::{Client, Process, Reply, Repository, root, wait_for, with_tools};

/// A recommender that runs.
pub struct Recommender {
    process: Process,
    address: SocketAddr,
    /// What the server serves that it is part of.
    _models: Option<Repository>,
}

impl Recommender {
    /// Over the jobs below this repository.
    #[track_caller]
    pub fn start(repository: &Repository) -> Recommender {
        let jobs = format!("--jobs={}", repository.at("jobs"));
        let args = ["recommend", "--serve=127.0.0.1:0", &jobs, "--instance=local.cpu1"];
        with_tools();
        let mut process = Process::command(&args, &[]);
        let line = process.wait_for_line("LISTENING http://");
        let address = line.rsplit('/').next().unwrap().parse().unwrap();
        Recommender { process, address, _models: None }
    }

    /// Behind a server of the models of this repository, over the jobs below it.
    #[track_caller]
    pub fn behind_a_server(repository: &Repository) -> Recommender {
        let jobs = format!("--recommendation-jobs={}", repository.at("jobs"));
        Recommender::of_server(repository, &[&jobs])
    }

    #[track_caller]
    fn of_server(repository: &Repository, flags: &[&str]) -> Recommender {
        with_tools();
        let models = Repository::new().copy("sleeper", &repository.at("models/sleeper"));
        let mut process = Process::start(&models, &[&["--aws-facade"], flags].concat(), &[]);
        process.wait_ready();
        let address = process.address("http");
        Recommender { process, address, _models: Some(models) }
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Reply {
        Client::connect(self.address).post("/", &[("x-amz-target", target)], body)
    }

    /// The reply to an operation of SageMaker's.
    #[track_caller]
    fn ask(&self, operation: &str, request: &Value) -> Value {
        let reply = self.post(&format!("SageMaker.{operation}"), request.to_string()).expect(200);
        assert_eq!(reply.header("content-type"), Some("application/x-amz-json-1.1"));
        assert_eq!(reply.header("x-amzn-requestid").map(str::len), Some(36));
        if reply.text().is_empty() { Value::Null } else { reply.json() }
    }

    /// The name and the text of an exception.
    #[track_caller]
    fn refuse(&self, target: &str, request: &Value) -> (String, String) {
        let reply = self.post(target, request.to_string()).expect(400).json();
        let text = |name: &str| reply[name].as_str().unwrap().to_owned();
        (text("__type"), text("Message"))
    }

    fn describe(&self, job: &str) -> Value {
        self.ask("DescribeInferenceRecommendationsJob", &json!({ "JobName": job }))
    }

    /// The lines of a job.
    #[track_caller]
    fn said(&self, job: &str) -> Vec<String> {
        let lines = json!({"logGroupName": "/aws/sagemaker/InferenceRecommendationsJobs",
            "logStreamName": format!("{job}/execution"), "startFromHead": true});
        let reply = self.post("Logs_20140328.GetLogEvents", lines.to_string()).expect(200).json();
        let events = reply["events"].as_array().unwrap().iter();
        events.map(|it| it["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the job has this status.
    #[track_caller]
    fn wait(&self, job: &str, status: &str) -> Value {
        wait_for(&format!("job {job} to be {status}"), || {
            let reply = self.describe(job);
            (reply["Status"] == status).then_some(reply)
        })
    }

    /// Ends it as a user does.
    fn end(self) {
        self.process.signal("TERM");
        assert_eq!(self.process.wait().status.code(), Some(0));
    }
}

/// A model that sleeps for 150 ms, beside which what else a busy machine does is little, and a body for it.
pub fn sleeper() -> Repository {
    let port = |name: &str| format!("name: \"{name}\" data_type: TYPE_FP32 dims: [ -1, 1 ]");
    let config = format!(
        "backend: \"identity\" input {{ {} }} output {{ {} }}
         parameters {{ key: \"latency_alpha_us\" value: {{ string_value: \"150000\" }} }}",
        port("INPUT0"),
        port("OUTPUT0")
    );
    let body = r#"{"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"FP32","data":[3]}]}"#;
    Repository::new().model("models/sleeper", &config).file("bodies/body.json", body)
}

/// A request for a job with this length of each of its tests.
fn request(repository: &Repository, job: &str, model: &str, seconds: u64) -> Value {
    let ranges = json!([{"Name": "MUSTER_DEFAULT_INSTANCE_COUNT", "Value": ["1", "2"]}]);
    json!({
        "JobName": job, "JobType": "Advanced", "RoleArn": "arn:aws:iam::111111111111:role/mine",
        "JobDescription": "two counts",
        "InputConfig": {
            "ModelName": model,
            "TrafficPattern": {"TrafficType": "STAIRS",
                "Stairs": {"DurationInSeconds": seconds, "NumberOfSteps": 1, "UsersPerStep": 2}},
            "EndpointConfigurations": [{"InstanceType": "local.cpu1",
                "EnvironmentParameterRanges": {"CategoricalParameterRanges": ranges}}],
            "ContainerConfig": {"PayloadConfig": {
                "SamplePayloadUrl": format!("file://{}", repository.at("bodies")),
                "SupportedContentTypes": ["application/json"]}},
        },
        "StoppingConditions": {"ModelLatencyThresholds": [{"Percentile": "P95", "ValueInMilliseconds": 1000}]},
    })
}

#[test]
fn a_job_on_a_model_is_done_described_and_there_after_a_restart() {
    let repository = sleeper();
    let recommender = Recommender::start(&repository);
    let model = json!({"ModelName": "mine", "ExecutionRoleArn": "arn:aws:iam::111111111111:role/mine",
        "PrimaryContainer": {"Image": "muster", "ModelDataUrl": format!("file://{}", repository.at("models"))}});
    let made = recommender.ask("CreateModel", &model);
    assert_eq!(made["ModelArn"], "arn:aws:sagemaker:local:000000000000:model/mine");
    let described = recommender.ask("DescribeModel", &json!({"ModelName": "mine"}));
    assert_eq!(described["PrimaryContainer"], model["PrimaryContainer"]);

    let request = request(&repository, "first", "mine", 3);
    let arn = "arn:aws:sagemaker:local:000000000000:inference-recommendations-job/first";
    let made = recommender.ask("CreateInferenceRecommendationsJob", &request);
    assert_eq!(made, json!({ "JobArn": arn }));
    let reply = recommender.wait("first", "COMPLETED");
    for field in
        ["JobName", "JobType", "RoleArn", "JobDescription", "InputConfig", "StoppingConditions"]
    {
        assert_eq!(reply[field], request[field], "{field}");
    }
    assert_eq!(reply["JobArn"], arn);
    let times = ["CreationTime", "CompletionTime", "LastModifiedTime"].map(|it| reply[it].as_f64());
    assert!(times[0] > Some(1.6e9) && times[1] > times[0] && times[2] >= times[1], "{times:?}");
    let best = &reply["InferenceRecommendations"][0];
    let parameter =
        json!({"Key": "MUSTER_DEFAULT_INSTANCE_COUNT", "ValueType": "String", "Value": "2"});
    let parameters = &best["ModelConfiguration"]["EnvironmentParameters"];
    assert_eq!(parameters[0], parameter);
    // What is in effect besides.
    assert_eq!(parameters[1]["Key"], "MUSTER_DEFAULT_INTRA_OP_THREADS", "{parameters}");
    let throughput = best["Metrics"]["MaxInvocations"].as_f64().unwrap();
    assert!((440.0..805.0).contains(&throughput), "{throughput}");

    let name = json!({"JobName": "first"});
    let steps = recommender.ask("ListInferenceRecommendationsJobSteps", &name);
    assert_eq!(steps["Steps"].as_array().unwrap().len(), 2, "{steps:#}");
    // It is over: to stop it changes nothing.
    assert!(recommender.ask("StopInferenceRecommendationsJob", &name).is_null());
    let lines = json!({"logGroupName": "/aws/sagemaker/InferenceRecommendationsJobs",
        "logStreamName": "first/execution", "startFromHead": true});
    let logs = recommender.post("Logs_20140328.GetLogEvents", lines.to_string()).expect(200).json();
    let said = recommender.said("first");
    // A line for the window, and one for what came of all of them.
    for part in ["MUSTER_DEFAULT_INSTANCE_COUNT=2, 2 users: ", "MUSTER_DEFAULT_INSTANCE_COUNT=2: "]
    {
        assert!(said.iter().any(|it| it.contains(part)), "{part} {said:?}");
    }
    recommender.end();

    let recommender = Recommender::start(&repository);
    assert_eq!(recommender.describe("first"), reply);
    assert_eq!(recommender.ask("ListInferenceRecommendationsJobSteps", &name), steps);
    let again =
        recommender.post("Logs_20140328.GetLogEvents", lines.to_string()).expect(200).json();
    assert_eq!(again, logs);
    assert_eq!(recommender.ask("DescribeModel", &json!({"ModelName": "mine"})), described);
    let (name, text) = recommender.refuse("SageMaker.CreateInferenceRecommendationsJob", &request);
    assert_eq!((name.as_str(), text.as_str()), ("ResourceInUse", "there is a job 'first' already"));
}

#[test]
fn a_default_job_tries_the_form_that_lies_beside_the_graph_of_a_folder() {
    let graph = fs::read(root("tests/fixtures/models/mlp/1/model.onnx")).unwrap();
    let body = json!({"inputs": [{"name": "input", "shape": [1, 30], "datatype": "FP32",
        "data": vec![0.5; 30]}]});
    let repository = Repository::new()
        .file("m/1/model.onnx", &graph)
        .file("m/1/model_int8.onnx", &graph)
        .file("bodies/body.json", body.to_string());
    let recommender = Recommender::start(&repository);
    let payload = json!({"SamplePayloadUrl": repository.at("bodies"),
        "SupportedContentTypes": ["application/json"]});
    let request = json!({"JobName": "forms", "JobType": "Default", "RoleArn": "arn:aws:iam::111111111111:role/mine",
        "InputConfig": {"ModelName": repository.at("m"), "ContainerConfig": {"PayloadConfig": payload}}});
    recommender.ask("CreateInferenceRecommendationsJob", &request);
    let name = json!({"JobName": "forms"});
    let form = json!({"Key": "MODEL_PATH", "ValueType": "String",
        "Value": repository.at("m/1/model_int8.onnx")});
    wait_for("a setting with the form", || {
        let steps = recommender.ask("ListInferenceRecommendationsJobSteps", &name);
        let of = |it: &Value| it.pointer("/InferenceBenchmark/ModelConfiguration").cloned();
        let mut tried = steps["Steps"].as_array().unwrap().iter();
        let is_form = |it: &Value| {
            it["Status"] == "COMPLETED" && of(it).unwrap().to_string().contains(&form.to_string())
        };
        tried.any(is_form).then_some(())
    });
    recommender.ask("StopInferenceRecommendationsJob", &name);
    recommender.wait("forms", "STOPPED");
    recommender.end();
}

#[test]
fn jobs_wait_for_each_other_are_stopped_and_go_on_after_a_restart() {
    let repository = sleeper();
    let models = repository.at("models");
    let recommender = Recommender::start(&repository);
    for job in ["long", "waiting", "last"] {
        let seconds = if job == "last" { 1 } else { 600 };
        let request = request(&repository, job, &models, seconds);
        recommender.ask("CreateInferenceRecommendationsJob", &request);
    }
    recommender.wait("long", "IN_PROGRESS");
    assert_eq!(recommender.describe("waiting")["Status"], "PENDING");
    let list = |recommender: &Recommender, request: Value| -> Vec<String> {
        let reply = recommender.ask("ListInferenceRecommendationsJobs", &request);
        let entries = reply["InferenceRecommendationsJobs"].as_array().unwrap().clone();
        entries.iter().map(|it| it["JobName"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list(&recommender, json!({})), ["last", "waiting", "long"]);
    assert_eq!(list(&recommender, json!({"StatusEquals": "IN_PROGRESS"})), ["long"]);

    recommender.ask("StopInferenceRecommendationsJob", &json!({"JobName": "waiting"}));
    let stopped = recommender.describe("waiting");
    assert_eq!(stopped["Status"], "STOPPED");
    assert!(stopped["CompletionTime"].is_number() && stopped["FailureReason"].is_null());
    // Only another program may not use the same directory.
    let jobs = format!("--jobs={}", repository.at("jobs"));
    let second = Process::command(&["recommend", "--serve=127.0.0.1:0", &jobs], &[]).wait();
    assert_eq!(second.status.code(), Some(1));
    assert!(second.last().contains("another recommender uses it"), "{}", second.last());
    recommender.end();

    let recommender = Recommender::start(&repository);
    recommender.wait("long", "IN_PROGRESS");
    assert_eq!(recommender.describe("waiting"), stopped);
    recommender.ask("StopInferenceRecommendationsJob", &json!({"JobName": "long"}));
    recommender.wait("long", "STOPPED");
    recommender.wait("last", "COMPLETED");
}

/// Processes with these words among their arguments.
fn processes(words: &[&str]) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let named = |it: &fs::DirEntry| {
        let arguments = fs::read_to_string(it.path().join("cmdline")).unwrap_or_default();
        words.iter().all(|word| arguments.contains(word))
    };
    all.filter(named).map(|it| it.file_name().to_string_lossy().into_owned()).collect()
}

fn kill(process: &str) {
    assert!(Command::new("kill").args(["-s", "KILL", process]).status().unwrap().success());
}

#[test]
fn a_job_goes_on_where_it_was_after_its_program_was_killed() {
    let repository = sleeper();
    let models = repository.at("models");
    let recommender = Recommender::start(&repository);
    let request = request(&repository, "long", &models, 4);
    recommender.ask("CreateInferenceRecommendationsJob", &request);
    wait_for("the first setting", || {
        recommender.said("long").iter().any(|it| it.contains("COUNT=1: ")).then_some(())
    });
    // It has noted the next server, which is ended by the program that goes on.
    wait_for("the next server", || {
        let noted = fs::read_to_string(repository.at("jobs/measuring")).ok()?;
        let server = noted.split(' ').nth(1)?;
        let environment = fs::read_to_string(format!("/proc/{server}/environ")).ok()?;
        environment.contains("MUSTER_DEFAULT_INSTANCE_COUNT=2").then_some(())
    });
    recommender.process.signal("KILL");
    recommender.process.wait();

    let recommender = Recommender::start(&repository);
    recommender.wait("long", "COMPLETED");
    let said = recommender.said("long");
    assert!(said.iter().any(|it| it.contains("GOES ON after 1 trials")), "{said:?}");
    let measured = |part: &str| said.iter().filter(|it| it.contains(part)).count();
    assert_eq!((measured("COUNT=1: "), measured("COUNT=2: ")), (1, 1), "{said:?}");
    let name = json!({"JobName": "long"});
    let steps = recommender.ask("ListInferenceRecommendationsJobSteps", &name);
    assert_eq!(steps["Steps"].as_array().unwrap().len(), 2, "{steps:#}");
    let measured = repository.path().join("jobs/jobs/long/measured");
    wait_for("what was measured to be removed", || (!measured.exists()).then_some(()));
    // No server is left, neither of this program nor of the one before.
    assert_eq!(processes(&["serve", &models]), Vec::<String>::new());
}

#[test]
fn a_server_with_the_facade_has_jobs_done_by_a_process_of_its_own() {
    let repository = sleeper();
    let mut server = Recommender::behind_a_server(&repository);
    let request = request(&repository, "first", &repository.at("models"), 4);
    server.ask("CreateInferenceRecommendationsJob", &request);
    wait_for("the first setting", || {
        server.said("first").iter().any(|it| it.contains("COUNT=1: ")).then_some(())
    });
    let body = fs::read_to_string(repository.at("bodies/body.json")).unwrap();
    server.process.client().post("/v2/models/sleeper/infer", &[], &body).expect(200);

    // It is killed: one operation says so, and the next one finds another, in which the job goes on.
    let jobs = repository.at("jobs");
    // What it starts has its words, too, for the moment before it is another program.
    let running = wait_for("the recommender alone", || {
        let running = processes(&["\0--serve\0-\0", &jobs]);
        <[_; 1]>::try_from(running).ok()
    });
    kill(&running[0]);
    let describe = || {
        let job = json!({"JobName": "first"}).to_string();
        server.post("SageMaker.DescribeInferenceRecommendationsJob", job)
    };
    let reply = describe().expect(500).json();
    assert_eq!(reply["__type"], "InternalFailure");
    assert!(reply["Message"].as_str().unwrap().contains("recommender has ended"), "{reply}");
    describe().expect(200);
    server.wait("first", "COMPLETED");
    assert!(server.said("first").iter().any(|it| it.contains("GOES ON after 1 trials")));

    // Nobody else may ask, and a page of a browser by no name of its own.
    let list = [("x-amz-target", "SageMaker.ListInferenceRecommendationsJobs")];
    Client::connect(server.address).post("http://evil.example/", &list, "{}").expect(421);
    let large = vec![b' '; 200 << 10];
    let reply = server.post("SageMaker.CreateModel", large).expect(400).json();
    assert_eq!(reply["__type"], "ValidationException", "{reply}");

    // It ends with the server, even where that is killed.
    server.process.signal("KILL");
    server.process.wait();
    wait_for("the recommender to end", || {
        processes(&["\0--serve\0-\0", &jobs]).is_empty().then_some(())
    });
}

#[test]
fn without_a_directory_jobs_are_refused_by_the_facade() {
    let repository = sleeper();
    let server = Recommender::of_server(&repository, &[]);
    let reply = server.post("SageMaker.ListInferenceRecommendationsJobs", "{}").expect(404).json();
    assert_eq!(reply["__type"], "UnknownOperationException");
    assert!(reply["Message"].as_str().unwrap().contains("--recommendation-jobs"), "{reply}");
}

#[test]
fn jobs_of_a_server_are_for_administrators() {
    let repository = sleeper();
    let jobs = format!("--recommendation-jobs={}", repository.at("jobs"));
    let tokens = repository.at("tokens");
    fs::write(&tokens, "inference infer-infer-infer-infer\nadmin admin-admin-admin-admin\n")
        .unwrap();
    let flags = [&*jobs, &format!("--auth-tokens-file={tokens}")];
    let server = Recommender::of_server(&repository, &flags);
    let list = ("x-amz-target", "SageMaker.ListInferenceRecommendationsJobs");
    let ask = |token: &str| {
        let headers = [list, ("x-api-key", token)];
        Client::connect(server.address).post("/", &headers, "{}")
    };
    ask("admin-admin-admin-admin").expect(200);
    for (token, status) in [("infer-infer-infer-infer", 403), ("wrong-wrong-wrong", 401)] {
        let reply = ask(token).expect(status).json();
        assert_eq!(reply["__type"], "AccessDeniedException", "{reply}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_the_names_of_the_service() {
    let repository = sleeper();
    let recommender = Recommender::start(&repository);
    let models = repository.at("models");
    let create = |pointer: &str, value: Value| {
        let mut request = request(&repository, "j", &models, 1);
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        request.pointer_mut(parent).unwrap()[name] = value;
        recommender.refuse("SageMaker.CreateInferenceRecommendationsJob", &request)
    };
    let ranges = "/InputConfig/EndpointConfigurations/0/EnvironmentParameterRanges/CategoricalParameterRanges";
    let payload = "/InputConfig/ContainerConfig/PayloadConfig/SamplePayloadUrl";
    for (pointer, value, name, part) in [
        (
            "/JobName",
            json!("-x"),
            "ValidationException",
            "Value '-x' at 'jobName' failed to satisfy constraint",
        ),
        ("/JobType", json!("Best"), "ValidationException", "enum value set: [Default, Advanced]"),
        ("/JobName", json!(7), "SerializationException", "jobName: expected a text"),
        ("/InputConfig/ModelName", json!("none"), "ValidationException", "Could not find model"),
        ("/InputConfig/ModelPackageVersionArn", json!("x"), "ValidationException", "given both"),
        (payload, json!("s3://bucket/x.tar.gz"), "ValidationException", "s3://bucket/x.tar.gz"),
        (payload, json!("file:///nowhere"), "ValidationException", "SamplePayloadUrl"),
        (
            ranges,
            json!([{"Name": "LD_PRELOAD", "Value": ["/x.so"]}]),
            "ValidationException",
            "LD_PRELOAD",
        ),
        (
            "/InputConfig/EndpointConfigurations",
            json!([]),
            "ValidationException",
            "greater than or equal to 1",
        ),
    ] {
        let (given, text) = create(pointer, value);
        assert_eq!(given, name, "{text}");
        assert!(text.contains(part), "{text}");
    }
    let job = json!({"JobName": "none"});
    for operation in [
        "DescribeInferenceRecommendationsJob",
        "StopInferenceRecommendationsJob",
        "ListInferenceRecommendationsJobSteps",
    ] {
        let (name, text) = recommender.refuse(&format!("SageMaker.{operation}"), &job);
        assert_eq!((name.as_str(), text.as_str()), ("ResourceNotFound", "there is no job 'none'"));
    }
    let (name, _) = recommender.refuse("SageMaker.DescribeModel", &json!({"ModelName": "none"}));
    assert_eq!(name, "ResourceNotFound");
    let lines = json!({"logGroupName": "/aws/sagemaker/InferenceRecommendationsJobs", "logStreamName": "none/execution"});
    let (name, _) = recommender.refuse("Logs_20140328.GetLogEvents", &lines);
    assert_eq!(name, "ResourceNotFoundException");
    let (name, _) = recommender.refuse("SageMaker.CreateEndpoint", &json!({}));
    assert_eq!(name, "UnknownOperationException");
    let reply = recommender.post("SageMaker.ListInferenceRecommendationsJobs", "{").expect(400);
    assert_eq!(reply.json()["__type"], "SerializationException");

    // Nothing that is no operation is read.
    let mut client = Client::connect(recommender.address);
    client.get("/").expect(405);
    client.get("/ping").expect(404);
    client.post("/", &[], "{}").expect(400);
    recommender.post("SageMaker.CreateModel", vec![b' '; 200 << 10]).expect(413);
    let all = recommender.ask("ListInferenceRecommendationsJobs", &json!({}));
    assert_eq!(all, json!({"InferenceRecommendationsJobs": []}));
}

#[test]
fn a_job_without_a_payload_is_done_with_tensors_that_are_made_up() {
    let repository = sleeper();
    let recommender = Recommender::start(&repository);
    let mut request = request(&repository, "made", &repository.at("models"), 1);
    let input = request["InputConfig"].as_object_mut().unwrap();
    input.remove("ContainerConfig");
    // The entry without servers fails, and the other one is measured.
    let serverless = json!({"MemorySizeInMB": 2048, "MaxConcurrency": 10});
    input["EndpointConfigurations"] =
        json!([{"ServerlessConfig": serverless}, {"InstanceType": "local.cpu1"}]);
    recommender.ask("CreateInferenceRecommendationsJob", &request);
    let reply = recommender.wait("made", "COMPLETED");
    let best = &reply["InferenceRecommendations"][0]["EndpointConfiguration"];
    assert_eq!(best["InstanceType"], "local.cpu1", "{reply:#}");
    let steps =
        recommender.ask("ListInferenceRecommendationsJobSteps", &json!({"JobName": "made"}));
    let failed = &steps["Steps"][0]["InferenceBenchmark"];
    assert_eq!(failed["EndpointConfiguration"]["ServerlessConfig"], serverless, "{steps:#}");
    let lines = recommender.said("made").join("\n");
    assert!(lines.contains("PAYLOAD made up, ") && !lines.contains("--shape"), "{lines}");

    request["JobName"] = json!("running");
    let input = request["InputConfig"].as_object_mut().unwrap();
    input.remove("ModelName");
    input.remove("EndpointConfigurations");
    input.insert("Endpoints".to_owned(), json!([{"EndpointName": "http://127.0.0.1:1"}]));
    let (name, text) = recommender.refuse("SageMaker.CreateInferenceRecommendationsJob", &request);
    assert!(
        name == "ValidationException" && text.contains("SamplePayloadUrl: expected what"),
        "{text}"
    );
}

#[test]
fn a_server_that_runs_already_is_measured_and_what_fails_says_why() {
    let repository = sleeper();
    let models = Repository::new().copy("sleeper", &repository.at("models/sleeper"));
    let mut server = Process::start(&models, &[], &[]);
    server.wait_ready();
    let endpoint = format!("http://{}", server.address("sagemaker"));
    let recommender = Recommender::start(&repository);
    let mut running = request(&repository, "running", "", 1);
    let input = running["InputConfig"].as_object_mut().unwrap();
    input.remove("ModelName");
    input.remove("EndpointConfigurations");
    input.insert("Endpoints".to_owned(), json!([{"EndpointName": endpoint}]));
    recommender.ask("CreateInferenceRecommendationsJob", &running);
    let reply = recommender.wait("running", "COMPLETED");
    let performance = &reply["EndpointPerformances"][0];
    assert_eq!(performance["EndpointInfo"]["EndpointName"], endpoint);
    let throughput = performance["Metrics"]["MaxInvocations"].as_f64().unwrap();
    assert!((1.0..805.0).contains(&throughput), "{reply:#}");
    assert!(performance["Metrics"]["ModelLatency"].as_u64() >= Some(150), "{reply:#}");
    let name = json!({"JobName": "running"});
    let steps = recommender.ask("ListInferenceRecommendationsJobSteps", &name);
    let metrics = &steps["Steps"][0]["InferenceBenchmark"]["EndpointMetrics"];
    assert_eq!(metrics, &performance["Metrics"]);

    // Its archive is none, and nothing of it stays.
    let broken = repository.at("model.tar.gz");
    std::fs::write(&broken, "no archive").unwrap();
    let broken = request(&repository, "broken", &broken, 1);
    recommender.ask("CreateInferenceRecommendationsJob", &broken);
    let reply = recommender.wait("broken", "FAILED");
    assert!(reply["FailureReason"].as_str().unwrap().contains("model.tar.gz"), "{reply:#}");
    assert!(reply["InferenceRecommendations"].is_null() && reply["CompletionTime"].is_number());
    assert!(!repository.path().join("jobs/jobs/broken/model").exists());
}

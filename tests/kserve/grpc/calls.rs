//! Every call beside inference.

use frontend::grpc::proto::{
    health::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus},
    reflection::{
        ServerReflectionRequest, ServerReflectionResponse,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    },
    *,
};
use tonic::{Code, Request};

use crate::support::{
    Process, Repository, Server,
    grpc::{Client, firsts, identity, refused},
    infer, root,
};

fn start() -> (Server, Client) {
    let repository = Repository::of(&["two_outputs"]).with_identity("m", &[]);
    let server = Server::start(&repository, &[]);
    let client = Client::new(&server);
    (server, client)
}

fn named<T: Default>(set: impl FnOnce(&mut T)) -> T {
    let mut request = T::default();
    set(&mut request);
    request
}

#[test]
fn the_server_and_its_models_are_well_in_both_languages() {
    let (_server, mut client) = start();
    let live: ServerLiveResponse = client.call("ServerLive", ServerLiveRequest {}).unwrap();
    let ready: ServerReadyResponse = client.call("ServerReady", ServerReadyRequest {}).unwrap();
    assert!(live.live && ready.ready);
    let mut model_ready = |name: &str, version: &str| {
        let (name, version) = (name.to_owned(), version.to_owned());
        client.call::<_, ModelReadyResponse>("ModelReady", ModelReadyRequest { name, version })
    };
    assert!(model_ready("m", "").unwrap().ready);
    assert!(model_ready("m", "1").unwrap().ready);
    assert!(!model_ready("n", "").unwrap().ready);
    assert!(!model_ready("m", "2").unwrap().ready);
    assert!(refused(model_ready("m", "x"), Code::InvalidArgument).contains("given 'x'"));
    let check = Request::new(HealthCheckRequest { service: "any".to_owned() });
    let health: HealthCheckResponse =
        client.call_with("grpc.health.v1.Health/Check", check).unwrap();
    assert_eq!(health.status(), ServingStatus::Serving);
}

#[test]
fn a_call_without_inputs_or_files_takes_short_messages_only() {
    let (_server, mut client) = start();
    let long = || "x".repeat(2 << 20);
    let expected = "exceeds the maximum allowed value of 1048576 bytes (of messages of calls other than inference";
    let ready = ModelReadyRequest { name: long(), version: String::new() };
    let ready = client.call::<_, ModelReadyResponse>("ModelReady", ready);
    let text = refused(ready, Code::ResourceExhausted);
    assert!(text.contains(expected), "{text}");
    let question = ServerReflectionRequest { host: long(), message_request: None };
    let path = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let (answers, end) = client.stream::<_, ServerReflectionResponse>(path, vec![question], &[]);
    assert!(answers.is_empty());
    let text = refused(end, Code::ResourceExhausted);
    assert!(text.contains(expected), "{text}");
    // A configuration of that length is one of a file.
    let parameters = [(
        "config".to_owned(),
        named(|it: &mut ModelRepositoryParameter| {
            it.parameter_choice =
                Some(model_repository_parameter::ParameterChoice::StringParam(long()));
        }),
    )];
    let load = RepositoryModelLoadRequest {
        model_name: "m".to_owned(),
        parameters: parameters.into(),
        ..Default::default()
    };
    let load = client.call::<_, RepositoryModelLoadResponse>("RepositoryModelLoad", load);
    assert_ne!(load.unwrap_err().code(), Code::ResourceExhausted);
}

#[test]
fn who_watches_is_told_of_the_end() {
    let (mut server, client) = start();
    let address = "/grpc.health.v1.Health/Watch";
    let Client { runtime, mut grpc } = client;
    let mut stream = runtime.block_on(async {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        let request = Request::new(HealthCheckRequest::default());
        let path = address.parse().unwrap();
        grpc.server_streaming(request, path, codec).await.unwrap().into_inner()
    });
    let first = runtime.block_on(stream.message()).unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    server.begin_stop();
    let second = runtime.block_on(stream.message()).unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::NotServing);
    let end = runtime.block_on(stream.message()).unwrap_err();
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    server.wait().unwrap();
}

#[test]
fn server_and_models_are_described() {
    let (server, mut client) = start();
    let metadata: ServerMetadataResponse =
        client.call("ServerMetadata", ServerMetadataRequest {}).unwrap();
    assert_eq!(metadata.name, "triton");
    assert!(metadata.extensions.iter().any(|it| it == "classification"), "{metadata:?}");
    let model = named(|it: &mut ModelMetadataRequest| it.name = "two_outputs".to_owned());
    let metadata: ModelMetadataResponse = client.call("ModelMetadata", model).unwrap();
    assert_eq!((&*metadata.name, &*metadata.versions), ("two_outputs", &["1".to_owned()][..]));
    assert_eq!(metadata.platform, "onnxruntime_onnx");
    let inputs: Vec<_> =
        metadata.inputs.iter().map(|it| (&*it.name, &*it.datatype, &*it.shape)).collect();
    assert_eq!(inputs, [("a", "FP32", &[-1, 4][..]), ("b", "FP32", &[-1, 4])]);
    assert_eq!(metadata.outputs.len(), 3);

    let model = named(|it: &mut ModelConfigRequest| it.name = "m".to_owned());
    let config: ModelConfigResponse = client.call("ModelConfig", model).unwrap();
    let config = config.config.unwrap();
    // The same as over HTTP.
    let json = server.get("/v2/models/m/config").json();
    assert_eq!(config.name, json["name"].as_str().unwrap());
    assert_eq!(i64::from(config.max_batch_size()), json["max_batch_size"].as_i64().unwrap());
    assert_eq!(config.input[0].name, json["input"][0]["name"].as_str().unwrap());
    for method in ["ModelMetadata", "ModelConfig"] {
        let model = named(|it: &mut ModelMetadataRequest| it.name = "mm".to_owned());
        let text = refused(client.call::<_, ModelMetadataResponse>(method, model), Code::NotFound);
        assert!(text.contains("did you mean 'm'?"), "{text}");
    }
}

#[test]
fn statistics_are_of_one_version_of_one_model_or_of_all() {
    let (_server, mut client) = start();
    client.infer(identity("m", &[1.0, 2.0])).unwrap();
    let mut statistics = |name: &str, version: &str| {
        let (name, version) = (name.to_owned(), version.to_owned());
        let request = ModelStatisticsRequest { name, version };
        client.call::<_, ModelStatisticsResponse>("ModelStatistics", request)
    };
    let all = statistics("", "").unwrap().model_stats;
    let names: Vec<_> = all.iter().map(|it| (&*it.name, &*it.version)).collect();
    assert_eq!(names, [("m", "1"), ("two_outputs", "1")]);
    let one = statistics("m", "1").unwrap().model_stats.remove(0);
    assert_eq!((one.inference_count, one.execution_count), (2, 1));
    let stats = one.inference_stats.unwrap();
    assert!(stats.success.unwrap().ns > 0 && stats.success.unwrap().count == 1);
    assert!(stats.cache_miss.is_some());
    assert_eq!(statistics("m", "").unwrap().model_stats.len(), 1);
    refused(statistics("n", ""), Code::InvalidArgument);
    refused(statistics("m", "7"), Code::InvalidArgument);
    assert!(refused(statistics("", "1"), Code::InvalidArgument).starts_with("name: expected"));
}

#[test]
fn the_repository_is_listed_and_changed_only_where_that_is_allowed() {
    let (_server, mut client) = start();
    let index: RepositoryIndexResponse =
        client.call("RepositoryIndex", RepositoryIndexRequest::default()).unwrap();
    let models: Vec<_> =
        index.models.iter().map(|it| (&*it.name, &*it.version, &*it.state)).collect();
    assert_eq!(models, [("m", "1", "READY"), ("two_outputs", "1", "READY")]);

    let other = named(|it: &mut RepositoryIndexRequest| it.repository_name = "r".to_owned());
    let answer = client.call::<_, RepositoryIndexResponse>("RepositoryIndex", other);
    assert!(refused(answer, Code::Unimplemented).contains("repository_name"));
    use model_repository_parameter::ParameterChoice as Choice;
    let mut load = |key: &str, value: Choice| {
        let value = ModelRepositoryParameter { parameter_choice: Some(value) };
        let parameters = [(key.to_owned(), value)].into();
        let request = RepositoryModelLoadRequest {
            model_name: "m".to_owned(),
            parameters,
            ..Default::default()
        };
        client.call::<_, RepositoryModelLoadResponse>("RepositoryModelLoad", request)
    };
    let text = refused(load("config", Choice::BoolParam(true)), Code::InvalidArgument);
    assert_eq!(text, "parameter 'config': expected string_param, given bool_param");
    let text = refused(load("file:1/x", Choice::Int64Param(1)), Code::InvalidArgument);
    assert_eq!(text, "parameter 'file:1/x': expected bytes_param, given int64_param");
    let text = refused(load("konfig", Choice::Int64Param(1)), Code::InvalidArgument);
    assert!(text.contains("did you mean 'config'?"), "{text}");
    refused(load("config", Choice::StringParam("{}".to_owned())), Code::Unavailable);
    let mut unload = |value: Choice| {
        let value = ModelRepositoryParameter { parameter_choice: Some(value) };
        let parameters = [("unload_dependents".to_owned(), value)].into();
        let request = RepositoryModelUnloadRequest {
            model_name: "m".to_owned(),
            parameters,
            ..Default::default()
        };
        client.call::<_, RepositoryModelUnloadResponse>("RepositoryModelUnload", request)
    };
    let text = refused(unload(Choice::Int64Param(1)), Code::InvalidArgument);
    assert_eq!(text, "parameter 'unload_dependents': expected bool_param, given int64_param");
    refused(unload(Choice::BoolParam(true)), Code::Unavailable);
}

#[test]
fn models_are_loaded_and_unloaded_and_memory_is_shared_over_grpc() {
    let repository = Repository::identity("m", &[]);
    let flags = ["--model-control-mode=explicit", "--allow-client-shm=true"];
    let server = Server::start(&repository, &flags);
    let mut client = Client::new(&server);
    let ready = |client: &mut Client| {
        let request = ModelReadyRequest { name: "m".to_owned(), version: String::new() };
        client.call::<_, ModelReadyResponse>("ModelReady", request)
    };
    assert!(!ready(&mut client).unwrap().ready);
    let load = named(|it: &mut RepositoryModelLoadRequest| it.model_name = "m".to_owned());
    let _: RepositoryModelLoadResponse = client.call("RepositoryModelLoad", load).unwrap();
    assert!(ready(&mut client).unwrap().ready);
    let unload = named(|it: &mut RepositoryModelUnloadRequest| it.model_name = "m".to_owned());
    let _: RepositoryModelUnloadResponse = client.call("RepositoryModelUnload", unload).unwrap();
    assert!(!ready(&mut client).unwrap().ready);

    let key = format!("/muster-tests-grpc-{}", std::process::id());
    let path = format!("/dev/shm{key}");
    std::fs::write(&path, [0; 64]).unwrap();
    let register = |byte_size| SystemSharedMemoryRegisterRequest {
        name: "r".to_owned(),
        key: key.clone(),
        offset: 16,
        byte_size,
    };
    let call = "SystemSharedMemoryRegister";
    let beyond = client.call::<_, SystemSharedMemoryRegisterResponse>(call, register(64));
    assert!(refused(beyond, Code::InvalidArgument).contains("64"));
    let _: SystemSharedMemoryRegisterResponse = client.call(call, register(48)).unwrap();
    let again = client.call::<_, SystemSharedMemoryRegisterResponse>(call, register(48));
    refused(again, Code::AlreadyExists);
    let regions = |client: &mut Client| {
        let request = SystemSharedMemoryStatusRequest::default();
        let status: SystemSharedMemoryStatusResponse =
            client.call("SystemSharedMemoryStatus", request).unwrap();
        status.regions
    };
    let region = regions(&mut client).remove("r").unwrap();
    assert_eq!((region.key, region.offset, region.byte_size), (key.clone(), 16, 48));
    let unregister = SystemSharedMemoryUnregisterRequest { name: "r".to_owned() };
    let _: SystemSharedMemoryUnregisterResponse =
        client.call("SystemSharedMemoryUnregister", unregister).unwrap();
    assert!(regions(&mut client).is_empty());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn shared_memory_is_off_until_it_is_allowed_and_cuda_memory_is_not_offered() {
    let (_server, mut client) = start();
    let status: SystemSharedMemoryStatusResponse = client
        .call("SystemSharedMemoryStatus", SystemSharedMemoryStatusRequest::default())
        .unwrap();
    assert!(status.regions.is_empty());
    let request = SystemSharedMemoryRegisterRequest {
        name: "r".to_owned(),
        key: "/r".to_owned(),
        offset: 0,
        byte_size: 8,
    };
    let answer =
        client.call::<_, SystemSharedMemoryRegisterResponse>("SystemSharedMemoryRegister", request);
    refused(answer, Code::Unimplemented);
    let request = SystemSharedMemoryUnregisterRequest::default();
    let call = "SystemSharedMemoryUnregister";
    let answer = client.call::<_, SystemSharedMemoryUnregisterResponse>(call, request);
    assert!(refused(answer, Code::Unimplemented).starts_with("Client shared memory is disabled"));

    let status: CudaSharedMemoryStatusResponse =
        client.call("CudaSharedMemoryStatus", CudaSharedMemoryStatusRequest::default()).unwrap();
    assert!(status.regions.is_empty());
    let one = named(|it: &mut CudaSharedMemoryStatusRequest| it.name = "r".to_owned());
    let answer = client.call::<_, CudaSharedMemoryStatusResponse>("CudaSharedMemoryStatus", one);
    refused(answer, Code::NotFound);
    let request = named(|it: &mut CudaSharedMemoryRegisterRequest| it.name = "r".to_owned());
    let answer =
        client.call::<_, CudaSharedMemoryRegisterResponse>("CudaSharedMemoryRegister", request);
    // As over HTTP: what is off is said first.
    assert!(refused(answer, Code::Unimplemented).contains("--allow-client-shm"));
    let request = CudaSharedMemoryUnregisterRequest::default();
    let call = "CudaSharedMemoryUnregister";
    let answer = client.call::<_, CudaSharedMemoryUnregisterResponse>(call, request);
    refused(answer, Code::Unimplemented);
}

#[test]
fn settings_of_traces_and_the_log_are_asked_for_and_checked() {
    let (_server, mut client) = start();
    let _: TraceSettingResponse =
        client.call("TraceSetting", TraceSettingRequest::default()).unwrap();
    let other = named(|it: &mut TraceSettingRequest| it.model_name = "n".to_owned());
    refused(client.call::<_, TraceSettingResponse>("TraceSetting", other), Code::NotFound);
    let _: LogSettingsResponse = client.call("LogSettings", LogSettingsRequest::default()).unwrap();
    let empty = log_settings_request::SettingValue { parameter_choice: None };
    let wrong = LogSettingsRequest { settings: [("log_info".to_owned(), empty)].into() };
    let answer = client.call::<_, LogSettingsResponse>("LogSettings", wrong);
    assert!(refused(answer, Code::InvalidArgument).contains("log_info"));
}

#[test]
fn an_unknown_call_and_a_message_that_is_none_are_refused() {
    let (server, mut client) = start();
    let answer = client.call::<_, ServerLiveResponse>("ServerLife", ServerLiveRequest {});
    assert!(refused(answer, Code::Unimplemented).contains("ServerLive"));
    // Field 1 of this message is a text, and that of the other a truth value.
    let wrong = ServerLiveResponse { live: true };
    let answer = client.call::<_, ModelReadyResponse>("ModelReady", wrong);
    assert!(refused(answer, Code::InvalidArgument).contains("no ModelReadyRequest"));
    let page = server.get("/metrics").text().to_owned();
    for line in [
        "muster_grpc_requests_total{code=\"UNIMPLEMENTED\"} 1",
        "muster_grpc_requests_total{code=\"INVALID_ARGUMENT\"} 1",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[test]
fn a_message_that_is_none_is_refused_by_every_call() {
    let proto = std::fs::read_to_string(root("server/proto/grpc_service.proto")).unwrap();
    let names = proto.lines().filter_map(|it| it.trim().strip_prefix("rpc ")?.split('(').next());
    let (_server, mut client) = start();
    // Messages without a field can hold nothing wrong; streams answer in their own way.
    let exempt = ["ServerLive", "ServerReady", "ServerMetadata", "ModelStreamInfer"];
    let names: Vec<&str> = names.filter(|it| !exempt.contains(it)).collect();
    assert_eq!(names.len(), 16);
    for name in names {
        // Its first field is a truth value, where every request has a text or a map.
        let answer = client.call::<_, ServerLiveResponse>(name, ServerLiveResponse { live: true });
        let text = refused(answer, Code::InvalidArgument);
        assert!(text.contains("Request"), "{name}: {text}");
    }
    let ready: ServerReadyResponse = client.call("ServerReady", ServerReadyRequest {}).unwrap();
    assert!(ready.ready);
}

#[test]
fn tools_find_every_service_by_asking_the_server() {
    let (_server, mut client) = start();
    for version in ["v1", "v1alpha"] {
        let path = format!("grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let ask = |it| ServerReflectionRequest { host: "h".to_owned(), message_request: Some(it) };
        let asked = vec![
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("inference.GRPCInferenceService".to_owned())),
            ask(MessageRequest::FileContainingSymbol("inference.ModelInferRequest.id".to_owned())),
            ask(MessageRequest::FileByFilename("model_config.proto".to_owned())),
            ask(MessageRequest::FileContainingSymbol("inference.Nothing".to_owned())),
        ];
        let (answers, end) = client.stream::<_, ServerReflectionResponse>(&path, asked, &[]);
        end.unwrap();
        let answers: Vec<_> = answers.into_iter().filter_map(|it| it.message_response).collect();
        let [
            MessageResponse::ListServicesResponse(list),
            MessageResponse::FileDescriptorResponse(service),
            MessageResponse::FileDescriptorResponse(field),
            MessageResponse::FileDescriptorResponse(file),
            MessageResponse::ErrorResponse(error),
        ] = answers.as_slice()
        else {
            panic!("{answers:?}");
        };
        let names: Vec<&str> = list.service.iter().map(|it| &*it.name).collect();
        for name in ["inference.GRPCInferenceService", "grpc.health.v1.Health"] {
            assert!(names.contains(&name), "{names:?}");
        }
        // With the file that it imports.
        assert_eq!(service.file_descriptor_proto.len(), 2);
        assert_eq!(service, field);
        assert_eq!(file.file_descriptor_proto.len(), 1);
        assert_eq!(error.error_code, 5);
    }
}

#[test]
fn the_first_request_loads_a_model_where_that_is_wanted() {
    let repository = Repository::identity("m", &[])
        .with_identity("n", &[])
        .with_identity("bad", &[("load_fault", "fail")]);
    let flags = ["--model-load-on-demand=true", "--model-control-mode=explicit"];
    let server = Server::start(&repository, &flags);
    let mut client = Client::new(&server);
    // To ask whether it is ready does not load it.
    let ready = named(|it: &mut ModelReadyRequest| it.name = "m".to_owned());
    let ready: ModelReadyResponse = client.call("ModelReady", ready).unwrap();
    assert!(!ready.ready);
    assert_eq!(firsts(&client.infer(identity("m", &[3.0])).unwrap()), [3.0]);
    let metadata = named(|it: &mut ModelMetadataRequest| it.name = "n".to_owned());
    let metadata: ModelMetadataResponse = client.call("ModelMetadata", metadata).unwrap();
    assert_eq!(metadata.versions, ["1"]);
    client.refused(identity("bad", &[1.0]), Code::Unavailable);
    client.refused(identity("none", &[1.0]), Code::NotFound);
    let index = RepositoryIndexRequest { ready: true, ..Default::default() };
    let index: RepositoryIndexResponse = client.call("RepositoryIndex", index).unwrap();
    let ready: Vec<_> = index.models.iter().map(|it| &*it.name).collect();
    assert_eq!(ready, ["m", "n"]);
}

#[test]
fn models_that_were_never_loaded_are_listed_by_name() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--model-control-mode=explicit"]);
    let mut client = Client::new(&server);
    let index: RepositoryIndexResponse =
        client.call("RepositoryIndex", RepositoryIndexRequest::default()).unwrap();
    let models: Vec<_> =
        index.models.iter().map(|it| (&*it.name, &*it.version, &*it.state)).collect();
    assert_eq!(models, [("m", "", "")]);
}

#[test]
fn a_failure_whose_client_gave_no_name_has_one_in_the_log_on_both_wires() {
    let repository = Repository::identity("m", &[]);
    let mut server = Process::start(&repository, &[], &[]);
    server.wait_ready();
    let mut client = Client::connect(server.address("grpc"));
    client.refused(identity("none", &[1.0]), Code::NotFound);
    let named = |line: &str| {
        let (_, rest) = line.split_once("request_id=").unwrap_or_else(|| panic!("{line}"));
        rest.chars().take_while(char::is_ascii_hexdigit).collect::<String>()
    };
    let first = named(&server.wait_for_line("request rejected"));
    server.client().post(&infer("none"), &[], "{}").error(404);
    let second = named(&server.wait_for_line("path=/v2/models/none/infer"));
    assert_eq!([first.len(), second.len()], [16; 2], "{first} {second}");
    assert_ne!(first, second);
}

//! A client for any call over gRPC, which waits for its answer. It is tonic's over the same messages, which the
//! server does not use itself.

use std::net::SocketAddr;

use frontend::grpc::proto::{
    InferParameter, ModelInferRequest, ModelInferResponse,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use tokio::runtime::Runtime;
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    codegen::{CompressionEncoding, http::uri::PathAndQuery},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::Server;

/// A connection to the gRPC port.
pub struct Client {
    /// What runs its calls.
    pub runtime: Runtime,
    /// The connection.
    pub grpc: Grpc<Channel>,
}

impl Client {
    /// A connection to this server.
    pub fn new(server: &Server) -> Client {
        Client::connect(server.address("grpc").expect("the gRPC port is on"))
    }

    /// A connection to this address.
    pub fn connect(address: SocketAddr) -> Client {
        Client::of_authority(address, &address.to_string())
    }

    /// The same, which calls the server by this name.
    pub fn of_authority(address: SocketAddr, authority: &str) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let endpoint = endpoint.origin(format!("http://{authority}").parse().unwrap());
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        let grpc = Grpc::new(channel)
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(usize::MAX);
        Client { runtime, grpc }
    }

    /// Asks a call of Triton's service.
    pub fn call<Q, R>(&mut self, method: &str, request: Q) -> Result<R, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        self.call_with(&format!("inference.GRPCInferenceService/{method}"), Request::new(request))
    }

    /// Asks any call, with metadata.
    pub fn call_with<Q, R>(&mut self, path: &str, request: Request<Q>) -> Result<R, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let path = PathAndQuery::try_from(format!("/{path}")).unwrap();
        self.runtime.block_on(async {
            self.grpc.ready().await.unwrap();
            let codec = ProstCodec::<Q, R>::default();
            self.grpc.unary(request, path, codec).await.map(tonic::Response::into_inner)
        })
    }

    /// Asks a call that streams both ways, all requests at once; the answers until the end, and how it ended.
    pub fn stream<Q, R>(
        &mut self,
        path: &str,
        requests: Vec<Q>,
        metadata: &[(&'static str, &'static str)],
    ) -> (Vec<R>, Result<(), Status>)
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let path = PathAndQuery::try_from(format!("/{path}")).unwrap();
        let mut request = Request::new(tokio_stream(requests));
        for (name, value) in metadata {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        self.runtime.block_on(async {
            self.grpc.ready().await.unwrap();
            let codec = ProstCodec::<Q, R>::default();
            let mut answers = Vec::new();
            let mut stream: Streaming<R> = match self.grpc.streaming(request, path, codec).await {
                Ok(response) => response.into_inner(),
                Err(status) => return (answers, Err(status)),
            };
            loop {
                match stream.message().await {
                    Ok(Some(answer)) => answers.push(answer),
                    Ok(None) => return (answers, Ok(())),
                    Err(status) => return (answers, Err(status)),
                }
            }
        })
    }

    /// One inference.
    pub fn infer(&mut self, request: ModelInferRequest) -> Result<ModelInferResponse, Status> {
        self.call("ModelInfer", request)
    }

    /// One inference that is refused with this status; its text.
    #[track_caller]
    pub fn refused(&mut self, request: ModelInferRequest, code: Code) -> String {
        refused(self.infer(request), code)
    }
}

/// The text of a call that was refused with this status.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code) -> String {
    let status = answer.expect_err("it must be refused");
    assert_eq!(status.code(), code, "{status:?}");
    assert!(!status.message().is_empty(), "no text: {status:?}");
    status.message().to_owned()
}

/// Items, one after the other.
pub fn tokio_stream<T: Send + 'static>(
    items: Vec<T>,
) -> impl tonic::codegen::tokio_stream::Stream<Item = T> + Send + 'static {
    tonic::codegen::tokio_stream::iter(items)
}

/// A request to a model that `Repository::with_identity` makes: rows that begin with these numbers.
pub fn identity(model: &str, rows: &[f32]) -> ModelInferRequest {
    let values = rows.iter().flat_map(|it| [*it, 0.0, 0.0, 0.0]);
    let raw: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs: vec![input("INPUT0", "FP32", &[rows.len() as i64, 4])],
        raw_input_contents: vec![raw.into()],
        ..ModelInferRequest::default()
    }
}

/// An input without data.
pub fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

/// An output, with parameters.
pub fn output(name: &str, parameters: &[(&str, ParameterChoice)]) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor { name: name.to_owned(), parameters: map(parameters) }
}

/// Parameters.
pub fn map(
    parameters: &[(&str, ParameterChoice)],
) -> std::collections::BTreeMap<String, InferParameter> {
    let entry = |(key, value): &(&str, ParameterChoice)| {
        ((*key).to_owned(), InferParameter { parameter_choice: Some(value.clone()) })
    };
    parameters.iter().map(entry).collect()
}

/// The first number of each row of the only output.
#[track_caller]
pub fn firsts(response: &ModelInferResponse) -> Vec<f32> {
    assert_eq!(response.outputs.len(), 1, "{response:?}");
    let rows = response.raw_output_contents[0].chunks(16);
    rows.map(|it| f32::from_le_bytes(it[..4].try_into().unwrap())).collect()
}

//! Streams of gRPC with whole requests, of which answers are read at once, slowly or not at all.

use std::{net::SocketAddr, time::Duration};

use frontend::grpc::proto::{ModelInferRequest, ModelStreamInferResponse};
use prost::Message;
use tokio::{runtime::Runtime, time::timeout};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codegen::tokio_stream,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{random::Random, texts::VECTORS};
use crate::support::grpc::input;

/// How many streams a client holds.
const MOST_HELD: usize = 20;

/// Longest wait for a stream to begin, and for an answer on one that is held.
const BEGINNING: Duration = Duration::from_secs(2);
const A_LOOK: Duration = Duration::from_millis(1);

/// Bits of the bytes of a request, and of how many a stream has; most bytes of all requests of a stream.
const BYTES: usize = 22;
const REQUESTS: usize = 6;
const MOST: usize = 16 << 20;

/// The streams of one client. They have one thread, so that nothing is read while the client does something else.
pub struct Streams {
    runtime: Runtime,
    address: SocketAddr,
    held: Vec<Stream>,
    /// Answers that were not errors, so far.
    pub answered: u32,
}

struct Stream {
    answers: Streaming<ModelStreamInferResponse>,
    /// The connection is there as long as this.
    _grpc: Grpc<Channel>,
}

impl Streams {
    pub fn new(address: SocketAddr) -> Streams {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Streams { runtime, address, held: Vec::new(), answered: 0 }
    }

    /// Begins a stream, and reads its answers for a while that may be short. It is held then, or left.
    pub fn act(&mut self, random: &mut Random) -> Result<(), Status> {
        self.look(random);
        let request = request(random);
        let count = random.size(REQUESTS).min(1 + MOST / request.encoded_len());
        let patience = Duration::from_millis(random.size(11) as u64);
        let stream = self.begin(request, count)?;
        self.read(stream, patience, random.below(2) == 0);
        Ok(())
    }

    /// Leaves all streams.
    pub fn leave(&mut self) {
        self.held.clear();
        self.runtime.block_on(tokio::task::yield_now());
    }

    /// Asks so many times on a stream and reads all answers.
    ///
    /// # Errors
    /// How it ended instead.
    pub fn ask(&mut self, request: ModelInferRequest, count: usize) -> Result<u32, Status> {
        let (mut stream, before) = (self.begin(request, count)?, self.answered);
        let answered = &mut self.answered;
        self.runtime.block_on(read(&mut stream.answers, answered))?;
        Ok(self.answered - before)
    }

    fn begin(&mut self, request: ModelInferRequest, count: usize) -> Result<Stream, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        // A client that does not read is not sent much.
        let endpoint = endpoint.initial_stream_window_size(1 << 16).connect_timeout(BEGINNING);
        let requests = tokio_stream::iter(std::iter::repeat_n(request, count));
        let beginning = async {
            let channel = endpoint.connect().await;
            let channel = channel.map_err(|it| Status::unavailable(it.to_string()))?;
            let mut grpc = Grpc::new(channel).max_decoding_message_size(usize::MAX);
            grpc.ready().await.map_err(|it| Status::unavailable(it.to_string()))?;
            let path = "/inference.GRPCInferenceService/ModelStreamInfer".parse().unwrap();
            let codec = ProstCodec::<ModelInferRequest, ModelStreamInferResponse>::default();
            let answers = grpc.streaming(Request::new(requests), path, codec).await?.into_inner();
            Ok(Stream { answers, _grpc: grpc })
        };
        let began = self.runtime.block_on(async { timeout(BEGINNING, beginning).await });
        began.map_err(|_| Status::deadline_exceeded("nothing came"))?
    }

    fn read(&mut self, mut stream: Stream, patience: Duration, is_held: bool) {
        let answered = &mut self.answered;
        let reading = read(&mut stream.answers, answered);
        let ended = self.runtime.block_on(async { timeout(patience, reading).await });
        if ended.is_err() && is_held && self.held.len() < MOST_HELD {
            self.held.push(stream);
        }
    }

    /// One of those that are held is read a little.
    fn look(&mut self, random: &mut Random) {
        if self.held.is_empty() {
            return;
        }
        let at = random.below(self.held.len());
        let stream = self.held.swap_remove(at);
        self.read(stream, A_LOOK, true);
    }
}

async fn read(
    answers: &mut Streaming<ModelStreamInferResponse>,
    answered: &mut u32,
) -> Result<(), Status> {
    while let Some(answer) = answers.message().await? {
        *answered += u32::from(answer.error_message.is_empty());
    }
    Ok(())
}

/// A request to one of the models, of any size.
fn request(random: &mut Random) -> ModelInferRequest {
    let bytes = random.size(BYTES);
    match random.below(3) {
        0 => floats(1 + bytes / 4),
        1 => texts("texts", "x", vec![bytes / 64; 1 + random.below(64)], false),
        _ => {
            let lengths = vec![random.size(10); 1 + random.below(1 + bytes.min(2048))];
            texts(VECTORS, "text", lengths, true)
        }
    }
}

/// So many numbers.
pub fn floats(count: usize) -> ModelInferRequest {
    ModelInferRequest {
        model_name: "floats".to_owned(),
        inputs: vec![input("x", "FP32", &[count as i64])],
        raw_input_contents: vec![vec![0; count * 4].into()],
        ..ModelInferRequest::default()
    }
}

/// Texts of these lengths, for a model with or without rows.
pub fn texts(model: &str, name: &str, lengths: Vec<usize>, is_row: bool) -> ModelInferRequest {
    let text =
        |length: &usize| [&(*length as u32).to_le_bytes()[..], &vec![b'a'; *length]].concat();
    let raw: Vec<u8> = lengths.iter().flat_map(text).collect();
    let rows = lengths.len() as i64;
    let shape: &[i64] = if is_row { &[rows, 1] } else { &[rows] };
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs: vec![input(name, "BYTES", shape)],
        raw_input_contents: vec![raw.into()],
        ..ModelInferRequest::default()
    }
}

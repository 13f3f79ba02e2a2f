//! The formats of requests, as the command line names them, and what each of them sends.

use clap::ValueEnum;

use crate::texts::TextRoute;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// POST /v2/models/MODEL/infer, data in the JSON
    KserveJson,
    /// The same with raw tensors behind the JSON
    KserveBinary,
    /// ModelInfer over gRPC, with raw tensors; the URL names the gRPC port. Without --input, --describe says
    /// where the metadata are
    KserveGrpc,
    /// POST /v1/models/MODEL:predict of TensorFlow Serving, rows as "instances"; as "inputs" where the inputs have no
    /// number of rows in common
    TfsJson,
    /// POST /invocations with --body
    Invocations,
    /// POST /v1/embeddings with a text of --texts, vectors as base64, as OpenAI's client asks for them
    OpenaiEmbeddings,
    /// POST /embed with a text of --texts, as text-embeddings-inference takes it
    TeiEmbed,
    /// POST /invocations with {"inputs": a text of --texts}, as Hugging Face's containers take it
    HfInvocations,
    /// POST /invocations with a file of --files, an image or a sound, under its own type
    Image,
}

/// What is sent in a format.
pub(crate) enum Payload {
    /// Tensors, to the model of `--model`.
    Tensors(Tensors),
    /// The file of `--body`.
    File,
    /// The texts of `--texts`.
    Texts(TextRoute),
    /// The files of `--files`.
    Files,
}

/// How tensors are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tensors {
    Json,
    Binary,
    Grpc,
    Tfs,
}

impl Format {
    /// What is sent in it.
    pub(crate) fn payload(self) -> Payload {
        match self {
            Format::KserveJson => Payload::Tensors(Tensors::Json),
            Format::KserveBinary => Payload::Tensors(Tensors::Binary),
            Format::KserveGrpc => Payload::Tensors(Tensors::Grpc),
            Format::TfsJson => Payload::Tensors(Tensors::Tfs),
            Format::Invocations => Payload::File,
            Format::OpenaiEmbeddings => Payload::Texts(TextRoute::OpenaiEmbeddings),
            Format::TeiEmbed => Payload::Texts(TextRoute::TeiEmbed),
            Format::HfInvocations => Payload::Texts(TextRoute::HfInvocations),
            Format::Image => Payload::Files,
        }
    }
}

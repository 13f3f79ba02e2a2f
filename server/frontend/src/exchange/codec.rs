//! What a protocol adds to an exchange: how its bodies are read, and how its replies are written.

use bytes::Bytes;
use flate2::Compression;

use super::{compression::Encoding, failure::Failure};
use formats::kserve_v2::SharedParts;
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// How one protocol reads a request and writes its reply. Pure: the exchange does everything that waits.
pub trait Codec: Sized + Send + 'static {
    /// A body that has been parsed, without a copy of its tensors.
    type Parsed<'b>;
    /// What the reply needs to know of its request.
    type Format: Send + 'static;
    /// An encoded reply.
    type Reply: Reply;

    /// Advice for the error text: what a client can send in place of a body that takes too much memory when decoded.
    const SMALLER: &'static str;

    /// Bytes in front of the raw tensors of a body that has some. The first tensor is then aligned in memory, and the
    /// limit of a body applies to these bytes alone.
    fn header_length(&self) -> Option<usize> {
        None
    }

    /// Parses a body.
    ///
    /// # Errors
    /// Why it is not a body of this protocol.
    fn parse<'b>(&self, body: &'b Bytes) -> Result<Self::Parsed<'b>, Error>;

    /// The signature that a parsed body is for, of the model that has this default.
    ///
    /// # Errors
    /// When the model has no signature of the name in the body.
    fn signature<'s>(
        &self,
        default: &'s Signature,
        parsed: &Self::Parsed<'_>,
    ) -> Result<&'s Signature, Error>;

    /// Bytes that decoding reads one by one: a measure of its time.
    fn decode_work(&self, signature: &Signature, parsed: &Self::Parsed<'_>) -> usize;

    /// Decodes a body into a request. Asks `grant` for what that takes besides the body, as its lists grow. Where that
    /// is refused, the request fails by the refusal, whatever the decoder returns.
    ///
    /// # Errors
    /// What is wrong with it, and the client's name for the request where it has one; what is not granted.
    fn decode(
        self,
        signature: &Signature,
        parsed: Self::Parsed<'_>,
        grant: &Grant,
    ) -> Result<Decoded<Self::Format>, Failure>;

    /// Bytes that encoding writes one by one: a measure of its time.
    fn encode_work(_: &Self::Format, response: &InferenceResponse) -> usize {
        response.outputs.iter().map(|it| it.tensor.byte_len()).sum()
    }

    /// The next response is a part of the answer, and the last one or not.
    fn mark_part(_: &mut Self::Format, is_last: bool) {
        let _ = is_last;
    }

    /// Advice for the error text: what a client can ask for in place of a reply that takes too much memory.
    const SMALLER_REPLY: &'static str;

    /// Encodes a response into a reply. Asks `grant` for what that takes besides the outputs, all at once and before
    /// anything else is done.
    ///
    /// # Errors
    /// Why the outputs cannot be written in this format; what is not granted.
    fn encode(
        format: &Self::Format,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<Self::Reply, Error>;
}

/// An encoded reply.
pub trait Reply: Send + 'static {
    /// Its bytes.
    fn byte_len(&self) -> usize;

    /// The reply in that encoding. One that would not become smaller stays as it is. Takes some milliseconds for each
    /// MiB.
    fn compress(self, encoding: Encoding, level: Compression) -> Self;
}

/// The outcome of decoding a body.
pub struct Decoded<F> {
    /// The request, without the inputs that lie in shared memory.
    pub request: InferenceRequest,
    /// How its reply is to be written.
    pub format: F,
    /// The inputs and outputs that lie in shared memory; usually none.
    pub shared: Option<Box<SharedParts>>,
}

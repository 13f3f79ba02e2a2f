//! What is known of an invocation besides its body, and the form that its reply will have.

use backend::NamedTensor;

use super::{
    dialect::{Dialect, InferenceType},
    huggingface::Pipeline,
};
use crate::{
    kserve_v2::{self, generate},
    negotiate::{self, Media},
    tfs,
    xgboost::{self, XgboostOptions},
};
use inference::error::Error;

/// What the operator has set, and what the environment tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `--sagemaker-dialect`; `None` where each request decides.
    pub dialect: Option<Dialect>,
    /// Whose container this one takes the place of: it decides where a request leaves a choice.
    pub vendor: Option<Dialect>,
    /// What bodies of KServe v2 are.
    pub inference_type: InferenceType,
    /// `SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT`: the type of replies to clients that accept any. Ignored where
    /// it cannot carry the reply.
    pub default_accept: Option<String>,
    /// A batch job, whose replies are put together line by line: each record has one, and each reply ends with one.
    pub batch: bool,
    /// Most bytes of a body whose parts are compressed, when they are not; `None` for any number.
    pub largest_body: Option<u64>,
    /// Bodies and replies in XGBoost's dialect.
    pub xgboost: XgboostOptions,
}

impl Options {
    /// What a request is in that may be in several dialects; `None` where nobody says.
    pub(super) fn spoken(&self) -> Option<Dialect> {
        self.dialect.or(self.vendor)
    }
}

/// What the head of a request says of its body and of the reply.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `Accept`.
    pub accept: Option<&'a str>,
    /// What is to be done with it, as the attributes say.
    pub method: tfs::Method,
    /// The model's parameter [`xgboost::PARAMETER`]: what it was trained for.
    pub objective: Option<&'a str>,
}

/// The form that the reply will have.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyFormat {
    /// A KServe v2 response, each output as its request wanted it.
    KserveV2(kserve_v2::ReplyFormat),
    /// A flat object of Triton's generate extension, or an event with one.
    Generate(generate::Framing),
    /// Classes or values of examples.
    Results(tfs::Results),
    /// What Hugging Face's pipeline would say.
    HuggingFace(Pipeline),
    /// The same, one line of JSON per row, sent as that type.
    HuggingFaceLines(Pipeline, Media),
    /// The same as CSV, under the names of the columns.
    HuggingFaceCsv,
    /// `{"predictions": [..]}`.
    Rows,
    /// `{"outputs": ..}`.
    Columns,
    /// The value of the only output, or an object by output.
    Bare,
    /// One line of JSON per row, sent as that type.
    JsonLines(Media),
    /// One line per row, the elements of all outputs in it.
    Csv,
    /// One NumPy array.
    Npy,
    /// An object for each row, as AWS's algorithms answer.
    Objects(Media),
    /// As XGBoost's container answers.
    Xgboost(xgboost::Reply),
    /// JSON of that form on a line of its own, for who puts replies together.
    Line(Box<ReplyFormat>),
}

/// A body that is not KServe v2, decoded.
pub(super) struct Decoded {
    pub(super) inputs: Vec<NamedTensor>,
    /// The form of a JSON reply.
    pub(super) envelope: ReplyFormat,
    /// Does the body itself say what that form is? Otherwise the dialect does.
    pub(super) stated: bool,
    /// The format that a reply has by itself.
    pub(super) family: Media,
    /// Has the body one line for each row?
    pub(super) lines: bool,
}

impl Decoded {
    /// Rows that stand on lines of their own.
    pub(super) fn rows(inputs: Vec<NamedTensor>, family: Media) -> Decoded {
        Decoded { inputs, envelope: ReplyFormat::Rows, stated: false, family, lines: true }
    }

    /// Values without a key around them.
    pub(super) fn whole(inputs: Vec<NamedTensor>, family: Media) -> Decoded {
        Decoded { inputs, envelope: ReplyFormat::Bare, stated: false, family, lines: false }
    }

    /// A JSON document that says what it is.
    pub(super) fn stated(inputs: Vec<NamedTensor>, envelope: ReplyFormat) -> Decoded {
        Decoded { inputs, envelope, stated: true, family: Media::Json, lines: false }
    }
}

/// In a batch job, the same on a line of its own.
pub(super) fn on_a_line(options: &Options, format: ReplyFormat) -> ReplyFormat {
    match options.batch {
        true => ReplyFormat::Line(Box::new(format)),
        false => format,
    }
}

pub(super) fn choose(
    head: Head<'_>,
    options: &Options,
    family: Media,
    offered: &[Media],
) -> Result<Media, Error> {
    negotiate::choose(head.accept, options.default_accept.as_deref(), family, offered)
}

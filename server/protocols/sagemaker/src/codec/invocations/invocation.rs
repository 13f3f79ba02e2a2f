//! What is known of an invocation besides its body, and the format that its reply will have.

use std::sync::Arc;

use backend::NamedTensor;

use super::{
    algorithms::AlgorithmReply,
    attributes::Attributes,
    dialect::{Dialect, InferenceType},
    huggingface::{PipelineReply, Top},
};
use crate::codec::xgboost::{self, XgboostOptions};
use formats::{
    kserve_v2::{self, SharedParts, generate},
    negotiate::{self, Declared, Media},
    tfs,
};
use inference::{error::Error, request::Parameter};

/// What the operator has set, and what the environment tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `--sagemaker-dialect`; `None` where each request decides.
    pub dialect: Option<Dialect>,
    /// Whose container this one takes the place of: it decides where a request leaves a choice.
    pub vendor: Option<Dialect>,
    /// How many classes a pipeline of Hugging Face's gives where a request leaves it open.
    pub usual_top: Top,
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

/// What is known of an invocation before its body is: the head of the request, parsed once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// `Content-Type`, for errors.
    pub content_type: Option<String>,
    /// What it says of the body.
    pub declared: Declared,
    /// `Accept`.
    pub accept: Option<String>,
    /// Model, version and method, as clients of the TensorFlow Serving container name them.
    pub attributes: Attributes,
    /// What the model says of itself, once that is known.
    pub model: ModelSays,
    /// Is the endpoint one of many models?
    pub is_multi_model: bool,
}

/// What parameters of a model say of it, to what decodes bodies and encodes replies for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSays {
    /// [`xgboost::PARAMETER`]: what it was trained for.
    pub objective: Option<String>,
    /// [`xgboost::CLASSES`]: classes that it tells apart.
    pub classes: Option<usize>,
    /// [`xgboost::TARGETS`]: labels, targets or quantiles.
    pub targets: Option<usize>,
    /// [`xgboost::PICKLED`]: is it a `Booster` in a pickle?
    pub is_pickled: bool,
    /// [`LIBRARY`]: the library that trained it, if that is another than XGBoost.
    pub library: Option<String>,
}

/// The model parameter with the library that trained a model of trees, where that is another than XGBoost.
pub const LIBRARY: &str = "trained_by";

impl ModelSays {
    /// What these parameters say.
    pub fn of<'a>(parameter: impl Fn(&str) -> Option<&'a str>) -> ModelSays {
        let text = |name| parameter(name).map(str::to_owned);
        let count = |name| parameter(name).and_then(|it| it.parse().ok());
        ModelSays {
            objective: text(xgboost::PARAMETER),
            classes: count(xgboost::CLASSES),
            targets: count(xgboost::TARGETS),
            is_pickled: parameter(xgboost::PICKLED) == Some("true"),
            library: text(LIBRARY),
        }
    }
}

impl Invocation {
    /// Parses the headers `Content-Type`, `Accept` and `X-Amzn-SageMaker-Custom-Attributes`.
    ///
    /// # Errors
    /// Those of [`Attributes::read`]. A wrong content type is an error of the body.
    pub fn read(
        content_type: Option<&str>,
        accept: Option<&str>,
        attributes: Option<&str>,
    ) -> Result<Invocation, Error> {
        Ok(Invocation {
            content_type: content_type.map(str::to_owned),
            declared: negotiate::declared(content_type),
            accept: accept.map(str::to_owned),
            attributes: attributes.map(Attributes::read).transpose()?.unwrap_or_default(),
            model: ModelSays::default(),
            is_multi_model: false,
        })
    }
}

/// What the reply will look like.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyFormat {
    /// A KServe v2 response, each output as its request wanted it.
    KserveV2(kserve_v2::ReplyFormat),
    /// A flat object of Triton's generate extension, or an event with one.
    Generate(generate::Framing),
    /// Classes or values of examples.
    Results(tfs::Results),
    /// What Hugging Face's pipeline would say.
    HuggingFace(PipelineReply),
    /// The same, one line of JSON per row, sent as that type.
    HuggingFaceLines(PipelineReply, Media),
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
    /// As AWS's image algorithms or JumpStart's models answer.
    Algorithm(AlgorithmReply),
    /// As XGBoost's container answers.
    Xgboost(xgboost::Reply),
    /// JSON of that format on a line of its own, for who puts replies together.
    Line(Box<ReplyFormat>),
}

impl ReplyFormat {
    /// Takes the list of inputs and outputs that lie in shared memory out of the format.
    pub fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        match self {
            ReplyFormat::KserveV2(format) => format.shared.take(),
            ReplyFormat::Line(format) => format.take_shared(),
            _ => None,
        }
    }

    /// How the parts of an answer in this format make one body; `None` where only one of them can be sent.
    pub fn joint(&self) -> Option<Joint> {
        match self {
            ReplyFormat::KserveV2(format) => {
                let is_binary =
                    format.binary_by_default || format.outputs.iter().any(|it| it.1.binary);
                (!is_binary).then_some(Joint::Events)
            }
            ReplyFormat::Generate(generate::Framing::Events) => Some(Joint::AsTheyAre),
            ReplyFormat::Generate(generate::Framing::Object) => None,
            ReplyFormat::Results(_)
            | ReplyFormat::HuggingFace(_)
            | ReplyFormat::Rows
            | ReplyFormat::Columns
            | ReplyFormat::Bare
            | ReplyFormat::Objects(Media::Json) => Some(Joint::Events),
            ReplyFormat::HuggingFaceLines(..)
            | ReplyFormat::JsonLines(_)
            | ReplyFormat::Csv
            | ReplyFormat::Objects(Media::JsonLines(_)) => Some(Joint::AsTheyAre),
            ReplyFormat::HuggingFaceCsv
            | ReplyFormat::Npy
            | ReplyFormat::Objects(_)
            | ReplyFormat::Algorithm(_)
            | ReplyFormat::Xgboost(_) => None,
            // Who puts replies together finds each on a line of its own.
            ReplyFormat::Line(format) => format.joint().map(|_| Joint::AsTheyAre),
        }
    }

    /// The format without the line that it stands on.
    pub(super) fn inner(&self) -> &ReplyFormat {
        match self {
            ReplyFormat::Line(inner) => inner,
            other => other,
        }
    }
}

/// How the parts of an answer make one body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// Each is the data of a server-sent event.
    Events,
    /// One behind the other: lines, or events already.
    AsTheyAre,
}

/// A body that is not KServe v2, decoded.
pub(super) struct Decoded {
    pub(super) inputs: Vec<NamedTensor>,
    /// The format of a JSON reply.
    pub(super) json_reply: ReplyFormat,
    /// Does the body itself say what that format is? Otherwise the dialect does.
    pub(super) stated: bool,
    /// The media type that a reply has by itself.
    pub(super) reply_media: Media,
    /// Has the body one line for each row?
    pub(super) lines: bool,
    /// Does its first record name columns?
    pub(super) is_headed: bool,
    /// What a pipeline is to heed.
    pub(super) parameters: Vec<(Arc<str>, Parameter)>,
}

impl Decoded {
    /// Rows that stand on lines of their own.
    pub(super) fn rows(inputs: Vec<NamedTensor>, reply_media: Media) -> Decoded {
        Decoded { lines: true, ..Decoded::of(inputs, ReplyFormat::Rows, reply_media) }
    }

    /// Values without a key around them.
    pub(super) fn whole(inputs: Vec<NamedTensor>, reply_media: Media) -> Decoded {
        Decoded::of(inputs, ReplyFormat::Bare, reply_media)
    }

    /// A JSON document that says what it is.
    pub(super) fn stated(inputs: Vec<NamedTensor>, json_reply: ReplyFormat) -> Decoded {
        Decoded { stated: true, ..Decoded::of(inputs, json_reply, Media::Json) }
    }

    fn of(inputs: Vec<NamedTensor>, json_reply: ReplyFormat, reply_media: Media) -> Decoded {
        let parameters = Vec::new();
        let (stated, lines, is_headed) = (false, false, false);
        Decoded { inputs, json_reply, stated, reply_media, lines, is_headed, parameters }
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
    invocation: &Invocation,
    options: &Options,
    reply_media: Media,
    offered: &[Media],
) -> Result<Media, Error> {
    negotiate::choose(
        invocation.accept.as_deref(),
        options.default_accept.as_deref(),
        reply_media,
        offered,
    )
}

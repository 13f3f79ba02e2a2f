//! How many bytes a reply to `/invocations` takes while it is written.

use super::invocations;
use formats::{
    kserve_v2::SharedParts,
    reply_form::ReplyForm,
    reply_size::{self, TextForm},
};
use inference::{request::InferenceResponse, signature::Signature};

impl ReplyForm for invocations::ReplyFormat {
    fn take_shared(&mut self) -> Option<Box<SharedParts>> {
        match self {
            invocations::ReplyFormat::KserveV2(format) => format.take_shared(),
            invocations::ReplyFormat::Line(format) => format.take_shared(),
            _ => None,
        }
    }

    fn expanded(&self, signature: &Signature, response: &InferenceResponse, rough: usize) -> usize {
        use invocations::ReplyFormat;
        let form = match self {
            ReplyFormat::KserveV2(format) => return format.expanded(signature, response, rough),
            ReplyFormat::Line(format) => return format.expanded(signature, response, rough),
            ReplyFormat::Results(results) => return results.expanded(signature, response, rough),
            ReplyFormat::Xgboost(reply) => return reply.expanded(response, rough),
            // The tensor as it is, behind a header.
            ReplyFormat::Npy => return 0,
            ReplyFormat::HuggingFace(_)
            | ReplyFormat::HuggingFaceLines(..)
            | ReplyFormat::HuggingFaceCsv => TextForm::LABELLED,
            ReplyFormat::Objects(_) | ReplyFormat::Algorithm(_) => TextForm::QUOTED,
            ReplyFormat::Generate(_)
            | ReplyFormat::Rows
            | ReplyFormat::Columns
            | ReplyFormat::Bare
            | ReplyFormat::JsonLines(_)
            | ReplyFormat::Csv => TextForm::PLAIN,
        };
        reply_size::of_response(response, form, rough)
    }
}

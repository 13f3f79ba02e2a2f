//! Requests of clients of other servers of texts: the address says what is asked for; it, the body, a header or the task
//! says of which model.

mod choice;
mod inference;
mod models;

use hyper::{body::Incoming, http::request::Parts};

use super::{
    answer::Answer,
    router::{PipelineRoute, TextOperation},
    service::Service,
};
use ::inference::task::Task;
use inference::{Operation, infer};
use protocol::{openai, tei};

/// Answers a request on such a route.
pub async fn answer(
    service: &Service,
    route: &PipelineRoute<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = route.model.as_ref();
    match route.operation {
        TextOperation::ListModels => models::list(service, model, parts).await,
        TextOperation::Embeddings => {
            let operation = Operation {
                task: Task::SentenceEmbedding,
                decode: openai::decode,
                encode: openai::encode,
            };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::Embed => {
            let operation = Operation {
                task: Task::SentenceEmbedding,
                decode: tei::decode_embed,
                encode: tei::encode_embed,
            };
            infer(service, model, parts, body, operation).await
        }
    }
}

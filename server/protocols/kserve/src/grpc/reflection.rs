//! gRPC's reflection service: tools ask the server which calls it has.

use bytes::Bytes;
use h2::RecvStream;
use prost::Message;
use prost_reflect::{DescriptorPool, FileDescriptor};
use tokio::sync::mpsc;

use super::Method;
use frontend::{
    exchange::{Failure, intake::Received, rendering::Code},
    grpc::{
        body::{Answer, Answers},
        context::{Answered, Context},
        failure,
        messages::{bound, decode, encode},
        proto::{
            DEFINITIONS,
            reflection::{
                ErrorResponse, FileDescriptorResponse, ListServiceResponse,
                ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
                server_reflection_request::MessageRequest,
                server_reflection_response::MessageResponse,
            },
        },
        status::Status,
    },
    net::Task,
};
use inference::error::Error;

/// Starts to answer questions.
pub(super) fn start(context: Context, body: RecvStream) -> Answered {
    let (answers, queue) = mpsc::channel(1);
    let metrics = context.front.serving.metrics.clone();
    let reader = Task::spawn(async move {
        let status = match read(&context, body, &answers).await {
            Ok(()) => Status::OK,
            Err(error) => {
                let failure = Failure::from(error);
                failure::log(&context.front.serving, &context.id, &Method::Reflection, &failure);
                failure::status(&failure)
            }
        };
        // An error means that the client has left.
        let _ = answers.send(Answer::End(status)).await;
    });
    Answered::Many(Answers::new(queue, reader, metrics), None)
}

async fn read(
    context: &Context,
    body: RecvStream,
    answers: &mpsc::Sender<Answer>,
) -> Result<(), Error> {
    let pool = DescriptorPool::decode(DEFINITIONS)
        .map_err(|error| Error::Internal(format!("the definitions are broken: {error}")))?;
    let mut messages = context.messages(body);
    let mut guard = context.front.serving.drain.guard();
    let mut closing = std::pin::pin!(guard.closing());
    loop {
        let next = tokio::select! {
            biased;
            () = closing.as_mut() => return Err(Error::ShuttingDown),
            next = messages.next(false) => next?,
        };
        let Some(Received { bytes, mut permit }) = next else { return Ok(()) };
        permit.make_room(bound(&bytes))?;
        let request: ServerReflectionRequest = decode(bytes)?;
        let answer = match &request.message_request {
            Some(asked) => answer(&pool, asked),
            None => refused(Code::InvalidArgument, "expected a question, given none"),
        };
        let response = ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response: Some(answer),
        };
        let mut encoded = encode(&response);
        drop(response);
        permit.resize(encoded.pieces.iter().map(Bytes::len).sum());
        encoded.permit = Some(permit);
        if answers.send(Answer::Message(encoded)).await.is_err() {
            return Ok(());
        }
    }
}

fn answer(pool: &DescriptorPool, asked: &MessageRequest) -> MessageResponse {
    match asked {
        MessageRequest::ListServices(_) => {
            let services = pool.services();
            let service = services.map(|it| ServiceResponse { name: it.full_name().to_owned() });
            MessageResponse::ListServicesResponse(ListServiceResponse {
                service: service.collect(),
            })
        }
        MessageRequest::FileByFilename(name) => {
            found(pool.get_file_by_name(name), &format!("file '{name}'"))
        }
        MessageRequest::FileContainingSymbol(name) => {
            found(file_of(pool, name), &format!("symbol '{name}'"))
        }
        MessageRequest::FileContainingExtension(_)
        | MessageRequest::AllExtensionNumbersOfType(_) => {
            refused(Code::NotFound, "the definitions have no extensions")
        }
    }
}

/// The file that defines a service, a call of a service, a message, a field of a message, or an enum.
fn file_of(pool: &DescriptorPool, name: &str) -> Option<FileDescriptor> {
    let whole = |name: &str| {
        let service = pool.get_service_by_name(name).map(|it| it.parent_file());
        service
            .or_else(|| pool.get_message_by_name(name).map(|it| it.parent_file()))
            .or_else(|| pool.get_enum_by_name(name).map(|it| it.parent_file()))
    };
    whole(name).or_else(|| {
        let (parent, part) = name.rsplit_once('.')?;
        let service = pool.get_service_by_name(parent);
        let has_call = service.is_some_and(|it| it.methods().any(|it| it.name() == part));
        let message = pool.get_message_by_name(parent);
        let has_field = message.is_some_and(|it| it.get_field_by_name(part).is_some());
        (has_call || has_field).then(|| whole(parent)).flatten()
    })
}

fn found(file: Option<FileDescriptor>, asked: &str) -> MessageResponse {
    let Some(file) = file else {
        let shown: String = asked.chars().take(128).collect();
        return refused(Code::NotFound, &format!("there is no {shown}"));
    };
    let files = std::iter::once(file.clone()).chain(file.dependencies());
    let encoded = files.map(|it| it.file_descriptor_proto().encode_to_vec().into());
    let file_descriptor_proto = encoded.collect();
    MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
}

fn refused(code: Code, text: &str) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse {
        error_code: code as i32,
        error_message: text.to_owned(),
    })
}

//! Texts to tokens and tokens to texts. No model runs for this.

use std::sync::Arc;

use hyper::{Response, body::Incoming};

use super::{
    choice::WantedModel,
    received::{read, receive},
    text_service::TextService,
};
use crate::codec::tei::tokens::{self, DecodeRequest, MOST, ShownToken, TOKEN, TokenizeRequest};
use formats::EncodedReply;
use frontend::{
    exchange::{
        intake::Received,
        offload::{LARGE, offload_covered},
    },
    http::{address::ModelPath, answer::Answer, body::Segments, parts::Parts, respond},
};
use inference::{error::Error, grant::Grant, limits::Permit};
use serving::{ServedModel, TextModel, TextToken, TokenizeOptions};

/// The tokens of texts.
pub async fn tokenize(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let (model, permit, asked) =
        receive_and_read(service, path, parts, body, tokens::read_tokenize).await?;
    let TokenizeRequest { texts, add_special_tokens, prompt_name } = asked;
    let options = TokenizeOptions { add_special_tokens, prompt_name };
    let (found, permit) = of(&model)?.tokenize(texts, options, permit).await?;
    let count: usize = found.iter().map(Vec::len).sum();
    let write = move || tokens::write_tokens(found.iter().map(|it| it.iter().map(shown)));
    let (reply, permit) = written(count.saturating_mul(TOKEN), permit, write).await?;
    Ok(with_room(reply, permit))
}

/// The texts of tokens.
pub async fn decode(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let (model, permit, asked) =
        receive_and_read(service, path, parts, body, tokens::read_decode).await?;
    let DecodeRequest { lists, skip_special_tokens } = asked;
    let (texts, permit) = of(&model)?.decode(lists, skip_special_tokens, permit).await?;
    let length: usize = texts.iter().map(String::len).sum();
    let (reply, permit) = written(length, permit, move || tokens::write_texts(&texts)).await?;
    Ok(with_room(reply, permit))
}

/// The model, room for its tokens, and what `decode` finds in the body, which is of so many texts at most.
async fn receive_and_read<T: Send + 'static>(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
    decode: fn(&[u8], usize, &Grant) -> Result<T, Error>,
) -> Result<(Arc<ServedModel>, Permit, T), Error> {
    let (model, received) = receive(service, path, WantedModel::Texts, parts, body).await?;
    let Received { bytes, mut permit } = received;
    let most = of(&model)?.most_texts();
    take_room(&mut permit, &bytes)?;
    let received = Received { bytes, permit };
    let (asked, permit) = read(received, move |bytes, grant| decode(bytes, most, grant)).await?;
    Ok((model, permit, asked))
}

fn of(model: &ServedModel) -> Result<TextModel<'_>, Error> {
    model.text_model().ok_or_else(|| Error::Internal("the model is no model of texts".to_owned()))
}

/// Room for the tokens of a body, each of which has a byte of it at least.
fn take_room(permit: &mut Permit, body: &[u8]) -> Result<(), Error> {
    permit.make_room(body.len().min(MOST).saturating_mul(TOKEN))
}

fn shown(token: &TextToken) -> ShownToken<'_> {
    ShownToken { id: token.id, text: &token.text, place: token.place }
}

/// What `write` makes of so many bytes, which `permit` covers, on the pool where they are many.
async fn written<T: Send + 'static>(
    bytes: usize,
    permit: Permit,
    write: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, Permit), Error> {
    match bytes <= LARGE {
        true => Ok((write(), permit)),
        false => offload_covered(permit, write).await,
    }
}

/// A reply that keeps the room it takes until it is written.
fn with_room(reply: EncodedReply, permit: Permit) -> Response<Segments> {
    let mut response = respond::ok(reply);
    response.body_mut().hold(permit);
    response
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use bytes::Bytes;
    use inference::limits::Budget;

    #[test]
    fn a_body_whose_tokens_never_fit_is_too_large_where_it_is_alone() {
        let (body, budget) = (Bytes::from(vec![b' '; 100]), Budget::new(1_000));
        let mut permit = budget.take(body.len()).unwrap();
        let never = take_room(&mut permit, &body).unwrap_err();
        assert!(matches!(never, Error::NeverFits { limit: 1_000, .. }), "{never}");
        let _other = budget.take(1);
        let later = take_room(&mut permit, &body).unwrap_err();
        assert!(matches!(later, Error::OutOfBudget(_)), "{later}");
    }

    #[tokio::test]
    async fn long_replies_are_written_on_the_pool() {
        let here = thread::current().id();
        let budget = Budget::new(1);
        let place = async |bytes| {
            let permit = budget.take(0).unwrap();
            written(bytes, permit, || thread::current().id()).await.unwrap().0
        };
        assert_eq!(place(LARGE).await, here);
        assert_ne!(place(LARGE + 1).await, here);
    }
}

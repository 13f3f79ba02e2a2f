//! A body for a ranker where the address does not say what is asked for: a ranking if it has a query, else the classes
//! of texts.

use std::sync::Arc;

use super::predict::{self, PredictFormat};
use crate::codec::{
    rerank::{self, RerankFormat},
    terms::Terms,
};
use formats::{EncodedReply, json::JsonReader};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

/// What the reply needs of its request.
#[derive(Debug, Clone)]
pub enum RankerFormat {
    /// A ranking.
    Ranks(RerankFormat),
    /// Classes.
    Classes(PredictFormat),
}

/// `{"query", "texts", ..}` of `/rerank`, or `{"inputs", ..}` of `/predict`.
///
/// # Errors
/// What is wrong with it.
pub fn decode(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, RankerFormat), Error> {
    let mut has_query = false;
    JsonReader::preview(body, grant)?.object(|reader, key| {
        has_query |= &*key == "query";
        reader.skip_value()
    })?;
    Ok(match has_query {
        true => {
            let (request, format) = rerank::decode_texts(signature, terms, body, grant)?;
            (request, RankerFormat::Ranks(format))
        }
        false => {
            let (request, format) = predict::decode(signature, terms, body, grant)?;
            (request, RankerFormat::Classes(format))
        }
    })
}

/// The reply of that address.
///
/// # Errors
/// When the response does not say it.
pub fn encode(
    format: &RankerFormat,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    match format {
        RankerFormat::Ranks(format) => rerank::encode(format, signature, response, grant),
        RankerFormat::Classes(format) => predict::encode(format, signature, response, grant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples;
    use inference::task::Task;

    #[test]
    fn a_body_with_a_query_is_a_ranking_and_another_has_classes() {
        let read = |body: &str| {
            let signature = samples::model(3, &["text BYTES [1]", "text_pair? BYTES [1]"], &[]);
            let terms = Arc::new(crate::codec::terms::sample());
            decode(&signature, terms, body.as_bytes(), samples::grant())
        };
        let task = |body: &str| read(body).unwrap().0.task;
        assert_eq!(task(r#"{"query":"q","texts":["a"]}"#), Some(Task::Rerank));
        assert_eq!(task(r#"{"inputs":["a","b"]}"#), Some(Task::TextClassification));
        for wrong in ["{}", "7", r#"{"query":"q"}"#] {
            assert!(
                matches!(
                    read(wrong),
                    Err(Error::InvalidRequest(_) | Error::InvalidParameter { .. })
                ),
                "{wrong}"
            );
        }
    }
}

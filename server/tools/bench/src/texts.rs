//! Requests of one text each, as clients of text models send them, and what their answers look like.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{Error, Method, Request, invocations, random::Random};

/// Whose form a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRoute {
    /// OpenAI's, as its client sends it: vectors come as base64.
    OpenaiEmbeddings,
    /// That of text-embeddings-inference.
    TeiEmbed,
    /// That of Hugging Face's containers on SageMaker.
    HfInvocations,
}

impl TextRoute {
    /// The request for a text; `model` goes into bodies that name one.
    ///
    /// # Errors
    /// None with the paths and headers of today.
    pub fn request(self, model: Option<&str>, text: &str) -> Result<Request, Error> {
        let json = "application/json";
        let post = |path: &str, body: Value| {
            let request = Request::new(Method::Post, path)?.header("Content-Type", json)?;
            Ok(request.body(body.to_string()))
        };
        match (self, model) {
            (TextRoute::OpenaiEmbeddings, None) => {
                post("/v1/embeddings", json!({"input": text, "encoding_format": "base64"}))
            }
            (TextRoute::OpenaiEmbeddings, Some(model)) => {
                let body = json!({"input": text, "model": model, "encoding_format": "base64"});
                post("/v1/embeddings", body)
            }
            (TextRoute::TeiEmbed, _) => post("/embed", json!({"inputs": text})),
            (TextRoute::HfInvocations, _) => invocations(json, json!({"inputs": text}).to_string()),
        }
    }

    /// Does a body look like the answer to such a request?
    pub fn is_answer(self, body: &[u8]) -> bool {
        let Ok(answer) = serde_json::from_slice::<Value>(body) else { return false };
        match self {
            TextRoute::OpenaiEmbeddings => {
                let vector = answer.pointer("/data/0/embedding").and_then(Value::as_str);
                vector.is_some_and(|it| !it.is_empty())
            }
            TextRoute::TeiEmbed => answer.pointer("/0/0").is_some_and(Value::is_number),
            TextRoute::HfInvocations => answer.get("error").is_none(),
        }
    }
}

/// The lines of a file that are not empty, in an order that depends on the seed alone.
///
/// # Errors
/// When the file cannot be read, is not UTF-8, or holds no text.
pub(crate) fn read_texts(file: &Path, seed: u64) -> Result<Vec<String>, Error> {
    let failed = |source| Error::File { path: file.to_owned(), source };
    let all = fs::read_to_string(file).map_err(failed)?;
    let lines = all.lines().filter(|it| !it.trim().is_empty());
    let mut texts: Vec<String> = lines.map(str::to_owned).collect();
    if texts.is_empty() {
        return Err(Error::plan("--texts", format!("{}: expected a text", file.display())));
    }
    let mut random = Random::new(seed);
    for last in (1..texts.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        texts.swap(last, other);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(route: TextRoute, model: Option<&str>) -> String {
        let request = route.request(model, "a \"b\"").unwrap();
        String::from_utf8(request.encode("h")).unwrap()
    }

    #[test]
    fn bodies_are_those_of_each_client() {
        let openai = sent(TextRoute::OpenaiEmbeddings, Some("m"));
        assert!(openai.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{openai}");
        let body: Value = serde_json::from_str(openai.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body, json!({"input": "a \"b\"", "model": "m", "encoding_format": "base64"}));
        assert!(!sent(TextRoute::OpenaiEmbeddings, None).contains("model"));
        let tei = sent(TextRoute::TeiEmbed, Some("m"));
        assert!(tei.starts_with("POST /embed ") && tei.ends_with(r#"{"inputs":"a \"b\""}"#));
        let hf = sent(TextRoute::HfInvocations, None);
        assert!(hf.starts_with("POST /invocations ") && hf.ends_with(r#"{"inputs":"a \"b\""}"#));
    }

    #[test]
    fn an_answer_is_told_from_an_error() {
        for (route, right) in [
            (TextRoute::OpenaiEmbeddings, r#"{"data":[{"embedding":"AAAA"}]}"#),
            (TextRoute::TeiEmbed, "[[0.5]]"),
            (TextRoute::HfInvocations, r#"[{"label":"a","score":1}]"#),
        ] {
            assert!(route.is_answer(right.as_bytes()), "{right}");
            assert!(!route.is_answer(br#"{"error":"x","data":[]}"#));
            assert!(!route.is_answer(b"<html>"));
        }
    }

    #[test]
    fn texts_come_in_the_order_of_their_seed() {
        let file = std::env::temp_dir().join(format!("muster-texts-{}", std::process::id()));
        fs::write(&file, "a\n\nb\nc\nd\ne\n").unwrap();
        let (one, same, other) = (read_texts(&file, 1), read_texts(&file, 1), read_texts(&file, 2));
        let (mut one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(one, same.unwrap());
        assert_ne!(one, other);
        one.sort();
        assert_eq!(one, ["a", "b", "c", "d", "e"]);
        fs::write(&file, "\n").unwrap();
        assert!(read_texts(&file, 1).unwrap_err().to_string().contains("expected a text"));
        fs::remove_file(&file).unwrap();
    }
}

//! What SageMaker's runtime says around the replies of a model: exceptions, locations in S3, and the notes of
//! asynchronous invocations. Pure.

mod location;
mod note;

pub use location::Location;
pub use note::{Note, Outcome};

use formats::json::write;

/// The body of an exception that has nothing but a sentence.
pub fn message(text: &str) -> Vec<u8> {
    let mut out = b"{".to_vec();
    write::key(&mut out, "Message");
    write::string(&mut out, text);
    out.push(b'}');
    out
}

/// The body of an exception of services whose clients read its name there. Both spellings of the text are there, for
/// each service has its own.
pub fn named_message(name: &str, text: &str) -> Vec<u8> {
    let mut out = b"{".to_vec();
    for (key, value) in [("__type", name), ("Message", text), ("message", text)] {
        write::key(&mut out, key);
        write::string(&mut out, value);
    }
    out.push(b'}');
    out
}

/// The body of `ModelError`: the model's container answered with a `status` that is no success, and this text.
pub fn model_error(endpoint: &str, status: u16, text: &str) -> Vec<u8> {
    let mut out = b"{".to_vec();
    write::key(&mut out, "Message");
    write::string(&mut out, &model_message(status, text));
    write::key(&mut out, "OriginalStatusCode");
    write::number(&mut out, status);
    write::key(&mut out, "OriginalMessage");
    write::string(&mut out, text);
    write::key(&mut out, "LogStreamArn");
    // There is no such stream; clients only look for the field.
    write::string(
        &mut out,
        &format!("arn:aws:logs:local:000000000000:log-group:/aws/sagemaker/Endpoints/{endpoint}"),
    );
    out.push(b'}');
    out
}

/// What the platform says of such an answer of the model's container.
pub fn model_message(status: u16, text: &str) -> String {
    let whose = if status < 500 { "client" } else { "server" };
    format!("Received {whose} error ({status}) from the model with message \"{text}\"")
}

/// The body of the answer to an asynchronous invocation that was taken.
pub fn accepted(inference_id: &str) -> Vec<u8> {
    let mut out = b"{".to_vec();
    write::key(&mut out, "InferenceId");
    write::string(&mut out, inference_id);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_model_has_its_status_and_its_text() {
        let text = String::from_utf8(model_error("e", 400, "{\"error\":\"x\"}")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["OriginalStatusCode"], 400);
        assert_eq!(json["OriginalMessage"], "{\"error\":\"x\"}");
        let said = json["Message"].as_str().unwrap();
        assert!(said.contains("client error (400)") && said.contains("\"error\":\"x\""), "{said}");
        assert!(json["LogStreamArn"].as_str().unwrap().starts_with("arn:aws:logs:"));
        assert!(String::from_utf8(model_error("e", 503, "")).unwrap().contains("server error"));
    }

    #[test]
    fn sentences_and_answers_are_objects_of_one_key() {
        assert_eq!(message("a \"b\""), br#"{"Message":"a \"b\""}"#);
        assert_eq!(accepted("i"), br#"{"InferenceId":"i"}"#);
        let named = br#"{"__type":"N","Message":"a \"b\"","message":"a \"b\""}"#;
        assert_eq!(named_message("N", "a \"b\""), named);
    }
}

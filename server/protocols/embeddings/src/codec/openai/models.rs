//! The list of models.

use formats::{EncodedReply, json::write};

/// A model of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel<'a> {
    /// Its name.
    pub id: &'a str,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// What it does.
    pub tasks: Vec<&'static str>,
}

/// `{"object":"list","data":[{"id","object":"model","created","owned_by","tasks"}]}`, and behind it `beside`, the
/// entries of an object, which OpenAI's clients do not look at.
pub fn models<'a>(models: impl IntoIterator<Item = ListedModel<'a>>, beside: &str) -> EncodedReply {
    let mut out = b"{\"object\":\"list\",\"data\":[".to_vec();
    for model in models {
        write::item(&mut out);
        out.push(b'{');
        write::key(&mut out, "id");
        write::string(&mut out, model.id);
        out.extend_from_slice(b",\"object\":\"model\"");
        write::key(&mut out, "created");
        write::number(&mut out, model.created);
        out.extend_from_slice(b",\"owned_by\":\"muster\"");
        write::key(&mut out, "tasks");
        out.push(b'[');
        for task in model.tasks {
            write::item(&mut out);
            write::string(&mut out, task);
        }
        out.extend_from_slice(b"]}");
    }
    out.push(b']');
    if !beside.is_empty() {
        out.push(b',');
        out.extend_from_slice(beside.as_bytes());
    }
    out.push(b'}');
    EncodedReply::json(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::body;

    #[test]
    fn a_model_is_listed_with_what_it_does() {
        let tasks = vec!["sentence-embedding", "rerank"];
        let list = body(&models([ListedModel { id: "a\"b", created: 7, tasks }], ""));
        let expected = r#"{"object":"list","data":[{"id":"a\"b","object":"model","created":7,"owned_by":"muster","tasks":["sentence-embedding","rerank"]}]}"#;
        assert_eq!(list, expected);
        assert_eq!(
            body(&models([], "\"models\":[\"c\"]")),
            r#"{"object":"list","data":[],"models":["c"]}"#
        );
    }
}

//! The note on what became of an asynchronous invocation, with the keys of the platform's notifications. Pure.

use formats::json::write;

/// What is noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note<'a> {
    /// The client's name for the invocation, or the one that it was given.
    pub inference_id: &'a str,
    /// Who was invoked.
    pub endpoint: &'a str,
    /// The type of the request's body; `None` where the client did not say.
    pub content_type: Option<&'a str>,
    /// The address of the request's body; `None` where it came with the request.
    pub input: Option<&'a str>,
    /// The type of the reply's body; `None` for none.
    pub reply_type: Option<&'a str>,
    /// The address of the reply's body, or of the failure's.
    pub output: &'a str,
    /// How it ended.
    pub outcome: Outcome<'a>,
}

/// How an asynchronous invocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// With a reply.
    Completed,
    /// Without one, for this reason.
    Failed(&'a str),
}

impl Note<'_> {
    /// The note as JSON.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"{".to_vec();
        let mut text = |key: &str, value: &str| {
            write::key(&mut out, key);
            write::string(&mut out, value);
        };
        let (status, reason) = match self.outcome {
            Outcome::Completed => ("Completed", None),
            Outcome::Failed(reason) => ("Failed", Some(reason)),
        };
        text("invocationStatus", status);
        text("inferenceId", self.inference_id);
        if let Some(reason) = reason {
            text("failureReason", reason);
        }
        let request = [
            ("contentType", self.content_type),
            ("endpointName", Some(self.endpoint)),
            ("inputLocation", self.input),
        ];
        write::key(&mut out, "requestParameters");
        object(&mut out, &request);
        write::key(&mut out, "responseParameters");
        object(
            &mut out,
            &[("contentType", self.reply_type), ("outputLocation", Some(self.output))],
        );
        out.push(b'}');
        out
    }
}

/// The texts that are there.
fn object(out: &mut Vec<u8>, texts: &[(&str, Option<&str>)]) {
    out.push(b'{');
    for (key, value) in texts {
        let Some(value) = value else { continue };
        write::key(out, key);
        write::string(out, value);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_the_keys_of_the_platforms_notifications() {
        let mut note = Note {
            inference_id: "i",
            endpoint: "e",
            content_type: Some("text/csv"),
            input: Some("s3://b/in"),
            reply_type: Some("application/json"),
            output: "s3://b/out",
            outcome: Outcome::Completed,
        };
        let text = String::from_utf8(note.encode()).unwrap();
        assert_eq!(
            text,
            r#"{"invocationStatus":"Completed","inferenceId":"i","requestParameters":{"contentType":"text/csv","endpointName":"e","inputLocation":"s3://b/in"},"responseParameters":{"contentType":"application/json","outputLocation":"s3://b/out"}}"#
        );
        (note.content_type, note.input) = (None, None);
        note.outcome = Outcome::Failed("too \"late\"");
        let text = String::from_utf8(note.encode()).unwrap();
        assert_eq!(
            text,
            r#"{"invocationStatus":"Failed","inferenceId":"i","failureReason":"too \"late\"","requestParameters":{"endpointName":"e"},"responseParameters":{"contentType":"application/json","outputLocation":"s3://b/out"}}"#
        );
    }
}

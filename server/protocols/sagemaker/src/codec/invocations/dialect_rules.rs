//! The table of dialects: what each container does where a request leaves a choice.

use super::{Options, ReplyFormat, dialect::Dialect, huggingface::PipelineReply, sniff::Document};
use formats::{
    errors::ErrorForm,
    negotiate::{self, Declared, Media},
};

/// What holds where the request leaves a choice. `None`: the body decides.
pub(super) struct DialectRules {
    /// The format of a JSON reply.
    pub(super) json_reply: Option<ReplyFormat>,
    /// The media type of a reply to a client that accepts any.
    pub(super) reply_media: Option<Media>,
    /// The format of a reply as JSON lines, outside of batch jobs.
    pub(super) lines: Option<ReplyFormat>,
    /// The keys of errors. The content type decides where this does not.
    pub(super) errors: Option<ErrorForm>,
    /// What an object is whose `inputs` describe no tensors.
    pub(super) inputs: Option<Document>,
    /// What an object with `instances` is.
    pub(super) instances: Option<Document>,
    /// Is every JSON document KServe v2?
    pub(super) only_kserve_v2: bool,
    /// Is what has no brackets of its own put into some? A JSON value is a row, then, and fields of one column are no
    /// lists.
    pub(super) scalars: bool,
    /// Which CSV bodies have a first record with names, beside those in which it has the names of inputs?
    pub(super) tables: Tables,
}

/// CSV bodies whose first record names columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// No others.
    Named,
    /// Those that begin with words where the model takes numbers.
    Words,
    /// Every one.
    All,
}

/// Where nothing tells which dialect it is.
const UNKNOWN: DialectRules = DialectRules {
    json_reply: None,
    reply_media: None,
    lines: None,
    errors: None,
    inputs: None,
    instances: None,
    only_kserve_v2: false,
    scalars: false,
    tables: Tables::Named,
};

impl Options {
    /// What holds where a request leaves a choice: the operator's dialect, or that of the container whose place this
    /// one takes.
    pub(super) fn rules(&self) -> DialectRules {
        let is_named = self.dialect.is_some();
        let Some(dialect) = self.dialect.or(self.vendor) else { return UNKNOWN };
        let plain = DialectRules { errors: Some(ErrorForm::Plain), ..UNKNOWN };
        match dialect {
            Dialect::Tfs => DialectRules {
                json_reply: Some(ReplyFormat::Rows),
                reply_media: Some(Media::Json),
                lines: Some(ReplyFormat::Rows),
                inputs: Some(Document::Tfs),
                scalars: true,
                ..plain
            },
            Dialect::Triton => DialectRules { only_kserve_v2: is_named, ..plain },
            Dialect::HuggingFace => DialectRules {
                json_reply: Some(ReplyFormat::HuggingFace(PipelineReply::default())),
                reply_media: Some(Media::Json),
                errors: Some(ErrorForm::Mms),
                inputs: Some(Document::HuggingFace),
                tables: Tables::Words,
                ..UNKNOWN
            },
            Dialect::Toolkit => DialectRules {
                json_reply: Some(ReplyFormat::Bare),
                // Other containers are made with the toolkits and set their variables, too.
                reply_media: is_named.then_some(Media::Json),
                errors: Some(ErrorForm::Mms),
                ..UNKNOWN
            },
            Dialect::Xgboost | Dialect::BuiltIn | Dialect::JumpStart => plain,
            Dialect::Mlflow => DialectRules {
                json_reply: Some(ReplyFormat::Rows),
                reply_media: Some(Media::Json),
                inputs: Some(Document::Mlflow),
                instances: Some(Document::Mlflow),
                tables: Tables::All,
                ..plain
            },
        }
    }

    /// Which keys the errors of a request have. Its body may never have been read: only settings and the type of the
    /// content tell.
    pub fn error_form(&self, content_type: Option<&str>) -> ErrorForm {
        self.rules().errors.unwrap_or_else(|| match negotiate::declared(content_type) {
            Declared::As(Media::Npy | Media::Npz) | Declared::File => ErrorForm::Mms,
            _ => ErrorForm::Plain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_the_type_of_the_content_tell_which_keys_there_are() {
        let form = |dialect, content_type| {
            Options { dialect, ..Options::default() }.error_form(content_type)
        };
        assert_eq!(form(Some(Dialect::HuggingFace), None), ErrorForm::Mms);
        assert_eq!(form(Some(Dialect::Tfs), Some("application/x-npy")), ErrorForm::Plain);
        assert_eq!(form(None, Some("application/x-npy")), ErrorForm::Mms);
        assert_eq!(form(None, Some("image/png")), ErrorForm::Mms);
        assert_eq!(form(None, Some("application/json")), ErrorForm::Plain);
        assert_eq!(form(None, None), ErrorForm::Plain);
    }
}

//! The form of a reply of Hugging Face's pipelines.

/// The form of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PipelineReply {
    /// Was the request one object or one text, and no list?
    pub(super) one: bool,
    /// How many classes are wanted of each text.
    pub(super) top: Top,
}

/// Classes of an image or a sound where the request does not say how many, as in transformers.
const MANY_CLASSES: usize = 5;

/// How many classes of a row a reply has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Top {
    /// Nothing says how many: the best one by itself.
    #[default]
    Open,
    /// The best ones, as a list of at most that many.
    Most(usize),
}

impl Top {
    /// What a task of that name gives where a request leaves it open.
    pub fn of_task(name: &str) -> Top {
        match name {
            "image-classification" | "audio-classification" => Top::Most(MANY_CLASSES),
            _ => Top::Open,
        }
    }
}

impl PipelineReply {
    /// Of one text.
    pub(in crate::codec::invocations) const TEXT: PipelineReply =
        PipelineReply { one: true, top: Top::Open };
    /// Of one image: its best five classes.
    pub(in crate::codec::invocations) const IMAGE: PipelineReply =
        PipelineReply { one: true, top: Top::Most(MANY_CLASSES) };

    /// The same, of several.
    pub(in crate::codec::invocations) fn of_list(self) -> PipelineReply {
        PipelineReply { one: false, ..self }
    }

    /// The same, with so many classes where the request leaves that open.
    pub(in crate::codec::invocations) fn or_top(self, usual: Top) -> PipelineReply {
        let top = if self.top == Top::Open { usual } else { self.top };
        PipelineReply { top, ..self }
    }
}

//! The form of a reply of Hugging Face's pipelines.

/// The form of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pipeline {
    /// Was the request one object or one text, and no list?
    pub(super) one: bool,
    /// How many classes are wanted of each text.
    pub(super) top: Top,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Top {
    /// The best one, by itself.
    #[default]
    Best,
    /// The best ones, as a list of at most that many.
    Most(usize),
}

impl Pipeline {
    /// Of one image: its best five classes.
    pub(in crate::sagemaker) const IMAGE: Pipeline = Pipeline { one: true, top: Top::Most(5) };
}

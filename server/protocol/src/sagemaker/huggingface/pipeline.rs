//! The form of a reply of Hugging Face's pipelines.

/// The form of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pipeline {
    /// Was the request one object or one text, and no list?
    pub(super) one: bool,
    /// How many classes are wanted of each text.
    pub(super) top: Top,
}

/// Classes of an image or a sound where the request does not say how many, as in transformers.
const MANY_CLASSES: usize = 5;

/// What the pipeline is for, as far as it says how many classes there are by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Task {
    /// Any task with one class.
    #[default]
    Other,
    /// Images or sounds are classified.
    ManyClasses,
}

impl Task {
    /// The task that `HF_TASK` names.
    pub fn of_name(name: &str) -> Task {
        match name {
            "image-classification" | "audio-classification" => Task::ManyClasses,
            _ => Task::Other,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Top {
    /// The request leaves it open: the best one by itself, unless the task has another habit.
    #[default]
    Open,
    /// The best ones, as a list of at most that many.
    Most(usize),
}

impl Pipeline {
    /// Of one text.
    pub(in crate::sagemaker) const TEXT: Pipeline = Pipeline { one: true, top: Top::Open };
    /// Of one image: its best five classes.
    pub(in crate::sagemaker) const IMAGE: Pipeline =
        Pipeline { one: true, top: Top::Most(MANY_CLASSES) };

    /// The same, with as many classes as the task gives where the request leaves that open.
    pub(in crate::sagemaker) fn of_task(self, task: Task) -> Pipeline {
        let top = match (self.top, task) {
            (Top::Open, Task::ManyClasses) => Top::Most(MANY_CLASSES),
            (top, _) => top,
        };
        Pipeline { top, ..self }
    }
}

//! What can be known of a task without running it: the columns of the table of tasks.

use backend::DataType;

use crate::task_names::Medium;

/// What is known of one task. Whoever asks one of these questions reads the answer here, and does not match on tasks.
#[derive(Debug, Clone, Copy)]
pub struct TaskFacts {
    /// The name in requests, files and logs.
    pub name: &'static str,
    /// Other names by which requests and files may call it.
    pub aliases: &'static [&'static str],
    /// What its inputs are.
    pub medium: Medium,
    /// The inputs of a request: one list, or several to choose from.
    pub inputs: &'static [&'static [InputFacts]],
    /// What one row of these inputs is.
    pub row: RowForm,
    /// The same in words: what stands behind "the task takes".
    pub takes: &'static str,
    /// May the tokens of a text take its place?
    pub takes_ids: bool,
    /// The names of the parameters of a request: those of the task, then those that it shares with others.
    pub parameters: [&'static [&'static str]; 2],
    /// What it gives in front of the output that every task has, which is what it says as JSON.
    pub outputs: &'static [OutputFacts],
    /// What it gives only where a request names it.
    pub on_request: &'static [OutputFacts],
    /// Does an answer repeat the text that it is for?
    pub repeats_text: bool,
    /// Does an answer have a vector for each part of an input, so that it is thousands of times as long?
    pub gives_vectors_of_parts: bool,
    /// Is an answer of few rows made in less time than a hand-off to another thread takes?
    pub is_short: bool,
    /// What a graph gives that is for this task.
    pub graph: GraphGives,
    /// How the names of architectures end that are for this task and no other.
    pub architectures: &'static [&'static str],
    /// Where Text Embeddings Inference is asked for it, below the address of a model; `None` where that server has no
    /// such task.
    pub tei_address: Option<&'static str>,
    /// What that server calls models for the task.
    pub tei_kind: TeiKind,
    /// How a reply on the hub's route looks.
    pub hub: HubReply,
    /// Is the reply to one text its best class by itself, where SageMaker's container for Hugging Face answers, and the
    /// request names neither classes nor their number?
    pub gives_best_class: bool,
    /// How a reply as CSV looks.
    pub csv: Csv,
}

/// One input of a task.
#[derive(Debug, Clone, Copy)]
pub struct InputFacts {
    /// Its name.
    pub name: &'static str,
    /// How much of it a row has.
    pub kind: InputKind,
}

/// How much of an input a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// One text or file.
    One,
    /// One, or the request has none of it.
    Optional,
    /// Any number of them, which is the same for all rows.
    List,
}

/// What one row of the inputs of a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowForm {
    /// A text or a file; where there is a second text, a pair.
    One,
    /// A text or a file, and the classes to choose from, which a parameter names.
    Labels,
    /// A text, and those with which it is compared.
    Compared,
    /// A query, and the texts that it ranks.
    Ranked,
    /// An image, a text, or both.
    Towers,
}

/// One output of a task.
#[derive(Debug, Clone, Copy)]
pub struct OutputFacts {
    /// Its name.
    pub name: &'static str,
    /// The type of its elements.
    pub dtype: DataType,
    /// The shape of a row.
    pub shape: &'static [Width],
    /// Given only where the request has this input.
    pub of: Option<&'static str>,
}

/// One dimension of the row of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// That many.
    Exactly(usize),
    /// As many as there are, which may differ by request.
    Any,
    /// As many as a vector of the model has.
    Vector,
    /// As many as the vector of an image has.
    ImageVector,
    /// As many as the vector of a text has, of a model with a tower for images and one for texts.
    TextVector,
}

/// What a graph gives. A folder for one task may be asked for another one of the same graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphGives {
    /// A number for each class of a text.
    TextClasses,
    /// A number for each class of each token.
    TokenClasses,
    /// The first and the last token of an answer.
    Spans,
    /// A number for each token of the vocabulary.
    Vocabulary,
    /// Vectors of tokens. Exporters leave the name of the architecture as it was when they leave its head out, so any
    /// folder of texts may have such a graph.
    TokenVectors,
    /// A number for each class of an image.
    ImageClasses,
    /// Boxes in an image.
    Boxes,
    /// Vectors of the patches of an image, which any folder of images may give.
    ImageVectors,
    /// Vectors of images and of texts, or how near they are to each other.
    Towers,
    /// A number for each class of a sound.
    SoundClasses,
    /// A number for each letter, in each moment of a sound.
    Letters,
}

/// What Text Embeddings Inference calls a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeiKind {
    /// It makes vectors.
    Vectors,
    /// It makes sparse vectors.
    SparseVectors,
    /// It finds classes.
    Classifier,
    /// It ranks.
    Ranker,
    /// It is none of these.
    Other,
}

/// How a reply on the hub's route looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubReply {
    /// What is said of one input is the reply; of a list it is a list.
    One,
    /// A list, since the hub's client takes the first of it.
    List,
    /// The same, of all classes where a request does not say how many.
    AllClasses,
    /// As [`HubReply::One`], but with an object for each class in place of two lists.
    Candidates,
}

/// How a reply as CSV looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Csv {
    /// A line for each object of what is said of a row, under the names of their keys. These are the names where there
    /// is no object; none where that is an empty table.
    Objects(&'static [&'static str]),
    /// The numbers of the outputs, in columns by number.
    Numbers,
}

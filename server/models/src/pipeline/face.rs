//! What clients see of a pipeline: its inputs and outputs by task, and the other forms that a request may have.

use std::sync::Arc;

use backend::DataType;

use inference::{
    signature::{Form, Pipeline, Port, Signature},
    task::{
        AUDIO, BOX, CLASS, CONTEXT, COUNT, EMBEDDING, IMAGE, IMAGE_EMBEDS, LABEL, Medium, QUERY,
        QUESTION, RESULT, SCORE, SENTENCES, SIZE, SOURCE_SENTENCE, TEXT, TEXT_EMBEDS, TEXT_PAIR,
        TEXTS, TOKEN_IDS, TOKENS, TRUNCATED, Task,
    },
};

/// What is known of a pipeline beside its tasks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// The length of its vectors, where it is known.
    pub(crate) dimensions: Option<usize>,
    /// The lengths of the vectors of its images and of its texts, where it has a tower for each.
    pub(crate) tower_dimensions: [Option<usize>; 2],
    /// Names of its classes.
    pub(crate) labels: &'a [Arc<str>],
    /// Samples a second that it takes, where it takes sounds.
    pub(crate) sampling_rate: Option<u32>,
    /// What decodes JPEG, where it takes images.
    pub(crate) jpeg: Option<&'a str>,
}

/// The face of a pipeline over the graph of that face.
pub(crate) fn face(
    graph: &Signature,
    tasks: &[Task],
    known: &Known<'_>,
    most_inputs: usize,
) -> Option<Signature> {
    let Known { labels, sampling_rate, jpeg, .. } = *known;
    let of = |task: Task, inputs: Vec<Port>, pipeline| Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: graph.model.clone(),
        version: graph.version,
        max_batch_size: most_inputs,
        most_rows: Some(most_inputs),
        outputs: outputs(task, &inputs, known),
        inputs,
        on_request: on_request(task),
        pipeline,
    };
    let of = |task: Task, inputs, pipeline| named(of(task, inputs, pipeline), labels);
    let mut all = tasks.iter().flat_map(|task| inputs(*task).into_iter().map(|it| (*task, it)));
    let (task, own) = all.next()?;
    // Of tasks that take the same, the first is meant where a request names none.
    let form = |(task, inputs)| Form { task: Some(task), signature: of(task, inputs, None) };
    let mut forms: Vec<Form> = all.map(form).collect();
    let of_ids = |task: &Task| form((*task, vec![text(TOKEN_IDS)]));
    forms.extend(tasks.iter().filter(|it| takes_ids(**it)).map(of_ids));
    forms.push(Form { task: None, signature: graph.clone() });
    let jpeg = jpeg.map(Arc::from);
    let pipeline = Pipeline { task, forms, row_independent: true, sampling_rate, jpeg };
    Some(of(task, own, Some(Arc::new(pipeline))))
}

/// The same, whose port of class numbers has their names.
fn named(mut face: Signature, labels: &[Arc<str>]) -> Signature {
    let names: Arc<[String]> = labels.iter().map(|it| it.as_ref().to_owned()).collect();
    let ports = face.outputs.iter_mut().chain(&mut face.on_request);
    ports.filter(|it| &*it.name == CLASS).for_each(|it| it.labels = names.clone());
    face
}

/// The inputs that a task takes: one list, or several to choose from.
fn inputs(task: Task) -> Vec<Vec<Port>> {
    let inputs = match task {
        Task::ImageTextEmbedding => {
            let (image, words) = (text(IMAGE), text(TEXT));
            return vec![vec![image.clone()], vec![words.clone()], vec![image, words]];
        }
        Task::TextClassification => vec![text(TEXT), optional(text(TEXT_PAIR))],
        Task::QuestionAnswering => vec![text(QUESTION), text(CONTEXT)],
        Task::SentenceSimilarity => vec![text(SOURCE_SENTENCE), texts(SENTENCES)],
        Task::Rerank => vec![text(QUERY), texts(TEXTS)],
        Task::TokenClassification
        | Task::FillMask
        | Task::ZeroShotClassification
        | Task::FeatureExtraction
        | Task::SentenceEmbedding
        | Task::SparseEmbedding => vec![text(TEXT)],
        Task::ImageClassification
        | Task::ObjectDetection
        | Task::ImageFeatureExtraction
        | Task::ZeroShotImageClassification => vec![text(IMAGE)],
        Task::AudioClassification | Task::AutomaticSpeechRecognition => vec![text(AUDIO)],
    };
    vec![inputs]
}

/// Does a task of one text also take the tokens of it?
fn takes_ids(task: Task) -> bool {
    match task {
        Task::TextClassification
        | Task::FeatureExtraction
        | Task::SentenceEmbedding
        | Task::SparseEmbedding => true,
        Task::TokenClassification
        | Task::QuestionAnswering
        | Task::FillMask
        | Task::ZeroShotClassification
        | Task::SentenceSimilarity
        | Task::Rerank
        | Task::ImageClassification
        | Task::ObjectDetection
        | Task::ImageFeatureExtraction
        | Task::ZeroShotImageClassification
        | Task::ImageTextEmbedding
        | Task::AudioClassification
        | Task::AutomaticSpeechRecognition => false,
    }
}

/// What a task gives for these inputs.
fn outputs(task: Task, inputs: &[Port], known: &Known<'_>) -> Vec<Port> {
    let many = |name, dtype| port(name, dtype, None);
    let result = port(RESULT, DataType::Bytes, Some(1));
    let mut outputs = match task {
        Task::TextClassification
        | Task::ZeroShotClassification
        | Task::ImageClassification
        | Task::ZeroShotImageClassification
        | Task::AudioClassification => {
            vec![many(LABEL, DataType::Bytes), many(SCORE, DataType::Fp32)]
        }
        Task::SentenceEmbedding => vec![port(EMBEDDING, DataType::Fp32, known.dimensions)],
        Task::ObjectDetection => vec![
            Port { dims: vec![None, Some(4)], ..many(BOX, DataType::Fp32) },
            many(SCORE, DataType::Fp32),
            many(CLASS, DataType::Int64),
            many(LABEL, DataType::Bytes),
            port(COUNT, DataType::Int64, Some(1)),
        ],
        Task::ImageTextEmbedding => {
            let [image, words] = known.tower_dimensions;
            let vectors = [(TEXT, TEXT_EMBEDS, words), (IMAGE, IMAGE_EMBEDS, image)];
            let given = |name: &str| inputs.iter().any(|it| &*it.name == name);
            let given = vectors.into_iter().filter(|(of, ..)| given(of));
            given.map(|(_, name, width)| port(name, DataType::Fp32, width)).collect()
        }
        Task::AutomaticSpeechRecognition => vec![text(TEXT)],
        Task::SentenceSimilarity | Task::Rerank => vec![many(SCORE, DataType::Fp32)],
        Task::TokenClassification
        | Task::QuestionAnswering
        | Task::FillMask
        | Task::FeatureExtraction
        | Task::ImageFeatureExtraction
        | Task::SparseEmbedding => Vec::new(),
    };
    outputs.push(result);
    outputs
}

/// Outputs that are given only where they are named.
fn on_request(task: Task) -> Vec<Port> {
    let mut ports = match task.medium() {
        Medium::Text => {
            vec![port(TOKENS, DataType::Int64, Some(1)), port(TRUNCATED, DataType::Bool, Some(1))]
        }
        Medium::Image | Medium::Audio => Vec::new(),
    };
    if matches!(
        task,
        Task::TextClassification | Task::ImageClassification | Task::AudioClassification
    ) {
        ports.push(port(CLASS, DataType::Int64, None));
    }
    if task == Task::ObjectDetection {
        ports.push(port(SIZE, DataType::Int64, Some(2)));
    }
    ports
}

fn text(name: &str) -> Port {
    port(name, DataType::Bytes, Some(1))
}

fn texts(name: &str) -> Port {
    port(name, DataType::Bytes, None)
}

fn optional(port: Port) -> Port {
    Port { optional: true, ..port }
}

fn port(name: &str, dtype: DataType, dim: Option<usize>) -> Port {
    let labels = Default::default();
    Port {
        name: name.into(),
        dtype,
        dims: vec![dim],
        any_rank: false,
        scalar: false,
        optional: false,
        labels,
        text_codes: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{NamedTensor, Shape, Tensor};

    fn graph() -> Signature {
        let ids = port("input_ids", DataType::Int64, None);
        Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size: 4,
            most_rows: None,
            inputs: vec![ids],
            outputs: vec![port("logits", DataType::Fp32, Some(2))],
            on_request: Vec::new(),
            pipeline: None,
        }
    }

    fn names(ports: &[Port]) -> Vec<&str> {
        ports.iter().map(|it| &*it.name).collect()
    }

    #[test]
    fn an_embedder_takes_a_text_or_sentences_to_compare_or_what_its_graph_takes() {
        let face = face(&graph(), &tasks_of_embedder(), &known(), 8).unwrap();
        assert_eq!(names(&face.inputs), ["text"]);
        assert_eq!(names(&face.outputs), ["embedding", "result"]);
        let forms = &face.pipeline.as_ref().unwrap().forms;
        let tasks: Vec<Option<Task>> = forms.iter().map(|it| it.task).collect();
        let (vectors, embedding) = (Some(Task::FeatureExtraction), Some(Task::SentenceEmbedding));
        assert_eq!(tasks, [vectors, Some(Task::SentenceSimilarity), embedding, vectors, None]);
        assert!(face.input("input_ids").is_some() && face.output("logits").is_some());
        assert_eq!(face.tasks(), tasks_of_embedder());
    }

    fn known() -> Known<'static> {
        Known { dimensions: Some(32), ..Known::default() }
    }

    fn tasks_of_embedder() -> [Task; 3] {
        [Task::SentenceEmbedding, Task::FeatureExtraction, Task::SentenceSimilarity]
    }

    fn given(name: &str) -> Vec<NamedTensor> {
        let tensor = Tensor::zeros(DataType::Int64, Shape::new(&[1, 1])).unwrap();
        vec![NamedTensor { name: name.into(), tensor }]
    }

    #[test]
    fn the_task_of_a_request_is_that_of_its_inputs_unless_it_names_one() {
        let face = face(&graph(), &tasks_of_embedder(), &known(), 8).unwrap();
        let of_inputs = |name: &str| face.of_inputs(&given(name)).0;
        assert_eq!(of_inputs("text"), Some(Task::SentenceEmbedding));
        assert_eq!(of_inputs("sentences"), Some(Task::SentenceSimilarity));
        assert_eq!(of_inputs("token_ids"), Some(Task::SentenceEmbedding));
        assert_eq!(of_inputs("input_ids"), None);
        let vectors = |name: &str| face.of_task(Task::FeatureExtraction, &given(name)).unwrap();
        assert_eq!(names(&vectors("text").inputs), ["text"]);
        assert_eq!(names(&vectors("token_ids").inputs), ["token_ids"]);
        assert_eq!(names(&vectors("text").outputs), ["result"]);
        assert!(face.of_task(Task::FillMask, &given("text")).is_none());
    }
}

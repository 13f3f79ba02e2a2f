//! What clients see of a pipeline: its inputs and outputs by task, and the other forms that a request may have.

use std::sync::Arc;

use backend::DataType;

use inference::{
    signature::{Form, Pipeline, Port, Signature},
    task::{CLASS, InputFacts, InputKind, OutputFacts, RESULT, TOKEN_IDS, Task, Width},
};

/// What is known of a pipeline beside its tasks.
#[derive(Debug, Clone, Copy, Default)]
pub struct PipelineFacts<'a> {
    /// The length of its vectors, where it is known.
    pub dimensions: Option<usize>,
    /// The lengths of the vectors of its images and of its texts, where it has a tower for each.
    pub tower_dimensions: [Option<usize>; 2],
    /// Names of its classes.
    pub labels: &'a [Arc<str>],
    /// Samples a second that it takes, where it takes sounds.
    pub sampling_rate: Option<u32>,
    /// What decodes JPEG, where it takes images.
    pub jpeg: Option<&'a str>,
}

/// The face of a pipeline over the graph of that face.
pub fn face(
    graph: &Signature,
    tasks: &[Task],
    known: &PipelineFacts<'_>,
    most_inputs: usize,
) -> Option<Signature> {
    let PipelineFacts { labels, sampling_rate, jpeg, .. } = *known;
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
        on_request: on_request(task, known),
        pipeline,
    };
    let of = |task: Task, inputs, pipeline| named(of(task, inputs, pipeline), labels);
    let mut all = tasks.iter().flat_map(|task| inputs(*task).into_iter().map(|it| (*task, it)));
    let (task, own) = all.next()?;
    // Of tasks that take the same, the first is meant where a request names none.
    let form = |(task, inputs)| Form { task: Some(task), signature: of(task, inputs, None) };
    let mut forms: Vec<Form> = all.map(form).collect();
    let ids = || vec![port(TOKEN_IDS, DataType::Bytes, vec![Some(1)])];
    let of_ids = tasks.iter().filter(|it| it.facts().takes_ids);
    forms.extend(of_ids.map(|task| form((*task, ids()))));
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
    let lists = task.facts().inputs.iter();
    lists.map(|list| list.iter().map(input).collect()).collect()
}

fn input(facts: &InputFacts) -> Port {
    let dim = match facts.kind {
        InputKind::One | InputKind::Optional => Some(1),
        InputKind::List => None,
    };
    let optional = facts.kind == InputKind::Optional;
    Port { optional, ..port(facts.name, DataType::Bytes, vec![dim]) }
}

/// What a task gives for these inputs.
fn outputs(task: Task, inputs: &[Port], known: &PipelineFacts<'_>) -> Vec<Port> {
    let is_given = |name: &str| inputs.iter().any(|it| &*it.name == name);
    let outputs = task.facts().outputs.iter().filter(|it| it.of.is_none_or(is_given));
    let mut outputs: Vec<Port> = outputs.map(|it| output(it, known)).collect();
    outputs.push(port(RESULT, DataType::Bytes, vec![Some(1)]));
    outputs
}

/// Outputs that are given only where they are named.
fn on_request(task: Task, known: &PipelineFacts<'_>) -> Vec<Port> {
    task.facts().on_request.iter().map(|it| output(it, known)).collect()
}

fn output(facts: &OutputFacts, known: &PipelineFacts<'_>) -> Port {
    let [of_images, of_texts] = known.tower_dimensions;
    let dim = |width: &Width| match width {
        Width::Exactly(size) => Some(*size),
        Width::Any => None,
        Width::Vector => known.dimensions,
        Width::ImageVector => of_images,
        Width::TextVector => of_texts,
    };
    port(facts.name, facts.dtype, facts.shape.iter().map(dim).collect())
}

fn port(name: &str, dtype: DataType, dims: Vec<Option<usize>>) -> Port {
    let labels = Default::default();
    Port {
        name: name.into(),
        dtype,
        dims,
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
        let ids = port("input_ids", DataType::Int64, vec![None]);
        Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size: 4,
            most_rows: None,
            inputs: vec![ids],
            outputs: vec![port("logits", DataType::Fp32, vec![Some(2)])],
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

    fn known() -> PipelineFacts<'static> {
        PipelineFacts { dimensions: Some(32), ..PipelineFacts::default() }
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

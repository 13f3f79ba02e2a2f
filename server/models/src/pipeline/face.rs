//! What clients see of a pipeline: its inputs and outputs by task, and the other forms that a request may have.

use backend::DataType;

use inference::{
    signature::{Form, Pipeline, Port, Signature},
    task::{
        CONTEXT, EMBEDDING, LABEL, QUERY, QUESTION, RESULT, SCORE, SENTENCES, SOURCE_SENTENCE,
        TEXT, TEXT_PAIR, TEXTS, Task,
    },
};

/// The face of a pipeline over the graph of that face. `dimensions` is the length of its vectors, where it is known.
pub(crate) fn face(
    graph: &Signature,
    tasks: &[Task],
    dimensions: Option<usize>,
    most_inputs: usize,
) -> Option<Signature> {
    let of = |task: Task, pipeline| Signature {
        model: graph.model.clone(),
        version: graph.version,
        max_batch_size: most_inputs,
        most_rows: Some(most_inputs),
        inputs: inputs(task),
        outputs: outputs(task, dimensions),
        pipeline,
    };
    let (&task, others) = tasks.split_first()?;
    let mut forms: Vec<Form> = Vec::new();
    for &other in others {
        let form = of(other, None);
        // Of tasks that take the same, the model's own is meant.
        let is_taken = form.inputs == inputs(task)
            || forms.iter().any(|it| it.signature.inputs == form.inputs);
        if !is_taken {
            forms.push(Form { task: Some(other), signature: form });
        }
    }
    forms.push(Form { task: None, signature: graph.clone() });
    Some(of(task, Some(std::sync::Arc::new(Pipeline { task, forms }))))
}

fn inputs(task: Task) -> Vec<Port> {
    match task {
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
    }
}

fn outputs(task: Task, dimensions: Option<usize>) -> Vec<Port> {
    let many = |name, dtype| port(name, dtype, None);
    let result = port(RESULT, DataType::Bytes, Some(1));
    let mut outputs = match task {
        Task::TextClassification | Task::ZeroShotClassification => {
            vec![many(LABEL, DataType::Bytes), many(SCORE, DataType::Fp32)]
        }
        Task::SentenceEmbedding => vec![port(EMBEDDING, DataType::Fp32, dimensions)],
        Task::SentenceSimilarity | Task::Rerank => vec![many(SCORE, DataType::Fp32)],
        Task::TokenClassification
        | Task::QuestionAnswering
        | Task::FillMask
        | Task::FeatureExtraction
        | Task::SparseEmbedding => Vec::new(),
    };
    outputs.push(result);
    outputs
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
    Port { name: name.into(), dtype, dims: vec![dim], scalar: false, optional: false, labels }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Signature {
        let ids = port("input_ids", DataType::Int64, None);
        Signature {
            model: "m".into(),
            version: 1,
            max_batch_size: 4,
            most_rows: None,
            inputs: vec![ids],
            outputs: vec![port("logits", DataType::Fp32, Some(2))],
            pipeline: None,
        }
    }

    fn names(ports: &[Port]) -> Vec<&str> {
        ports.iter().map(|it| &*it.name).collect()
    }

    #[test]
    fn an_embedder_takes_a_text_or_sentences_to_compare_or_what_its_graph_takes() {
        let tasks = [Task::SentenceEmbedding, Task::FeatureExtraction, Task::SentenceSimilarity];
        let face = face(&graph(), &tasks, Some(32), 8).unwrap();
        assert_eq!(names(&face.inputs), ["text"]);
        assert_eq!(names(&face.outputs), ["embedding", "result"]);
        let forms = &face.pipeline.as_ref().unwrap().forms;
        let tasks: Vec<Option<Task>> = forms.iter().map(|it| it.task).collect();
        assert_eq!(tasks, [Some(Task::SentenceSimilarity), None]);
        assert!(face.input("input_ids").is_some() && face.output("logits").is_some());
    }
}

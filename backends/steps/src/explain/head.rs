//! The step behind the graph.

use backend::DataType;
use inference::task::{
    CANDIDATE_LABELS, CONTEXT, EMBEDDING, LABEL, RESULT, SCORE, TEXT, TEXT_PAIR,
};

use super::{
    explained::{
        ExplainedFile, ExplainedMember, ExplainedPort, ExplainedValue, file, port, same, text,
    },
    source::{MASK, Source},
};
use crate::{
    folder::{Activation, Link},
    request::Function,
    task::{Embedder, TaskHead},
};

/// What the name of the ensemble is followed by in that of the step.
const HEAD: &str = "head";

/// The step behind the graph, and what clients get.
pub(super) struct HeadPlan {
    /// `None` where the graph gives what clients get.
    pub(super) member: Option<ExplainedMember>,
    /// Tensors of the step in front that it reads.
    pub(super) reads: Vec<&'static str>,
    pub(super) outputs: Vec<ExplainedPort>,
}

impl Source<'_> {
    /// The step, and what clients get.
    pub(super) fn head(&self) -> HeadPlan {
        let labels = ("labels", file(self.labels()));
        let tokenizer = ("file", file(self.tokenizer));
        let result = || port(RESULT, DataType::Bytes, Some(1));
        let classes = || {
            vec![port(LABEL, DataType::Bytes, None), port(SCORE, DataType::Fp32, None), result()]
        };
        let plan = |step, parameters, own: &[&str], reads: &[&'static str], outputs| {
            self.plan(step, parameters, own, reads, outputs)
        };
        match &self.parts.task.head {
            TaskHead::Classifier(classes_of) => {
                let function = ("function", text(classes_of.function.name()));
                plan("classify", vec![labels, function], &["logits"], &[], classes())
            }
            TaskHead::Ranker(classes_of, activation) => {
                // A pair gets what it gets in a ranking of the folder, where the folder says what that is; otherwise
                // texts and pairs get what they get as classes.
                let function = match activation {
                    Activation::Sigmoid => classes_of.function.name(),
                    other => function_of(*other),
                };
                let function = ("function", text(function));
                plan("classify", vec![labels, function], &["logits"], &[], classes())
            }
            TaskHead::Entailment(_) => {
                let outputs = classes().into_iter().take(2).collect();
                let mut head = plan("entail", vec![labels], &["logits"], &[], outputs);
                if let Some(member) = &mut head.member {
                    member.inputs.push(same(CANDIDATE_LABELS));
                }
                head
            }
            TaskHead::Tokens(_) => {
                let reads = ["offsets", "input_ids", "special_tokens_mask"];
                let parameters = vec![labels, tokenizer, ("strategy", text("none"))];
                let mut head = plan("entities", parameters, &["logits"], &reads, vec![result()]);
                if let Some(member) = &mut head.member {
                    member.inputs.push(same(TEXT));
                }
                head
            }
            TaskHead::Answers => {
                let own = ["start_logits", "end_logits"];
                let reads = ["offsets", "word_ids"];
                let mut head = plan("answer", Vec::new(), &own, &reads, vec![result()]);
                if let Some(member) = &mut head.member {
                    member.inputs.push((TEXT_PAIR.to_owned(), CONTEXT.to_owned()));
                }
                head
            }
            TaskHead::Masks => {
                plan("mask", vec![tokenizer], &["logits"], &["input_ids"], vec![result()])
            }
            TaskHead::Embedder(embedder) => self.embedder(embedder),
            TaskHead::Sparse(splade) => {
                let pooling = if splade.is_sum { "sum" } else { "max" };
                let activation = if splade.is_logarithm_twice { "log1p_relu" } else { "relu" };
                let parameters = vec![("pooling", text(pooling)), ("activation", text(activation))];
                let outputs = vec![
                    port("indices", DataType::Int64, None),
                    port("values", DataType::Fp32, None),
                    result(),
                ];
                plan("splade", parameters, &["logits"], &[], outputs)
            }
        }
    }

    /// A step behind the graph that reads the graph's outputs under its own names, and the mask where there is one.
    fn plan(
        &self,
        step: &'static str,
        parameters: Vec<(&'static str, ExplainedValue)>,
        own: &[&str],
        reads: &[&'static str],
        outputs: Vec<ExplainedPort>,
    ) -> HeadPlan {
        let mut reads = reads.to_vec();
        let is_of_tokens = !matches!(step, "classify" | "entail" | "normalize");
        if is_of_tokens && self.parts.inputs.has_mask() {
            reads.push(MASK);
        }
        let graph = own.iter().map(|it| (*it).to_owned()).zip(self.read());
        let inputs = graph.chain(reads.iter().map(|it| same(it))).collect();
        let named = |it: &ExplainedPort| match step {
            "normalize" => ("output".to_owned(), it.name.to_owned()),
            _ => same(it.name),
        };
        let member = ExplainedMember {
            suffix: HEAD,
            step: Some((step, parameters)),
            types: Vec::new(),
            inputs,
            outputs: outputs.iter().map(named).collect(),
        };
        HeadPlan { member: Some(member), reads, outputs }
    }

    fn embedder(&self, embedder: &Embedder) -> HeadPlan {
        let embedding = port(EMBEDDING, DataType::Fp32, None);
        if self.parts.outputs.vector.is_some() {
            return match embedder.chain.last() {
                // The graph has done it.
                Some(Link::Normalize) => {
                    HeadPlan { member: None, reads: Vec::new(), outputs: vec![embedding] }
                }
                _ => self.plan("normalize", Vec::new(), &["input"], &[], vec![embedding]),
            };
        }
        let mut parameters = vec![("mode", text(embedder.pooling.name()))];
        let inner = match embedder.chain.split_last() {
            Some((Link::Normalize, inner)) => inner,
            _ => &embedder.chain,
        };
        if !inner.is_empty() {
            let word = |it: &Link| match it {
                Link::Dense(layer) => ExplainedFile::File(layer.folder.clone()),
                Link::Normalize => ExplainedFile::Word("normalize".to_owned()),
                Link::Truncate(most) => ExplainedFile::Word(format!("truncate:{most}")),
            };
            parameters.push(("dense", ExplainedValue::Files(inner.iter().map(word).collect())));
        }
        parameters.push(("normalize", text("true")));
        if let Some(prompt) = self.prompt().filter(|_| !embedder.pooling.include_prompt) {
            parameters.push(("include_prompt", text("false")));
            parameters.push(("prompt", text(prompt)));
            parameters.push(("file", file(self.tokenizer)));
        }
        let outputs = vec![embedding, port(RESULT, DataType::Bytes, Some(1))];
        self.plan("pool", parameters, &["last_hidden_state"], &[], outputs)
    }
}

fn function_of(activation: Activation) -> &'static str {
    match activation {
        Activation::Sigmoid => Function::Sigmoid.name(),
        Activation::Identity => Function::None.name(),
        Activation::Tanh => "tanh",
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::Silu => "silu",
    }
}

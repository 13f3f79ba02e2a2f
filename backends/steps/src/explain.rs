//! A pipeline as the steps that do the same by hand, in the words of the table of steps.

use crate::{folder::Link, parts::Parts, request::Function, side::Side, task::Head};

/// A step of the ensemble that does what the pipeline does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedStep {
    /// Its name, for example `tokenize`.
    pub step: &'static str,
    /// Its parameters, in the order in which they are written.
    pub parameters: Vec<(&'static str, String)>,
    /// Is it in front of the graph?
    pub is_before: bool,
    /// What it takes, by its own names.
    pub inputs: Vec<String>,
    /// What it gives, by its own names.
    pub outputs: Vec<String>,
}

/// The steps in front of the graph and behind it, in order. `tokenizer` is the file's name.
pub(crate) fn steps(parts: &Parts, tokenizer: &str, prompt: Option<&str>) -> Vec<ExplainedStep> {
    vec![tokenize(parts, tokenizer, prompt), head(parts)]
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}

fn tokenize(parts: &Parts, tokenizer: &str, prompt: Option<&str>) -> ExplainedStep {
    let mut parameters =
        vec![("file", tokenizer.to_owned()), ("max_length", parts.task.max_tokens.to_string())];
    if parts.task.truncation_side == Side::Left {
        parameters.push(("truncation_side", Side::Left.name().to_owned()));
    }
    if let Some(prompt) = prompt {
        parameters.push(("prompt", prompt.to_owned()));
    }
    let mut inputs = names(&["text"]);
    if matches!(parts.task.head, Head::Ranker(..) | Head::Entailment(_) | Head::Answers) {
        inputs.push("text_pair".to_owned());
    }
    let mut outputs: Vec<String> =
        parts.inputs.inputs.iter().map(|it| it.name.as_ref().to_owned()).collect();
    let details: &[&str] = match parts.task.head {
        Head::Tokens(_) => &["offsets", "special_tokens_mask"],
        Head::Answers => &["offsets", "word_ids"],
        _ => &[],
    };
    outputs.extend(names(details));
    ExplainedStep { step: "tokenize", parameters, is_before: true, inputs, outputs }
}

fn head(parts: &Parts) -> ExplainedStep {
    let labels = || ("labels", "config.json".to_owned());
    let graph: Vec<String> =
        parts.outputs.outputs.iter().map(|it| it.name.as_ref().to_owned()).collect();
    let (step, parameters, more, outputs): (_, _, &[&str], &[&str]) = match &parts.task.head {
        Head::Classifier(classes) => {
            let function = ("function", classes.function.name().to_owned());
            ("classify", vec![labels(), function], &[], &["label", "score"])
        }
        Head::Ranker(_, activation) => {
            let function = match activation {
                crate::folder::Activation::Sigmoid => Function::Sigmoid.name().to_owned(),
                crate::folder::Activation::Identity => Function::None.name().to_owned(),
                other => format!("{other:?}").to_lowercase(),
            };
            ("classify", vec![labels(), ("function", function)], &[], &["label", "score"])
        }
        Head::Entailment(_) => ("entail", vec![labels()], &[], &["label", "score"]),
        Head::Tokens(_) => (
            "entities",
            vec![labels(), ("strategy", "none".to_owned())],
            &["offsets", "input_ids", "special_tokens_mask", "text"],
            &["result"],
        ),
        Head::Answers => ("answer", Vec::new(), &["offsets", "word_ids", "text_pair"], &["result"]),
        Head::Masks => ("mask", vec![("top_k", "5".to_owned())], &["input_ids"], &["result"]),
        Head::Embedder(embedder) => {
            let mut parameters = vec![("mode", embedder.pooling.name())];
            if !embedder.pooling.include_prompt {
                parameters.push(("include_prompt", "false".to_owned()));
            }
            for link in &embedder.chain {
                match link {
                    Link::Dense(layer) => parameters.push(("dense", layer.folder.clone())),
                    Link::Normalize => parameters.push(("normalize", "true".to_owned())),
                }
            }
            ("pool", parameters, &["attention_mask"], &["embedding"])
        }
        Head::Sparse(splade) => {
            let pooling = if splade.is_sum { "sum" } else { "max" };
            let parameters = vec![("pooling", pooling.to_owned())];
            ("splade", parameters, &["attention_mask"], &["indices", "values"])
        }
    };
    let inputs = graph.into_iter().chain(names(more)).collect();
    ExplainedStep { step, parameters, is_before: false, inputs, outputs: names(outputs) }
}

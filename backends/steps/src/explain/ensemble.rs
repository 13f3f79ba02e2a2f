//! The ensemble as a whole, and the step in front of its graph.

use std::fmt;

use backend::DataType;
use inference::task::{EMBEDDING, TEXT, TEXT_PAIR};

use super::{
    explained::{ExplainedEnsemble, ExplainedMember, ExplainedPort, file, port, same, text},
    head::HeadPlan,
    source::{CONFIG, LABELS, MASK, Source},
};
use crate::{
    error::NoEnsemble,
    folder::{Folder, Link},
    parts::Parts,
    side::Side,
    step::RowShape,
    task::TaskHead,
};

/// Names of the models behind that of the ensemble.
const TOKENS: &str = "tokens";
const GRAPH: &str = "graph";

/// The ensemble.
///
/// # Errors
/// Why there is none: a sentence.
pub(crate) fn ensemble(
    parts: &Parts,
    folder: &Folder,
    tokenizer: &str,
) -> Result<ExplainedEnsemble, NoEnsemble> {
    let source = Source { parts, folder, tokenizer };
    let fed = source.fed()?;
    if matches!(parts.task.head, TaskHead::Answers) && parts.task.padding_side == Side::Left {
        return Err(NoEnsemble::new(
            "its tokenizer pads on the left, and the question would come second",
        ));
    }
    let head = source.head();
    let is_unbatched = matches!(parts.task.head, TaskHead::Answers | TaskHead::Entailment(_));
    let (first, second) = source.texts();
    let mut inputs = vec![port(first, DataType::Bytes, Some(1))];
    match parts.task.head {
        TaskHead::Classifier(_) | TaskHead::Ranker(..) => {
            let pair = port(TEXT_PAIR, DataType::Bytes, Some(1));
            inputs.push(ExplainedPort { is_optional: true, ..pair });
        }
        TaskHead::Answers => inputs.push(port(second, DataType::Bytes, Some(1))),
        TaskHead::Entailment(_) => inputs.push(port(second, DataType::Bytes, None)),
        TaskHead::Tokens(_) | TaskHead::Masks | TaskHead::Embedder(_) | TaskHead::Sparse(_) => {}
    }
    let mut members = vec![source.tokens(&fed, &head), source.graph(&fed, &head)];
    let ports = head.outputs;
    members.extend(head.member.map(|it| {
        let is_read = |fed: &&Fed| it.inputs.iter().any(|(_, tensor)| tensor == fed.output);
        let others = fed.iter().filter(|it| it.dtype != DataType::Int64).filter(is_read);
        let types = others.map(|it| (it.output.to_owned(), it.dtype)).collect();
        ExplainedMember { types, ..it }
    }));
    Ok(ExplainedEnsemble {
        inputs,
        outputs: ports,
        members,
        is_unbatched,
        files: source.files(),
        made: source.made(),
        lacks: source.lacks(),
    })
}

/// An input of the graph, and the output of the step in front that fills it.
struct Fed {
    input: String,
    output: &'static str,
    dtype: DataType,
}

fn not_given(input: impl fmt::Display) -> NoEnsemble {
    NoEnsemble::new(format!("its graph takes {input}, which no step gives"))
}

impl Source<'_> {
    /// What fills the inputs of the graph.
    fn fed(&self) -> Result<Vec<Fed>, NoEnsemble> {
        if let Some(constant) = self.parts.inputs.constants.first() {
            return Err(not_given(constant));
        }
        let inputs = self.parts.inputs.inputs.iter();
        let fed = inputs.map(|it| {
            let output = match &*it.name {
                "input_ids" => "input_ids",
                MASK => MASK,
                "token_type_ids" | "input_type" => "token_type_ids",
                "position_ids" => "position_ids",
                other => return Err(not_given(other)),
            };
            let is_tokens = matches!(it.shape, RowShape::Tokens { .. });
            debug_assert!(is_tokens, "the others are of no tokens");
            Ok(Fed { input: it.name.as_ref().to_owned(), output, dtype: it.dtype })
        });
        fed.collect()
    }

    /// Is a text that is too long cut, where no request says it?
    fn truncation(&self) -> &'static str {
        let (usual, strategy) = match self.parts.task.head {
            TaskHead::Classifier(_) | TaskHead::Masks => (false, "longest_first"),
            TaskHead::Answers => (true, "only_second"),
            TaskHead::Entailment(_) => (true, "only_first"),
            TaskHead::Ranker(..)
            | TaskHead::Tokens(_)
            | TaskHead::Embedder(_)
            | TaskHead::Sparse(_) => (true, "longest_first"),
        };
        let is_cut = self.parts.task.truncate.unwrap_or(usual);
        // Windows are cut from the context, whatever the folder says.
        let is_cut = is_cut || matches!(self.parts.task.head, TaskHead::Answers);
        if is_cut { strategy } else { "none" }
    }

    fn tokens(&self, fed: &[Fed], head: &HeadPlan) -> ExplainedMember {
        let task = &self.parts.task;
        let mut parameters = vec![("file", file(self.tokenizer))];
        let longest = match task.head {
            TaskHead::Answers => task.max_tokens.min(384),
            _ => task.max_tokens,
        };
        parameters.push(("max_length", text(longest.to_string())));
        parameters.push(("truncation", text(self.truncation())));
        if task.truncation_side == Side::Left {
            parameters.push(("truncation_side", text(Side::Left.name())));
        }
        if let TaskHead::Answers = task.head {
            parameters.push(("stride", text((longest / 2).min(128).to_string())));
        }
        if let TaskHead::Entailment(_) = task.head {
            parameters.push(("template", text("This example is {}.")));
        }
        if self.parts.inputs.fixed_tokens.is_some() {
            parameters.push(("padding", text("max_length")));
        } else if !self.parts.inputs.has_mask() {
            parameters.push(("padding", text("none")));
        }
        if self.folder.sentence.do_lower_case {
            parameters.push(("lower_case", text("true")));
        }
        if let Some(prompt) = self.prompt() {
            parameters.push(("prompt", text(prompt)));
        }
        let (first, second) = self.texts();
        let mut inputs = vec![(TEXT.to_owned(), first.to_owned())];
        let takes_pairs = matches!(
            task.head,
            TaskHead::Classifier(_)
                | TaskHead::Ranker(..)
                | TaskHead::Answers
                | TaskHead::Entailment(_)
        );
        if takes_pairs {
            inputs.push((TEXT_PAIR.to_owned(), second.to_owned()));
        }
        let mut outputs: Vec<(String, String)> = fed.iter().map(|it| same(it.output)).collect();
        for name in &head.reads {
            if !outputs.iter().any(|it| it.0 == *name) {
                outputs.push(same(name));
            }
        }
        let others = fed.iter().filter(|it| it.dtype != DataType::Int64);
        let types = others.map(|it| (it.output.to_owned(), it.dtype)).collect();
        ExplainedMember {
            suffix: TOKENS,
            step: Some(("tokenize", parameters)),
            types,
            inputs,
            outputs,
        }
    }

    fn graph(&self, fed: &[Fed], head: &HeadPlan) -> ExplainedMember {
        let inputs = fed.iter().map(|it| (it.input.clone(), it.output.to_owned())).collect();
        let read = self.read();
        let is_last = head.member.is_none();
        let tensor = |name: &str| if is_last { EMBEDDING.to_owned() } else { name.to_owned() };
        let outputs = read.iter().map(|it| (it.clone(), tensor(it))).collect();
        ExplainedMember { suffix: GRAPH, step: None, types: Vec::new(), inputs, outputs }
    }

    /// What the steps read of the folder, and what the files beside the tokenizer say of its tokens.
    fn files(&self) -> Vec<String> {
        let parent =
            self.tokenizer.rsplit_once('/').map_or(String::new(), |it| format!("{}/", it.0));
        let beside = ["tokenizer_config.json", "special_tokens_map.json", CONFIG];
        let mut files = vec![self.tokenizer.to_owned()];
        files.extend(beside.iter().map(|it| format!("{parent}{it}")));
        if self.classes().is_some() && self.labels() == CONFIG {
            files.push(CONFIG.to_owned());
        }
        if let TaskHead::Embedder(embedder) = &self.parts.task.head {
            let layers = embedder.chain.iter().filter_map(|it| match it {
                Link::Dense(layer) => Some(layer.folder.clone()),
                Link::Normalize | Link::Truncate(_) => None,
            });
            let layers: Vec<String> = layers.collect();
            // The file that says that these folders are no versions.
            files.extend((!layers.is_empty()).then(|| "modules.json".to_owned()));
            files.extend(layers);
        }
        files.retain(|it| self.folder.dir.path().join(it).exists());
        let mut seen = std::collections::BTreeSet::new();
        files.retain(|it| seen.insert(it.clone()));
        files
    }

    fn made(&self) -> Vec<(String, String)> {
        match self.classes().filter(|_| self.labels() == LABELS) {
            None => Vec::new(),
            Some(classes) => {
                let lines: String = classes.labels.iter().map(|it| format!("{it}\n")).collect();
                vec![(LABELS.to_owned(), lines)]
            }
        }
    }

    fn lacks(&self) -> Vec<String> {
        let mut lacks =
            vec!["parameters of a request: what a step does is in its configuration".to_owned()];
        match self.parts.task.head {
            TaskHead::Ranker(..) => {
                lacks.push(
                    "a query with a list of texts: each pair is a row, whose score is that of a ranking"
                        .to_owned(),
                );
            }
            TaskHead::Entailment(_) => {
                lacks.push("several texts in one request, and the output result".to_owned());
            }
            TaskHead::Answers => lacks.push("several questions in one request".to_owned()),
            _ => {}
        }
        lacks
    }
}

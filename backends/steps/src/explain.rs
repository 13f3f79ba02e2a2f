//! A pipeline as the ensemble of steps that does the same by hand.

use backend::DataType;
use inference::task::{
    CANDIDATE_LABELS, CONTEXT, EMBEDDING, LABEL, QUESTION, RESULT, SCORE, TEXT, TEXT_PAIR,
};

use crate::{
    folder::{Activation, Folder, Link},
    parts::Parts,
    request::Function,
    side::Side,
    step::RowShape,
    task::{Classes, Embedder, Head},
};

/// An ensemble that does what a pipeline does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedEnsemble {
    /// What clients send.
    pub inputs: Vec<ExplainedPort>,
    /// What they get.
    pub outputs: Vec<ExplainedPort>,
    /// In order; the one without a step is the graph.
    pub members: Vec<ExplainedMember>,
    /// Does one request have one text, whose windows or pairs are the rows of the graph?
    pub is_unbatched: bool,
    /// Files and subfolders of the folder that the steps read.
    pub files: Vec<String>,
    /// Files that the folder does not have, and what stands in them.
    pub made: Vec<(String, String)>,
    /// What of the pipeline the ensemble does not have.
    pub lacks: Vec<String>,
}

/// An input or output of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedPort {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub dtype: DataType,
    /// The only dimension of a row; `None`: of any size.
    pub dim: Option<usize>,
    /// An input that may be left out.
    pub is_optional: bool,
}

/// A model of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedMember {
    /// What the name of the ensemble is followed by.
    pub suffix: &'static str,
    /// Its step and the parameters of that; `None` of the graph.
    pub step: Option<(&'static str, Vec<(&'static str, ExplainedValue)>)>,
    /// Inputs and outputs that have another type than the step has by itself.
    pub types: Vec<(String, DataType)>,
    /// Its inputs and the tensors of the ensemble that they get.
    pub inputs: Vec<(String, String)>,
    /// Its outputs and the tensors that they become.
    pub outputs: Vec<(String, String)>,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainedValue {
    /// A text as it is.
    Text(String),
    /// Files or subfolders of the folder, and other words between them.
    Files(Vec<ExplainedFile>),
}

/// A word of a parameter that names files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainedFile {
    /// A file or subfolder, relative to the folder.
    File(String),
    /// Something else.
    Word(&'static str),
}

/// Names of the models behind that of the ensemble.
const TOKENS: &str = "tokens";
const GRAPH: &str = "graph";
const HEAD: &str = "head";

const MASK: &str = "attention_mask";
const CONFIG: &str = "config.json";
const LABELS: &str = "labels.txt";

/// The ensemble.
///
/// # Errors
/// Why there is none: a sentence.
pub(crate) fn ensemble(
    parts: &Parts,
    folder: &Folder,
    tokenizer: &str,
) -> Result<ExplainedEnsemble, String> {
    let builder = Builder { parts, folder, tokenizer };
    let fed = builder.fed()?;
    if matches!(parts.task.head, Head::Answers) && parts.task.padding_side == Side::Left {
        return Err("its tokenizer pads on the left, and the question would come second".to_owned());
    }
    let head = builder.head();
    let is_unbatched = matches!(parts.task.head, Head::Answers | Head::Entailment(_));
    let (first, second) = builder.texts();
    let mut inputs = vec![port(first, DataType::Bytes, Some(1))];
    match parts.task.head {
        Head::Classifier(_) | Head::Ranker(..) => {
            let pair = port(TEXT_PAIR, DataType::Bytes, Some(1));
            inputs.push(ExplainedPort { is_optional: true, ..pair });
        }
        Head::Answers => inputs.push(port(second, DataType::Bytes, Some(1))),
        Head::Entailment(_) => inputs.push(port(second, DataType::Bytes, None)),
        Head::Tokens(_) | Head::Masks | Head::Embedder(_) | Head::Sparse(_) => {}
    }
    let mut members = vec![builder.tokens(&fed, &head), builder.graph(&fed, &head)];
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
        files: builder.files(),
        made: builder.made(),
        lacks: builder.lacks(),
    })
}

fn port(name: &'static str, dtype: DataType, dim: Option<usize>) -> ExplainedPort {
    ExplainedPort { name, dtype, dim, is_optional: false }
}

fn text(text: impl Into<String>) -> ExplainedValue {
    ExplainedValue::Text(text.into())
}

fn file(name: &str) -> ExplainedValue {
    ExplainedValue::Files(vec![ExplainedFile::File(name.to_owned())])
}

fn same(name: &str) -> (String, String) {
    (name.to_owned(), name.to_owned())
}

struct Builder<'a> {
    parts: &'a Parts,
    folder: &'a Folder,
    tokenizer: &'a str,
}

/// An input of the graph, and the output of the step in front that fills it.
struct Fed {
    input: String,
    output: &'static str,
    dtype: DataType,
}

/// The step behind the graph, and what clients get.
struct HeadPlan {
    /// `None` where the graph gives what clients get.
    member: Option<ExplainedMember>,
    /// Tensors of the step in front that it reads.
    reads: Vec<&'static str>,
    outputs: Vec<ExplainedPort>,
}

impl Builder<'_> {
    fn head_is_of_texts(&self) -> bool {
        matches!(self.parts.task.head, Head::Embedder(_) | Head::Sparse(_))
    }

    /// The names of the texts.
    fn texts(&self) -> (&'static str, &'static str) {
        match self.parts.task.head {
            Head::Answers => (QUESTION, CONTEXT),
            Head::Entailment(_) => (TEXT, CANDIDATE_LABELS),
            _ => (TEXT, TEXT_PAIR),
        }
    }

    /// What fills the inputs of the graph.
    fn fed(&self) -> Result<Vec<Fed>, String> {
        let inputs = self.parts.inputs.inputs.iter();
        let fed = inputs.map(|it| {
            let output = match &*it.name {
                "input_ids" => "input_ids",
                MASK => MASK,
                "token_type_ids" | "input_type" => "token_type_ids",
                "position_ids" => "position_ids",
                other => return Err(format!("its graph takes {other}, which no step gives")),
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
            Head::Classifier(_) | Head::Masks => (false, "longest_first"),
            Head::Answers => (true, "only_second"),
            Head::Entailment(_) => (true, "only_first"),
            Head::Ranker(..) | Head::Tokens(_) | Head::Embedder(_) | Head::Sparse(_) => {
                (true, "longest_first")
            }
        };
        let is_cut = self.parts.task.truncate.unwrap_or(usual);
        // Windows are cut from the context, whatever the folder says.
        let is_cut = is_cut || matches!(self.parts.task.head, Head::Answers);
        if is_cut { strategy } else { "none" }
    }

    fn tokens(&self, fed: &[Fed], head: &HeadPlan) -> ExplainedMember {
        let task = &self.parts.task;
        let mut parameters = vec![("file", file(self.tokenizer))];
        let longest = match task.head {
            Head::Answers => task.max_tokens.min(384),
            _ => task.max_tokens,
        };
        parameters.push(("max_length", text(longest.to_string())));
        parameters.push(("truncation", text(self.truncation())));
        if task.truncation_side == Side::Left {
            parameters.push(("truncation_side", text(Side::Left.name())));
        }
        if let Head::Answers = task.head {
            parameters.push(("stride", text((longest / 2).min(128).to_string())));
        }
        if let Head::Entailment(_) = task.head {
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
            Head::Classifier(_) | Head::Ranker(..) | Head::Answers | Head::Entailment(_)
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

    /// The outputs of the graph that the head reads.
    fn read(&self) -> Vec<String> {
        let outputs = &self.parts.outputs;
        let names = outputs.outputs.iter().map(|it| it.name.as_ref().to_owned());
        match self.parts.task.head {
            Head::Answers => names.collect(),
            Head::Embedder(_) => {
                let at = outputs.vector.or(outputs.tokens).unwrap_or(0);
                vec![outputs.name(at).to_owned()]
            }
            _ => names.take(1).collect(),
        }
    }

    fn prompt(&self) -> Option<&str> {
        let prompt = self.parts.task.prompts.default.as_deref().filter(|it| !it.is_empty());
        prompt.filter(|_| self.head_is_of_texts())
    }

    fn head(&self) -> HeadPlan {
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
            Head::Classifier(classes_of) => {
                let function = ("function", text(classes_of.function.name()));
                plan("classify", vec![labels, function], &["logits"], &[], classes())
            }
            Head::Ranker(_, activation) => {
                let function = ("function", text(function_of(*activation)));
                plan("classify", vec![labels, function], &["logits"], &[], classes())
            }
            Head::Entailment(_) => {
                let outputs = classes().into_iter().take(2).collect();
                let mut head = plan("entail", vec![labels], &["logits"], &[], outputs);
                if let Some(member) = &mut head.member {
                    member.inputs.push(same(CANDIDATE_LABELS));
                }
                head
            }
            Head::Tokens(_) => {
                let reads = ["offsets", "input_ids", "special_tokens_mask"];
                let parameters = vec![labels, tokenizer, ("strategy", text("none"))];
                let mut head = plan("entities", parameters, &["logits"], &reads, vec![result()]);
                if let Some(member) = &mut head.member {
                    member.inputs.push(same(TEXT));
                }
                head
            }
            Head::Answers => {
                let own = ["start_logits", "end_logits"];
                let reads = ["offsets", "word_ids"];
                let mut head = plan("answer", Vec::new(), &own, &reads, vec![result()]);
                if let Some(member) = &mut head.member {
                    member.inputs.push((TEXT_PAIR.to_owned(), CONTEXT.to_owned()));
                }
                head
            }
            Head::Masks => {
                plan("mask", vec![tokenizer], &["logits"], &["input_ids"], vec![result()])
            }
            Head::Embedder(embedder) => self.embedder(embedder),
            Head::Sparse(splade) => {
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
                Link::Normalize => ExplainedFile::Word("normalize"),
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

    fn classes(&self) -> Option<&Classes> {
        self.parts.task.head.classes()
    }

    /// The file with the names of the classes.
    fn labels(&self) -> &'static str {
        let is_given = self.folder.overrides.labels.is_some();
        let is_there = self.folder.dir.join(CONFIG).is_file();
        if is_given || !is_there { LABELS } else { CONFIG }
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
        if let Head::Embedder(embedder) = &self.parts.task.head {
            let layers = embedder.chain.iter().filter_map(|it| match it {
                Link::Dense(layer) => Some(layer.folder.clone()),
                Link::Normalize => None,
            });
            let layers: Vec<String> = layers.collect();
            // The file that says that these folders are no versions.
            files.extend((!layers.is_empty()).then(|| "modules.json".to_owned()));
            files.extend(layers);
        }
        files.retain(|it| self.folder.dir.join(it).exists());
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
            Head::Ranker(..) => {
                lacks.push(
                    "a query with a list of texts: each pair is a row, whose score is that of a ranking"
                        .to_owned(),
                );
            }
            Head::Entailment(_) => {
                lacks.push("several texts in one request, and the output result".to_owned());
            }
            Head::Answers => lacks.push("several questions in one request".to_owned()),
            _ => {}
        }
        lacks
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

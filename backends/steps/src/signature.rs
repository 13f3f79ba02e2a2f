//! The inputs and outputs of a graph: what fills each input, and which outputs a task reads.

use std::sync::Arc;

use backend::{DataType, ModelSpec, NamedTensor, Shape, Tensor, TensorSpec};

use crate::{
    constants::constant,
    error::{FolderError, RowError},
    folder::Config,
    outputs::GraphOutput,
    step::{GraphInput, RowShape},
    task::TaskHead,
    text::Encoded,
};

/// What fills an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Ids,
    Mask,
    TypeIds,
    /// Positions, from this one on.
    Positions(i64),
    /// No keys and values of earlier tokens.
    Past,
}

/// The inputs of a graph, and how a row fills them.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    /// The inputs that rows bring.
    pub(crate) inputs: Vec<GraphInput>,
    /// The names of those that are the same in every run.
    pub(crate) constants: Vec<Arc<str>>,
    /// The only length that the graph takes, where there is one.
    pub(crate) fixed_tokens: Option<usize>,
    sources: Vec<Source>,
}

impl Inputs {
    /// What fills the inputs of `spec`. `pad` is the id for padding, `file` the graph's name in errors.
    ///
    /// # Errors
    /// When an input is required that nothing fills, or has a type or shape that tokens do not have.
    pub(crate) fn plan(
        spec: &ModelSpec,
        config: &Config,
        pad: u32,
        file: &str,
    ) -> Result<Inputs, FolderError> {
        let mut plan = Inputs {
            inputs: Vec::new(),
            constants: Vec::new(),
            fixed_tokens: None,
            sources: Vec::new(),
        };
        for input in &spec.inputs {
            plan.add(input, config, pad, file)?;
        }
        if !plan.sources.contains(&Source::Ids) {
            let problem = "the graph has no such input, so it takes no text";
            return Err(FolderError::key(file, "input_ids", problem));
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        input: &TensorSpec,
        config: &Config,
        pad: u32,
        file: &str,
    ) -> Result<(), FolderError> {
        let source = match &*input.name {
            "input_ids" => Source::Ids,
            "attention_mask" => Source::Mask,
            "token_type_ids" | "input_type" => Source::TypeIds,
            "position_ids" => Source::Positions(config.first_position() as i64),
            name if name.starts_with("past_key_values.") => Source::Past,
            _ if constant(input).is_some() => {
                self.constants.push(input.name.clone());
                return Ok(());
            }
            _ if input.optional => return Ok(()),
            name => {
                let problem = "the graph requires this input, and a text does not fill it";
                return Err(FolderError::key(file, name, problem));
            }
        };
        let shape = match source {
            Source::Past => RowShape::Fixed(past(input, config, file)?),
            Source::Ids => RowShape::Tokens { pad: i64::from(pad) },
            Source::Mask | Source::TypeIds | Source::Positions(_) => RowShape::Tokens { pad: 0 },
        };
        if source != Source::Past {
            self.check_tokens(input, file)?;
        }
        self.sources.push(source);
        self.inputs.push(GraphInput { name: input.name.clone(), dtype: input.dtype, shape });
        Ok(())
    }

    fn check_tokens(&mut self, input: &TensorSpec, file: &str) -> Result<(), FolderError> {
        let error = |problem: String| Err(FolderError::key(file, &*input.name, problem));
        if ![DataType::Int64, DataType::Int32].contains(&input.dtype) {
            return error(format!("it is {}, tokens are INT64 or INT32", input.dtype));
        }
        if input.any_rank {
            return Ok(());
        }
        let &[_, tokens] = &*input.dims else {
            return error(format!("it has {} dimensions, tokens have two", input.dims.len()));
        };
        if let (Some(before), Some(tokens)) = (self.fixed_tokens, tokens)
            && before != tokens
        {
            return error(format!("it takes {tokens} tokens, another input {before}"));
        }
        self.fixed_tokens = self.fixed_tokens.or(tokens);
        Ok(())
    }

    /// Does the graph know which tokens are padding?
    pub(crate) fn has_mask(&self) -> bool {
        self.sources.contains(&Source::Mask)
    }

    /// The row of these tokens.
    ///
    /// # Errors
    /// When it has no token, or an id that the graph's type cannot hold.
    pub(crate) fn row(&self, tokens: &Encoded) -> Result<Vec<NamedTensor>, RowError> {
        let length = tokens.ids.len();
        if length == 0 {
            return Err(RowError::Input("the text has no tokens".to_owned()));
        }
        let values = |source: Source| -> Vec<i64> {
            match source {
                Source::Ids => tokens.ids.iter().map(|&it| i64::from(it)).collect(),
                Source::Mask => vec![1; length],
                Source::TypeIds => tokens.type_ids.iter().map(|&it| i64::from(it)).collect(),
                Source::Positions(first) => (first..).take(length).collect(),
                Source::Past => Vec::new(),
            }
        };
        let fill = |(input, &source): (&GraphInput, &Source)| {
            let tensor = match &input.shape {
                RowShape::Fixed(dims) => Tensor::zeros(input.dtype, Shape::new(dims)),
                RowShape::Tokens { .. } | RowShape::Varying | RowShape::Whole => {
                    let (shape, values) = (Shape::new(&[length]), values(source));
                    match input.dtype {
                        DataType::Int32 => {
                            let values = values.into_iter().map(|it| it as i32).collect();
                            Tensor::from_vec::<i32>(shape, values)
                        }
                        _ => Tensor::from_vec::<i64>(shape, values),
                    }
                }
            };
            let tensor = tensor.map_err(|error| RowError::Input(error.to_string()))?;
            Ok(NamedTensor { name: input.name.clone(), tensor })
        };
        self.inputs.iter().zip(&self.sources).map(fill).collect()
    }
}

/// The shape of keys and values before the first token: none of them.
fn past(input: &TensorSpec, config: &Config, file: &str) -> Result<Vec<usize>, FolderError> {
    if !input.any_rank && input.dims.len() != 4 {
        let problem = format!(
            "it has {} dimensions, keys and values of earlier tokens four: rows, heads, tokens, numbers",
            input.dims.len()
        );
        return Err(FolderError::key(file, &*input.name, problem));
    }
    let dim = |at: usize| input.dims.get(at).copied().flatten();
    if let Some(tokens) = dim(2).filter(|it| 0 < *it) {
        let problem = format!("it takes {tokens} earlier tokens, and a text has none");
        return Err(FolderError::key(file, &*input.name, problem));
    }
    let heads = dim(1).or(config.key_value_heads);
    let size = dim(3).or(config.head_size);
    match heads.zip(size) {
        Some((heads, size)) => Ok(vec![heads, 0, size]),
        None => {
            let problem = "neither the graph nor config.json says num_key_value_heads and head_dim";
            Err(FolderError::key(file, &*input.name, problem))
        }
    }
}

/// The outputs that a head reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outputs {
    /// In the order in which the head gets them.
    pub(crate) outputs: Vec<GraphOutput>,
    /// The place of the text's own vector among them, where the graph makes it.
    pub(crate) vector: Option<usize>,
    /// The place of the output with one entry for each token.
    pub(crate) tokens: Option<usize>,
    /// Length of the last dimension of the output that the head reads first, where the graph says it.
    pub(crate) width: Option<usize>,
    /// The output that was taken for its shape, since none has a name that the task looks for.
    pub(crate) by_shape: Option<Arc<str>>,
}

impl Outputs {
    /// The outputs of `spec` that `head` reads.
    ///
    /// # Errors
    /// When there is none that it can read.
    pub(crate) fn plan(
        spec: &ModelSpec,
        head: &TaskHead,
        file: &str,
    ) -> Result<Outputs, FolderError> {
        let mut plan = Outputs {
            outputs: Vec::new(),
            vector: None,
            tokens: None,
            width: None,
            by_shape: None,
        };
        match head {
            TaskHead::Classifier(_) | TaskHead::Ranker(..) | TaskHead::Entailment(_) => {
                plan.add(find(spec, &["logits"], 2, file)?, false);
            }
            TaskHead::Tokens(_) | TaskHead::Masks | TaskHead::Sparse(_) => {
                plan.add(find(spec, &["logits"], 3, file)?, true);
                plan.tokens = Some(0);
            }
            TaskHead::Answers => {
                for name in ["start_logits", "end_logits"] {
                    plan.add(find_named(spec, &[name], 2, file)?, true);
                }
                plan.tokens = Some(0);
            }
            TaskHead::Embedder(embedder) => {
                let own = find_named(spec, &["sentence_embedding"], 2, file).ok();
                if let Some(own) = own.filter(|_| !embedder.is_pooling_given) {
                    plan.vector = Some(plan.outputs.len());
                    plan.add(own, false);
                }
                match find(spec, &["token_embeddings", "last_hidden_state"], 3, file) {
                    Ok(tokens) => {
                        plan.tokens = Some(plan.outputs.len());
                        plan.add(tokens, true);
                    }
                    // The text's own vector is all that such a graph gives.
                    Err(error) if plan.vector.is_none() => {
                        let names = ["text_embeds", "embedding", "embeddings", "pooler_output"];
                        let own = find(spec, &names, 2, file).map_err(|_| error)?;
                        plan.vector = Some(0);
                        plan.add(own, false);
                    }
                    Err(_) => {}
                }
            }
        }
        Ok(plan)
    }

    /// The name of the output in that place, for errors.
    pub(crate) fn name(&self, at: usize) -> &str {
        self.outputs.get(at).map_or("", |it| &it.name)
    }

    fn add(&mut self, found: FoundOutput<'_>, has_tokens: bool) {
        if self.outputs.is_empty() {
            self.width = found.spec.dims.last().copied().flatten();
        }
        let name: Arc<str> = found.spec.name.clone();
        if !found.is_named {
            self.by_shape = Some(name.clone());
        }
        self.outputs.push(GraphOutput { name, has_tokens, is_whole: false });
    }
}

struct FoundOutput<'a> {
    spec: &'a TensorSpec,
    is_named: bool,
}

/// The first of these names, with that many dimensions.
fn find_named<'a>(
    spec: &'a ModelSpec,
    names: &[&str],
    rank: usize,
    file: &str,
) -> Result<FoundOutput<'a>, FolderError> {
    let named = |name: &&str| spec.outputs.iter().find(|it| &&*it.name == name);
    let Some(found) = names.iter().find_map(named) else {
        let problem = "the graph has no such output";
        return Err(FolderError::key(file, names.join(" or "), problem));
    };
    if !found.any_rank && found.dims.len() != rank {
        let problem = format!("it has {} dimensions, the task needs {rank}", found.dims.len());
        return Err(FolderError::key(file, &*found.name, problem));
    }
    Ok(FoundOutput { spec: found, is_named: true })
}

/// The first of these names, else the first output with that many dimensions.
fn find<'a>(
    spec: &'a ModelSpec,
    names: &[&str],
    rank: usize,
    file: &str,
) -> Result<FoundOutput<'a>, FolderError> {
    let is_float = |it: &&TensorSpec| {
        [DataType::Fp32, DataType::Fp16, DataType::Bf16, DataType::Fp64].contains(&it.dtype)
    };
    // Logits are classes of something, whatever their shape.
    let fits = |it: &&TensorSpec| {
        !it.any_rank && it.dims.len() == rank && is_float(it) && &*it.name != "logits"
    };
    match find_named(spec, names, rank, file) {
        Ok(found) => Ok(found),
        Err(error) => match spec.outputs.iter().find(fits) {
            Some(spec) => Ok(FoundOutput { spec, is_named: false }),
            None => Err(error),
        },
    }
}

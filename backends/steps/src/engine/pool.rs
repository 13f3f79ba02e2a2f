//! The step `pool`: vectors of tokens to one vector of the text.

use std::sync::Arc;

use backend::{BackendError, NamedTensor};
use inference::task::{EMBEDDING, RESULT};

use super::{
    call::{Call, invalid},
    files,
    kept::{Kept, MASK},
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, INTEGERS, TEXT, optional, port, spec},
    settings::StepSettings,
    vocabulary,
};
use crate::{
    folder::{Dense, Link, Pooling, PoolingMode, notes::Notes},
    head::embed::{PoolWork, from_tokens, truncated},
    outputs::RowOutput,
    parts::tokens_of_prompt,
    reply::Reply,
    result::{ResultForm, result_json},
};

pub(super) const PARAMETERS: &[&str] =
    &["mode", "dense", "normalize", "include_prompt", "prompt", "file"];

const TOKENS: &str = "last_hidden_state";
/// What stands for a normalization among the folders of dense layers, and for dimensions that are kept.
const NORMALIZE: &str = "normalize";
const TRUNCATE: &str = "truncate:";

struct Pool {
    pooling: Pooling,
    /// What the vector goes through, but for the last normalization.
    chain: Vec<Link>,
    work: PoolWork,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let known = PoolingMode::ALL.map(PoolingMode::name);
    let modes = |text: &str| text.split('+').map(|it| PoolingMode::from_name(it.trim())).collect();
    let modes: Option<Vec<PoolingMode>> = settings.named("mode", &known, modes)?;
    let mut pooling = Pooling::mean();
    pooling.modes = modes.unwrap_or(pooling.modes);
    let chain = chain(settings)?;
    let normalize = Some(settings.flag("normalize")?.unwrap_or(false));
    let skipped = match settings.flag("include_prompt")? {
        Some(false) => prompt_length(settings)?,
        _ => 0,
    };
    let last = match truncated(&chain) {
        Some(_) => None,
        None => chain.iter().rev().find_map(Link::outputs),
    };
    let spec = spec(
        settings.source,
        &[port(TOKENS, FLOATS, &[None, None, None]), optional(MASK, INTEGERS, &[None, None])],
        &[port(EMBEDDING, FLOAT, &[None, last]), port(RESULT, TEXT, &[None, Some(1)])],
    );
    let work = PoolWork { skipped, normalize, dimensions: None };
    Ok(Opened { spec, run: Box::new(Pool { pooling, chain, work }) })
}

/// The layers that the parameter names.
fn chain(settings: &StepSettings<'_>) -> Result<Vec<Link>, BackendError> {
    let layer = |name: String| {
        if name == NORMALIZE {
            return Ok(Link::Normalize);
        }
        if let Some(most) = name.strip_prefix(TRUNCATE) {
            let most = most.parse().ok().filter(|it| 0 < *it);
            let problem = format!("'{name}': expected the number of dimensions that are kept");
            return most.map(Link::Truncate).ok_or_else(|| settings.wrong("dense", problem));
        }
        let place = files::find(settings, "dense", &name)?;
        let layer = Dense::read(&place.dir, &place.name, &mut Notes::default());
        layer.map(Link::Dense).map_err(|error| settings.wrong("dense", error))
    };
    settings.list("dense").unwrap_or_default().into_iter().map(layer).collect()
}

/// Tokens of the prompt, which do not count.
fn prompt_length(settings: &StepSettings<'_>) -> Result<usize, BackendError> {
    let Some(prompt) = settings.text("prompt") else {
        let problem = "the tokens of a prompt are to be left out: write the prompt as it is in the step tokenize, and \
                       file";
        return Err(settings.wrong("include_prompt", problem));
    };
    let vocabulary = vocabulary::open(settings, false)?;
    tokens_of_prompt(&vocabulary.tokenizer, prompt).map_err(|error| settings.wrong("prompt", error))
}

impl Run for Pool {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let tokens = call.floats(TOKENS)?;
        let &[rows, length, width] = &*tokens.dims else {
            return Err(invalid(TOKENS, &format!("its shape is {:?}", tokens.dims)));
        };
        let kept = Kept::of(call, TOKENS, [rows, length])?;
        let vector = |row: usize| {
            call.check()?;
            let values = kept.select(row, tokens.row(row), width);
            let dims = vec![kept.count(row), width];
            let output = RowOutput { name: TOKENS, dims, values };
            Ok(Reply::Embedding(from_tokens(&output, &self.pooling, &self.chain, self.work)?))
        };
        let replies = (0..rows).map(vector).collect::<Result<Vec<Reply>, BackendError>>()?;
        let output = |name: &Arc<str>| match &**name {
            EMBEDDING => {
                let values: Vec<f32> = replies.iter().flat_map(Reply::embedding).collect();
                let width = values.len().checked_div(rows).unwrap_or(0);
                call.float_output(EMBEDDING, &[rows, width], values)
            }
            _ => {
                let form = ResultForm { text: "", is_best_only: false };
                let results = replies.iter().map(|it| result_json(it, &form));
                call.text_output(RESULT, &[rows, 1], results)
            }
        };
        call.batch.outputs.iter().map(output).collect()
    }
}

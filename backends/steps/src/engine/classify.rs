//! The step `classify`: logits to classes, best first.

use std::sync::Arc;

use backend::{BackendError, NamedTensor};
use inference::task::{LABEL, RESULT, SCORE};

use super::{
    call::{Call, invalid},
    classes,
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, TEXT, port, spec},
    settings::StepSettings,
};
use crate::{
    folder::Activation,
    head::{
        classify::{classify, whole_logits},
        dense::activate,
    },
    outputs::RowOutput,
    reply::Reply,
    request::{Function, TopK},
    result::{ResultForm, result_json},
    task::usual_function,
};

pub(super) const PARAMETERS: &[&str] = &["labels", "function", "top_k"];

const LOGITS: &str = "logits";
const FUNCTIONS: [&str; 8] = ["auto", "softmax", "sigmoid", "none", "tanh", "relu", "gelu", "silu"];

struct Classify {
    labels: Vec<Arc<str>>,
    function: Function,
    /// What each logit goes through first, as of rankers.
    activation: Activation,
    top_k: TopK,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let config = classes::read(settings)?;
    let usual = usual_function(&config, config.labels.len());
    let read = |name: &str| match name {
        "auto" => Some((usual, Activation::Identity)),
        "tanh" => Some((Function::None, Activation::Tanh)),
        "relu" => Some((Function::None, Activation::Relu)),
        "gelu" => Some((Function::None, Activation::Gelu)),
        "silu" => Some((Function::None, Activation::Silu)),
        name => Function::from_name(name).map(|it| (it, Activation::Identity)),
    };
    let (function, activation) =
        settings.named("function", &FUNCTIONS, read)?.unwrap_or((usual, Activation::Identity));
    let top_k = match settings.text("top_k") {
        Some("all") => TopK::All,
        Some(text) if text.parse::<usize>().is_err() => {
            let problem = format!("it is '{text}', expected a whole number from 1 on, or all");
            return Err(settings.wrong("top_k", problem));
        }
        _ => settings.count("top_k")?.map_or(TopK::Default, TopK::Best),
    };
    let classes = Some(config.labels.len());
    let spec = spec(
        settings.source,
        &[port(LOGITS, FLOATS, &[None, classes])],
        &[
            port(LABEL, TEXT, &[None, None]),
            port(SCORE, FLOAT, &[None, None]),
            port(RESULT, TEXT, &[None, Some(1)]),
        ],
    );
    let step = Classify { labels: config.labels, function, activation, top_k };
    Ok(Opened { spec, run: Box::new(step) })
}

impl Run for Classify {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let logits = call.floats(LOGITS)?;
        let &[rows, _] = &*logits.dims else {
            return Err(invalid(LOGITS, &format!("its shape is {:?}", logits.dims)));
        };
        let is_best_only = self.top_k.is_best_only();
        let reply = |row: usize| {
            let row = logits.row(row);
            let output = RowOutput { name: LOGITS, dims: vec![row.len()], values: row.into() };
            let mut values = whole_logits(&output)?;
            values.iter_mut().for_each(|it| *it = activate(self.activation, *it));
            let found = classify(&self.labels, values, self.function, self.top_k, LOGITS)?;
            Ok(Reply::Labels(found))
        };
        let replies = (0..rows).map(reply).collect::<Result<Vec<Reply>, BackendError>>()?;
        let labels: Vec<String> = replies.iter().flat_map(|it| it.labels(is_best_only)).collect();
        let width = labels.len().checked_div(rows).unwrap_or(0);
        let output = |name: &Arc<str>| match &**name {
            LABEL => call.text_output(LABEL, &[rows, width], &labels),
            SCORE => {
                let scores = replies.iter().flat_map(|it| it.scores(is_best_only)).collect();
                call.float_output(SCORE, &[rows, width], scores)
            }
            _ => {
                let form = ResultForm { text: "", is_best_only };
                let results = replies.iter().map(|it| result_json(it, &form));
                call.text_output(RESULT, &[rows, 1], results)
            }
        };
        call.batch.outputs.iter().map(output).collect()
    }
}

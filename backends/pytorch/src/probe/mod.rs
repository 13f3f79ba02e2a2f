//! What a module takes and gives, from what is configured and from trial runs. Pure: the
//! caller makes the runs.
//!
//! Where types and shapes of all inputs are configured, a run on zeros of these shapes tells the outputs.
//! Where not, or where that run fails, shapes are searched for ([`search`]) that the module takes: those
//! that its weights and libtorch's own texts suggest. Then dimensions are varied, to see which are free
//! ([`vary`]), and whether the first one is a batch ([`batch`]). What is not found is an error with the
//! lines of a configuration ([`advice`]).

mod advice;
mod batch;
mod known;
mod refine;
mod search;
#[cfg(test)]
mod tests;
mod vary;

use backend::{DataType, Hints, ModelSpec, TensorHint, TensorSpec};

use crate::{
    error::{ModuleError, TrialError},
    inputs::Input,
    interface::{Interface, ParameterKind},
    outputs::{self, Output},
};

use advice::Advice;
use batch::{no_batch, rows_are_apart, would_batch};
use known::{KnownInput, OPEN, ROWS, Success, known, sample};
pub(crate) use known::{Sample, Trial};
use vary::{Observed, observe};

/// What was found out.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) spec: ModelSpec,
    pub(crate) outputs: Vec<Output>,
    /// Inputs that the module takes.
    pub(crate) sample: Option<Vec<Sample>>,
    /// For the log.
    pub(crate) warning: Option<String>,
}

/// Finds out what the module takes and gives. `inputs` are in the order of the hints, if there are any.
///
/// # Errors
/// What is not known and was not found, with the lines of a configuration that would say it.
pub(crate) fn find(
    interface: &Interface,
    inputs: &[Input],
    hints: &Hints,
    trial: &mut dyn Trial,
) -> Result<Findings, ModuleError> {
    let known = known(inputs, &hints.inputs);
    check_types(&known, &hints.outputs)?;
    let is_complete = known.iter().all(|it| it.dtype.is_some() && it.dims.is_some());
    let (known, failed) = match is_complete.then(|| as_configured(&known, trial)) {
        None => (known, None),
        Some(Ok(success)) => {
            let observed = observe(&known, &success, trial);
            return conclude(interface, &known, hints, &observed, success, trial);
        }
        Some(Err(line)) => (known, Some(line)),
    };
    // What is configured and fails is not believed, but for the names.
    let base: Vec<KnownInput> = match &failed {
        Some(_) => known.iter().map(KnownInput::forget).collect(),
        None => known.clone(),
    };
    match (search::search(interface, &base, failed.is_none(), trial), failed) {
        (Ok(success), _) => {
            // Only the sizes for what is open may have been wrong.
            let fits = known.iter().zip(&success.0).all(|(it, sample)| it.allows(sample));
            let base = if fits { known } else { base };
            let observed = observe(&base, &success, trial);
            conclude(interface, &base, hints, &observed, success, trial)
        }
        (Err(_), Some(line)) => {
            let reason = format!("a trial run on zeros of the configured shapes failed: {line}");
            as_it_stands(interface, &known, hints, &reason)
        }
        (Err(reason), None) => {
            let reason = reason.to_string();
            Err(ModuleError::new(Advice { inputs: &known, outputs: &hints.outputs, reason }))
        }
    }
}

/// The same without any run: all must be configured, and nothing of it is checked.
///
/// # Errors
/// What is not configured, with the lines that would say it.
pub(crate) fn untried(
    interface: &Interface,
    inputs: &[Input],
    hints: &Hints,
) -> Result<Findings, ModuleError> {
    let known = known(inputs, &hints.inputs);
    check_types(&known, &hints.outputs)?;
    as_it_stands(interface, &known, hints, "TRIAL_RUNS is 'false'")
}

fn check_types(known: &[KnownInput], outputs: &[TensorHint]) -> Result<(), ModuleError> {
    let inputs = known.iter().map(|it| ("input", &it.name, it.dtype));
    let outputs = outputs.iter().map(|it| ("output", &it.name, it.dtype));
    for (what, name, dtype) in inputs.chain(outputs) {
        if let Some(DataType::Uint16 | DataType::Uint32 | DataType::Uint64) = dtype {
            return Err(ModuleError::new(format_args!(
                "{what} '{name}': data_type is {}, for which libtorch has no operators; signed integers \
                 and TYPE_UINT8 can be served",
                advice::type_name(dtype)
            )));
        }
    }
    for it in known.iter().filter(|it| it.kind.is_number()) {
        let types = it.kind.number_types();
        if it.dtype.is_some_and(|it| !types.contains(&it)) {
            let types: Vec<String> = types.iter().map(|&it| advice::type_name(Some(it))).collect();
            return Err(ModuleError::new(format_args!(
                "input '{}': data_type is {}, but the argument of forward is a number, which is sent as {}",
                it.name,
                advice::type_name(it.dtype),
                types.join(" or ")
            )));
        }
    }
    let is_text = |it: &&KnownInput| it.dtype == Some(DataType::Bytes);
    let text = known.iter().find(|it| it.kind != ParameterKind::Strings && is_text(it));
    if let Some(it) = text {
        return Err(ModuleError::new(format_args!(
            "input '{}': data_type is TYPE_STRING, but the argument of forward is no List[str]",
            it.name
        )));
    }
    Ok(())
}

/// Runs on zeros of the configured shapes.
fn as_configured(known: &[KnownInput], trial: &mut dyn Trial) -> Result<Success, TrialError> {
    let has_open = |from: usize| {
        known.iter().flat_map(|it| &it.dims).any(|it| it.iter().skip(from).any(Option::is_none))
    };
    let sizes = if has_open(1) { &OPEN[..] } else { &OPEN[..1] };
    let rows = if has_open(0) { &[ROWS, 1][..] } else { &[ROWS][..] };
    let mut first_problem = None;
    for &rows in rows {
        for &size in sizes {
            let samples: Option<Vec<Sample>> =
                known.iter().map(|it| sample(it, rows, size)).collect();
            let Some(samples) = samples else { continue };
            match trial.run(&samples) {
                Ok(facts) => return Ok((samples, facts)),
                Err(line) => first_problem.get_or_insert(line),
            };
            if trial.is_over() {
                return Err(first_problem.unwrap_or_default());
            }
        }
    }
    let too_large = || TrialError::new("its shapes are too large for a trial run");
    Err(first_problem.unwrap_or_else(too_large))
}

/// What runs have shown, as a model.
fn conclude(
    interface: &Interface,
    known: &[KnownInput],
    hints: &Hints,
    observed: &Observed,
    (samples, facts): Success,
    trial: &mut dyn Trial,
) -> Result<Findings, ModuleError> {
    let outputs = outputs::assign(&interface.returns, &hints.outputs, Some(&facts))?;
    let inputs = known.iter().zip(&samples).zip(&observed.inputs).map(|((known, sample), dims)| {
        TensorSpec {
            name: known.name.clone(),
            dtype: sample.dtype,
            dims: dims.clone(),
            any_rank: false,
            optional: known.optional,
        }
    });
    let mut spec =
        ModelSpec { inputs: inputs.collect(), outputs: Vec::new(), ..ModelSpec::default() };
    let batches = begin_open(&hints.inputs) && begin_open(&hints.outputs);
    let counts = observed.counts.filter(|_| hints.outputs.is_empty());
    let mut problem = counts.map(|(first, other)| {
        format!(
            "how many values forward returns depends on its inputs: they were {first} in one trial run \
             and {other} in another"
        )
    });
    for output in &outputs {
        let Some(place) = output.find(&facts) else {
            return Err(ModuleError::new(format_args!(
                "output '{}' is not among what forward returns",
                output.name
            )));
        };
        let dtype = match &facts[place].dtype {
            Ok(_) if observed.fickle[place] => {
                problem.get_or_insert(format!(
                    "output '{}' is not there in every trial run, or not with as many dimensions",
                    output.name
                ));
                continue;
            }
            Ok(it) => *it,
            Err(it) => {
                let text =
                    format!("output '{}' is of type {it}, which cannot be served", output.name);
                problem.get_or_insert(text);
                continue;
            }
        };
        let hint = hints.outputs.iter().find(|it| it.name == output.name);
        let configured = hint.and_then(|it| it.dims.as_ref());
        let dims = fitting(configured, &observed.outputs[place], batches && observed.rows_varied);
        spec.outputs.push(TensorSpec {
            name: output.name.clone(),
            dtype,
            dims,
            any_rank: false,
            optional: false,
        });
    }
    match problem {
        // The outputs at fault may not be needed.
        Some(problem) if hints.outputs.is_empty() && !spec.outputs.is_empty() => {
            let others =
                spec.outputs.iter().map(|it| format!(" output {{ name: \"{}\" }}", it.name));
            let others: String = others.collect();
            return Err(ModuleError::new(format_args!(
                "{problem}; to serve what is always there and can be, write into config.pbtxt:{others}"
            )));
        }
        Some(problem) => return Err(ModuleError::new(problem)),
        None => {}
    }
    if would_batch(&spec, hints) {
        let places: Vec<usize> = outputs.iter().filter_map(|it| it.find(&facts)).collect();
        rows_are_apart(&samples, &places, observed, trial)
            .map_err(|reason| no_batch(known, &spec, &reason))?;
    }
    let one_number = known.iter().any(KnownInput::begins_open) && !observed.rows_varied;
    let one_number = one_number.then(|| {
        let rows = samples.iter().find_map(|it| it.dims.first()).copied().unwrap_or_default();
        format!(
            "a trial run with {rows} in the first dimension succeeded, and one with {} did not: batches of \
             more than one request may fail (max_batch_size: 0 for none)",
            rows + 1
        )
    });
    let warnings: Vec<String> = one_number.into_iter().chain(unvaried(known, observed)).collect();
    let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
    Ok(Findings { spec, outputs, sample: Some(samples), warning })
}

/// Tells of dimensions that may be free and were not tried.
fn unvaried(known: &[KnownInput], observed: &Observed) -> Option<String> {
    let is_unvaried = |at: &usize| observed.unvaried.contains(at);
    let names: Vec<&str> =
        (0..known.len()).filter(is_unvaried).map(|at| &*known[at].name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "trial runs took too long to see whether other sizes fit: those of {} stay as the first one that \
             fits; configure its dims if others do",
            names.join(", ")
        )
    })
}

/// Are all of these configured with an open first dimension, as a batch is?
fn begin_open(hints: &[TensorHint]) -> bool {
    let open = |it: &TensorHint| {
        it.dims.as_ref().is_some_and(|it| it.first().is_some_and(Option::is_none))
    };
    !hints.is_empty() && hints.iter().all(open)
}

/// The shape of an output, where `configured` and `observed` agree as the former has it. What is configured
/// as open may be of one size in the model, but the first dimension, where that is the batch.
fn fitting(
    configured: Option<&Vec<Option<usize>>>,
    observed: &[Option<usize>],
    is_batch: bool,
) -> Vec<Option<usize>> {
    let Some(configured) = configured.filter(|it| it.len() == observed.len()) else {
        return observed.to_vec();
    };
    let fit = |(at, (&configured, &observed)): (usize, (&Option<usize>, &Option<usize>))| {
        match configured {
            None if at > 0 || !is_batch => None,
            _ => observed,
        }
    };
    configured.iter().zip(observed).enumerate().map(fit).collect()
}

/// The configuration as it is, for a module that was not run, or does not take zeros and may have its reasons.
fn as_it_stands(
    interface: &Interface,
    known: &[KnownInput],
    hints: &Hints,
    reason: &str,
) -> Result<Findings, ModuleError> {
    let output = |hint: &TensorHint| {
        let (dtype, dims) = (hint.dtype?, hint.dims.clone()?);
        Some(TensorSpec { name: hint.name.clone(), dtype, dims, any_rank: false, optional: false })
    };
    let input = |it: &KnownInput| {
        let (dtype, dims) = (it.dtype?, it.dims.clone()?);
        Some(TensorSpec {
            name: it.name.clone(),
            dtype,
            dims,
            any_rank: false,
            optional: it.optional,
        })
    };
    let inputs: Option<Vec<TensorSpec>> = known.iter().map(input).collect();
    let given: Option<Vec<TensorSpec>> = hints.outputs.iter().map(output).collect();
    let (Some(inputs), Some(given)) = (inputs, given.filter(|it| !it.is_empty())) else {
        let reason = reason.to_owned();
        return Err(ModuleError::new(Advice { inputs: known, outputs: &hints.outputs, reason }));
    };
    let outputs = outputs::assign(&interface.returns, &hints.outputs, None)?;
    let warning = format!("types and shapes are not checked: {reason}");
    let spec = ModelSpec { inputs, outputs: given, ..ModelSpec::default() };
    Ok(Findings { spec, outputs, sample: None, warning: Some(warning) })
}

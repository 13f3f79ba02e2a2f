//! Is what a model answers for a row the same whatever else is in its run? Only then are requests merged.
//!
//! Rows prove something only where they have different answers, all of them numbers: of answers that are alike nobody
//! sees whose they are. See [`evidence`].
//!
//! What differs is told apart by where it comes from. The order in which an engine adds depends on the *shape* of a
//! run, so rounding differs between one row alone and the same row among others, and by little. What an engine computes
//! for a row at one place of a run of one shape depends on the *values* of the other rows only where the model mixes
//! rows. So a row is compared with itself alone, and with itself at the same place of a run of nothing but itself. Its
//! company is silent, much quieter, as loud, nearly empty, louder and much louder, and each of these rows is compared
//! so: a mean over the batch, its largest number, or a scale of quantisation that the whole batch shares then changes
//! by much, and rounding not at all. At last it is seen beside rows that are no numbers, beside huge ones, and beside
//! negative whole numbers and the largest indices that the model takes: see [`special`].

mod company;
mod evidence;
mod indices;
mod special;
mod trial;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use backend::{BackendError, Instance, NamedTensor};

use self::{
    evidence::{Constants, Evidence},
    trial::{Kind, TrialFailure, Tried},
};
use crate::load::{
    run_limit::RunLimit,
    sample_rows::{Loudness, Recipe, made_up},
    warmup::sample_work,
};
use inference::signature::Signature;
use schedule::work::Work;
use serving::config::model::{ModelConfig, Scheduling};

/// So many kinds of numbers that the model takes are tried for a proof. A model that answers none of them with
/// different numbers will hardly answer others so.
const MOST_KINDS: usize = 24;

/// So many are where an output has been the same for all of them, and other outputs prove something.
const FEW_KINDS: usize = 4;

/// The search for a proof is to leave time for everything else that is run before the model serves.
const PART_OF_LIMIT: u32 = 4;

/// What is known of the rows of a model's runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Each is answered as it is alone.
    Independent,
    /// Not so, or it cannot be told; a sentence.
    Lacking(String),
    /// An output has other rows than its run: every such request would fail; a sentence.
    NoBatch(String),
}

/// Can the rows of that model be tried? Not where the configuration has taken over what a run consists of.
pub(crate) fn is_due(config: &ModelConfig) -> bool {
    let is_plain = !matches!(config.scheduling, Scheduling::Sequences(_));
    0 < config.max_batch_size && is_plain && config.ragged.is_none()
}

/// Tries the rows of the model on one of its instances. `dir` is the model's directory, `limit` bounds the runs.
///
/// # Errors
/// When the device cannot be used, or the runs take too long.
pub(crate) fn prove(
    instance: &mut dyn Instance,
    signature: &Signature,
    config: &ModelConfig,
    dir: &Path,
    is_on_gpu: bool,
    limit: &RunLimit,
) -> Result<Proof, BackendError> {
    let started = Instant::now();
    let mut tried = Tried {
        instance,
        signature,
        config,
        limit,
        started,
        is_endless: false,
        unbudgeted: Duration::ZERO,
    };
    let given = config.warmups.iter().filter_map(|it| {
        let work = sample_work(it, signature, config, dir).ok()?;
        Some(Recipe::Given(first_row(&work)?))
    });
    let mut recipes = given.chain(made_up(signature, is_on_gpu));
    if config.max_batch_size == 1 {
        return one_row(&mut tried, &mut recipes);
    }
    let mut constants = Constants::default();
    let best = match search(&mut tried, &mut recipes, &mut constants)? {
        Search::Found(best) => best,
        Search::Nothing(reason) => return Ok(Proof::Lacking(reason)),
        Search::NoBatch(reason) => return Ok(Proof::NoBatch(reason)),
        // What is alike alone may yet differ in company, which says more.
        Search::Alike(kind, reason) => {
            let compared = tried.prove_by(&kind);
            limit.check()?;
            return match compared {
                Err(TrialFailure::Engine(error @ BackendError::Device(_))) => Err(error),
                Err(TrialFailure::Dependent(more)) => Ok(Proof::Lacking(more)),
                Err(TrialFailure::NoBatch(reason)) => Ok(Proof::NoBatch(reason)),
                Ok(()) | Err(_) => Ok(Proof::Lacking(reason)),
            };
        }
    };
    let mut proved = tried.prove_by(&best);
    if proved.is_ok() {
        proved = tried.special_company(&best, is_on_gpu);
    }
    if proved.is_ok() {
        proved = tried.further_sizes(&best);
    }
    // Numbers of a second kind, if there is time.
    while proved.is_ok() && !tried.is_over() {
        let Some(recipe) = recipes.next() else { break };
        match tried.alone(recipe) {
            Ok(other) if other.evidence.is_proof(&constants) => {
                proved = tried.prove_by(&other);
                break;
            }
            Err(
                failure @ (TrialFailure::Dependent(_)
                | TrialFailure::NoBatch(_)
                | TrialFailure::Engine(BackendError::Device(_) | BackendError::Crashed(_))),
            ) => {
                proved = Err(failure);
            }
            Ok(_) | Err(_) => limit.check()?,
        }
    }
    limit.check()?;
    match proved {
        Ok(()) => Ok(Proof::Independent),
        Err(TrialFailure::Dependent(reason)) => Ok(Proof::Lacking(reason)),
        Err(TrialFailure::NoBatch(reason)) => Ok(Proof::NoBatch(reason)),
        Err(TrialFailure::Engine(error @ BackendError::Device(_))) => Err(error),
        Err(TrialFailure::Engine(error)) => {
            Ok(Proof::Lacking(format!("it fails when its rows are tried: {error}")))
        }
        Err(TrialFailure::NoRow) => {
            Ok(Proof::Lacking("its rows cannot be put together".to_owned()))
        }
    }
}

/// Does a model that runs one row at a time answer with one row? There is no company that it could depend on, so that
/// what cannot be tried is let be.
///
/// # Errors
/// When the device cannot be used, or the runs take too long.
fn one_row(
    tried: &mut Tried<'_>,
    recipes: &mut dyn Iterator<Item = Recipe>,
) -> Result<Proof, BackendError> {
    for recipe in recipes {
        let row = recipe.row(0, Loudness::Ordinary, tried.signature, tried.config);
        let answers = row.ok_or(TrialFailure::NoRow).and_then(|row| tried.run(&[&row]));
        tried.limit.check()?;
        match answers {
            Ok(_) => break,
            Err(TrialFailure::NoBatch(reason)) => return Ok(Proof::NoBatch(reason)),
            Err(TrialFailure::Engine(error @ BackendError::Device(_))) => return Err(error),
            Err(TrialFailure::Dependent(_) | TrialFailure::Engine(_) | TrialFailure::NoRow) => (),
        }
    }
    Ok(Proof::Independent)
}

/// The first row of a sample, if its elements are not all the same: moved on, they would be no other row.
fn first_row(work: &Work) -> Option<Work> {
    let differ = |it: &NamedTensor| {
        let bytes = it.tensor.to_bytes();
        bytes.iter().any(|byte| Some(byte) != bytes.first())
    };
    let row = |it: &NamedTensor| {
        let tensor = it.tensor.slice_rows(0, 1)?;
        Some(NamedTensor { name: it.name.clone(), tensor })
    };
    let inputs: Vec<NamedTensor> = work.inputs.iter().map(row).collect::<Option<_>>()?;
    let varies = inputs.iter().any(differ);
    varies.then(|| Work {
        inputs,
        outputs: work.outputs.clone(),
        rows: 1,
        signature: work.signature,
        about: None,
        parts: None,
    })
}

/// What came of the search for numbers that prove something.
enum Search {
    Found(Kind),
    /// The model takes numbers, of which none prove anything; a sentence.
    Alike(Kind, String),
    /// It takes none; a sentence.
    Nothing(String),
    /// An output has other rows than its run; a sentence.
    NoBatch(String),
}

/// Looks for the numbers to which the answers differ most: the first whose ordinary rows are told apart by every
/// output, else those with the most answers. Ends when these have been found, and not before for want of time,
/// unless the load itself would end.
///
/// # Errors
/// When the device cannot be used, or the runs take too long.
fn search(
    tried: &mut Tried<'_>,
    recipes: &mut dyn Iterator<Item = Recipe>,
    constants: &mut Constants,
) -> Result<Search, BackendError> {
    let (mut kinds, mut refusal, mut says) = (0, None, None);
    let mut best: Option<Kind> = None;
    for recipe in recipes {
        let kind = tried.alone(recipe);
        tried.limit.check()?;
        match kind {
            Ok(kind) => {
                kinds += 1;
                constants.record(&kind.alone);
                says = says.or_else(|| kind.evidence.lacks().map(str::to_owned));
                if best.as_ref().is_none_or(|it| it.evidence.strength() < kind.evidence.strength())
                {
                    best = Some(kind);
                }
            }
            Err(TrialFailure::Dependent(reason)) => return Ok(Search::Nothing(reason)),
            Err(TrialFailure::NoBatch(reason)) => return Ok(Search::NoBatch(reason)),
            Err(TrialFailure::Engine(error @ BackendError::Device(_))) => return Err(error),
            Err(TrialFailure::Engine(error @ BackendError::Crashed(_))) => {
                return Ok(Search::Nothing(format!("to try its rows ends its process: {error}")));
            }
            Err(TrialFailure::Engine(error)) => drop(refusal.get_or_insert(error.to_string())),
            Err(TrialFailure::NoRow) => (),
        }
        let best = best.as_ref().map(|it| &it.evidence);
        let is_whole = best.is_some_and(Evidence::is_whole);
        let is_beside = FEW_KINDS <= kinds && best.is_some_and(|it| it.is_beside_still(constants));
        let is_late = tried.limit.part(PART_OF_LIMIT) < tried.started.elapsed();
        if is_whole || is_beside || is_late || MOST_KINDS <= kinds {
            break;
        }
    }
    Ok(match best {
        Some(best) if best.evidence.is_proof(constants) => Search::Found(best),
        Some(best) => {
            let says = says.unwrap_or_else(|| "they are alike".to_owned());
            let says =
                format!("its answers to the values that it was tried with prove nothing: {says}");
            Search::Alike(best, says)
        }
        None => {
            let refusal = refusal.unwrap_or_else(|| "its rows are too large".to_owned());
            Search::Nothing(format!(
                "it takes none of the inputs that it was tried with: {refusal}"
            ))
        }
    })
}

#[cfg(test)]
pub(crate) mod tests;

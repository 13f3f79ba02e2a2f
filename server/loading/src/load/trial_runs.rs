//! A few runs of rows of text at load: they teach what runs cost before the first request, and how much memory they
//! take.

use std::time::{Duration, Instant};

use backend::{BackendError, Instance};

use crate::load::{run_limit::RunLimit, text_rows::run};
use schedule::{cost::CostTable, run_memory::TrialRun, work::Work};
use serving::pipeline::open::ServedPipeline;

/// Rows and tokens of the runs, as far as there is time for them.
const SIZES: [(usize, usize); 6] = [(1, 8), (1, 32), (8, 8), (1, 128), (4, 16), (8, 32)];

/// No run that would not end by then.
const TIME: Duration = Duration::from_millis(100);

/// Longest run of one row of the longest input, which tells how much memory the runs take.
const LONGEST_RUN: Duration = Duration::from_millis(150);

/// A run below is made twice: the first of a size takes longer.
const SHORT: Duration = Duration::from_millis(5);

/// What they have shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trials {
    /// What runs cost.
    pub(crate) costs: CostTable,
    /// The memory that runs of one row take.
    pub(crate) memory: Vec<TrialRun>,
}

/// Runs rows of a pipeline on an instance of its graph on a processor. Where `known` is given it has taught what runs
/// cost already, and only memory is looked at.
///
/// # Errors
/// Those of the engine.
pub(crate) fn trial_runs(
    instance: &mut dyn Instance,
    pipeline: &ServedPipeline,
    limit: &RunLimit,
    known: Option<CostTable>,
) -> Result<Trials, BackendError> {
    let most_rows = pipeline.rows.bounds.map_or(1, |it| it.rows);
    let (began, before) = (Instant::now(), machine::anonymous_bytes());
    let sizes: &[(usize, usize)] = if known.is_some() { &[] } else { &SIZES };
    let mut trials = Trials { costs: known.unwrap_or_default(), memory: Vec::new() };
    let Some(longest) = pipeline.steps.text().map(|it| it.max_tokens()) else { return Ok(trials) };
    let mut made = Vec::new();
    for (rows, tokens) in sizes.iter().copied().chain([(1, longest)]) {
        let is_longest = longest <= tokens;
        let (rows, tokens) = (rows.min(most_rows), tokens.min(longest));
        let expected = match trials.costs.runs() {
            0 => Duration::ZERO,
            _ => trials.costs.time(rows, tokens),
        };
        let fits = match is_longest {
            true => expected <= LONGEST_RUN,
            false => began.elapsed() + expected <= TIME,
        };
        if !fits || made.contains(&(rows, tokens)) {
            continue;
        }
        made.push((rows, tokens));
        let Some((work, length)) = row(pipeline, tokens) else { continue };
        let works = vec![&work; rows];
        let mut timed = || {
            let started = Instant::now();
            run(instance, pipeline, limit, &works).map(|_| started.elapsed())
        };
        let mut took = timed()?;
        if took < SHORT {
            took = timed()?;
        }
        trials.costs.record(rows, length, took);
        if rows == 1 {
            let bytes = machine::anonymous_bytes().saturating_sub(before);
            trials.memory.push(TrialRun { tokens: length, bytes });
        }
    }
    Ok(trials)
}

/// A row of so many tokens, and the length up to which it is filled.
fn row(pipeline: &ServedPipeline, tokens: usize) -> Option<(Work, usize)> {
    let text = "the ".repeat(tokens);
    let (inputs, tokens) = pipeline.steps.text()?.trial_row(&text, tokens).ok()?;
    let job = pipeline.rows.job(&pipeline.steps, vec![inputs], tokens).ok()?;
    Some((job.work, job.length))
}

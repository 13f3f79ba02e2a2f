//! The tensors of jobs to those of one batch, and its outputs back to each job. Pure.

use std::sync::Arc;

use backend::{BackendError, NamedTensor, Shape, Tensor};

use super::{run_context::RunContext, work::Work};

/// The jobs' inputs one below the other. Lists buffers, copies nothing.
pub(super) fn gather(
    context: &RunContext,
    jobs: &[&Work],
) -> Result<Vec<NamedTensor>, BackendError> {
    if let Some(ragged) = &context.ragged {
        return ragged.gather(jobs);
    }
    let padding = context.padding.as_deref();
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    let columns = first.inputs.iter().enumerate().map(|(at, input)| {
        let parts = jobs.iter().filter_map(|it| it.inputs.get(at)).map(|it| &it.tensor);
        let tensor = Tensor::concat(parts.clone());
        let tensor = tensor.or_else(|| padding?.concat(&input.name, parts)).ok_or_else(|| {
            BackendError::Execute(format!("input '{}' differs inside the batch", input.name))
        })?;
        Ok(NamedTensor { name: input.name.clone(), tensor })
    });
    columns.collect()
}

/// The outputs that at least one job wants, in the model's order.
pub(super) fn wanted(context: &RunContext, jobs: &[&Work]) -> Vec<Arc<str>> {
    let is_wanted = |name: &&Arc<str>| jobs.iter().any(|it| it.outputs.contains(name));
    context.outputs(jobs).iter().filter(is_wanted).cloned().collect()
}

/// The outputs as they are, where the only job wants these in this order, and all of them are its own.
///
/// # Errors
/// The outputs, where [`scatter`] is to say what each job gets.
pub(super) fn whole(
    context: &RunContext,
    jobs: &[&Work],
    results: Vec<NamedTensor>,
    rows: usize,
) -> Result<Vec<NamedTensor>, Vec<NamedTensor>> {
    let [only] = jobs else { return Err(results) };
    let batches = context.batches(jobs);
    let is_own = |(it, name): (&NamedTensor, &Arc<str>)| {
        it.name == *name && (!batches || it.tensor.shape().rows() == Some(rows))
    };
    let is_whole = context.ragged.is_none()
        && only.rows == rows
        && results.len() == only.outputs.len()
        && results.iter().zip(&only.outputs).all(is_own);
    if is_whole { Ok(results) } else { Err(results) }
}

/// Each job's rows of the outputs that it wants.
pub(super) fn scatter(
    context: &RunContext,
    jobs: &[&Work],
    results: &[NamedTensor],
    rows: usize,
) -> Result<Vec<Vec<NamedTensor>>, BackendError> {
    let scattered = scattered(context, jobs, results)?;
    let mut start = 0;
    let mut shares = Vec::with_capacity(jobs.len());
    for (at, job) in jobs.iter().enumerate() {
        let share = job.outputs.iter().map(|name| {
            if let Some((_, parts)) = scattered.iter().find(|(it, _)| it == name)
                && let Some(part) = parts.get(at)
            {
                return Ok(part.clone());
            }
            let whole = results.iter().find(|it| it.name == *name).ok_or_else(|| {
                BackendError::Execute(format!("the engine did not return output '{name}'"))
            })?;
            if !context.batches(jobs) {
                return Ok(whole.clone());
            }
            let given = whole.tensor.shape().rows();
            let part = match given == Some(rows) {
                true => whole.tensor.slice_rows(start, job.rows),
                false => holds_all(jobs).then(|| whole.tensor.clone()),
            };
            let tensor = part.ok_or_else(|| other_rows(name, whole.tensor.shape(), rows))?;
            Ok(NamedTensor { name: whole.name.clone(), tensor })
        });
        shares.push(share.collect::<Result<_, BackendError>>()?);
        start += job.rows;
    }
    Ok(shares)
}

/// An output has other rows than the batch.
pub(super) fn other_rows(output: &str, shape: &Shape, rows: usize) -> BackendError {
    BackendError::Execute(format!(
        "the engine returned output '{output}' of shape {shape} for a batch of {rows} rows; where its first dimension is \
         no batch, the model's configuration needs max_batch_size: 0"
    ))
}

/// Does one job hold all that is in the run, as an image and any number of texts that are compared with it? Its inputs
/// differ in their rows, and so do the outputs.
fn holds_all(jobs: &[&Work]) -> bool {
    let [only] = jobs else { return false };
    only.inputs.iter().any(|it| it.tensor.shape().rows() != Some(only.rows))
}

/// An output that is cut up by the shapes of an input: its name, and one part for each job.
type Scattered = (Arc<str>, Vec<NamedTensor>);

/// The outputs that are.
fn scattered(
    context: &RunContext,
    jobs: &[&Work],
    results: &[NamedTensor],
) -> Result<Vec<Scattered>, BackendError> {
    let Some(ragged) = &context.ragged else { return Ok(Vec::new()) };
    let outputs = results.iter().filter_map(|it| Some((it, ragged.source_of(&it.name)?)));
    let parts =
        outputs.map(|(it, source)| Ok((it.name.clone(), ragged.scatter(it, source, jobs)?)));
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(batches: bool) -> RunContext {
        RunContext {
            answers_calls: false,
            others: Vec::new(),
            batches,
            outputs: vec!["y".into(), "z".into()],
            rerun: Default::default(),
            splits: Default::default(),
            ragged: None,
            padding: None,
        }
    }

    fn output(name: &str, rows: usize) -> NamedTensor {
        let values: Vec<i32> = name.bytes().cycle().take(rows).map(i32::from).collect();
        let tensor = Tensor::from_vec(Shape::new(&[rows]), values).unwrap();
        NamedTensor { name: name.into(), tensor }
    }

    /// Does a job of two rows that wants `outputs` get the results as they are? What it gets is what it is cut out of
    /// them.
    #[track_caller]
    fn check(context: &RunContext, outputs: &[&str], results: Vec<NamedTensor>, expect: bool) {
        let (inputs, outputs) = (vec![output("x", 2)], outputs.iter().map(|it| (*it).into()));
        let work = Work {
            about: None,
            parts: None,
            signature: 0,
            inputs,
            outputs: outputs.collect(),
            rows: 2,
        };
        let scattered = scatter(context, &[&work], &results, 2);
        match whole(context, &[&work], results, 2) {
            Ok(share) => {
                assert!(expect);
                assert_eq!(format!("{share:?}"), format!("{:?}", scattered.unwrap()[0]));
            }
            Err(_) => assert!(!expect),
        }
    }

    #[test]
    fn the_only_job_gets_the_results_as_they_are_where_all_of_them_are_its_own() {
        let both = || vec![output("y", 2), output("z", 2)];
        check(&context(true), &["y", "z"], both(), true);
        check(&context(true), &["z", "y"], both(), false);
        check(&context(true), &["y"], both(), false);
        check(&context(true), &["y", "z"], vec![output("y", 2)], false);
        check(&context(true), &["y"], vec![output("y", 3)], false);
        check(&context(false), &["y"], vec![output("y", 3)], true);
        let work = |rows| {
            let (inputs, outputs) = (vec![output("x", rows)], vec!["y".into()]);
            Work { about: None, parts: None, signature: 0, inputs, outputs, rows }
        };
        let (one, other) = (work(1), work(1));
        assert!(whole(&context(true), &[&one, &other], vec![output("y", 2)], 2).is_err());
        assert!(whole(&context(true), &[&one], vec![output("y", 2)], 2).is_err());
    }
}

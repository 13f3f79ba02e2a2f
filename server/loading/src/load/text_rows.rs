//! Is what a graph answers for a text the same alone, with company, and padded? Tried at load with rows of real tokens.

use backend::{BackendError, Batch, Instance, NamedTensor, Tensor};

use crate::load::run_limit::RunLimit;
use schedule::work::Work;
use serving::pipeline::open::ServedPipeline;
use steps::{RowOutput, RowPlace, Step, outputs_of_row};

/// Differences up to here are those of sums that are added in another order, as a part of the largest number.
const ROUNDING: f64 = 1e-4;

/// Above, a graph mixes its rows. Below, it rounds inside by what is in its run, as one of eight bits does.
const MIXING: f64 = 0.25;

/// The text of the row that is compared, and that of its company.
const TEXT: &str = "The quick brown fox jumps over the lazy dog, and nobody in the village minds.";
const COMPANY: &str = "Seven hundred large ships left that port in winter; all but two of them came back \
                       before the ice had gone from the river, heavy with timber and grain.";

/// Tokens of a short row and of a long one.
const SHORT: usize = 8;
const LONG: usize = 32;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TextRows {
    /// Answers are the same.
    Independent,
    /// Answers differ by that part with company, in this output.
    Rounded(f64, String),
    /// Rows do not go together; a sentence.
    Mixed(String),
}

/// Tries the rows of a pipeline on an instance of its graph. `None` where not even one row can be run.
pub(crate) fn try_rows(
    instance: &mut dyn Instance,
    pipeline: &ServedPipeline,
    limit: &RunLimit,
) -> Option<TextRows> {
    let row = |text: &str, tokens: usize| {
        let (inputs, tokens) = pipeline.steps.text()?.trial_row(text, tokens).ok()?;
        let job = pipeline.rows.job(&pipeline.steps, vec![inputs], tokens).ok()?;
        Some((job.work, tokens))
    };
    let (short, tokens) = row(TEXT, SHORT)?;
    let mut run = |rows: &[&Work]| run(instance, pipeline, limit, rows);
    let alone = run(&[&short]).ok()?;
    let beside = [row(COMPANY, SHORT)?, row(COMPANY, LONG)?];
    let (mut worst, mut output) = (0.0, String::new());
    for (company, company_tokens) in beside {
        if company_tokens != tokens && pipeline.rows.padding.is_none() {
            continue;
        }
        let answers = match run(&[&company, &short]) {
            Ok(answers) => answers,
            Err(error) => {
                return Some(TextRows::Mixed(format!("it fails for two rows: {error}")));
            }
        };
        let padding = pipeline.steps.padding_side();
        let of = |answers, row| {
            outputs_of_row(pipeline.steps.outputs(), answers, RowPlace { row, tokens, padding })
        };
        let Ok((own, other)) = of(&alone, 0).and_then(|own| Ok((own, of(&answers, 1)?))) else {
            return Some(TextRows::Mixed("its first dimension is no batch".to_owned()));
        };
        for (own, other) in own.iter().zip(&other) {
            let apart = apart(own, other);
            if worst < apart {
                (worst, output) = (apart, own.name.to_owned());
            }
        }
    }
    Some(judged(worst, output))
}

fn judged(apart: f64, output: String) -> TextRows {
    if apart <= ROUNDING {
        TextRows::Independent
    } else if apart <= MIXING {
        TextRows::Rounded(apart, output)
    } else {
        TextRows::Mixed(format!(
            "what it answers for a text depends on the others of the run (output '{output}', by {:.0} %)",
            100.0 * apart
        ))
    }
}

/// The largest difference, as a part of the largest number.
fn apart(one: &RowOutput<'_>, other: &RowOutput<'_>) -> f64 {
    if one.dims != other.dims {
        return f64::INFINITY;
    }
    let values = || one.values.iter().zip(&*other.values);
    // Of what is no number nobody sees whose it is.
    if one.values.iter().chain(&*other.values).any(|it| it.is_nan()) {
        return f64::INFINITY;
    }
    let largest = values().fold(0.0, |most: f32, (a, b)| most.max(a.abs()).max(b.abs()));
    let apart = values().map(|(a, b)| match a == b {
        true => 0.0,
        false => f64::from((a - b).abs()) / f64::from(largest),
    });
    apart.fold(0.0, |most: f64, it| if it.is_nan() { f64::INFINITY } else { most.max(it) })
}

/// Runs rows of unequal length together.
pub(crate) fn run(
    instance: &mut dyn Instance,
    pipeline: &ServedPipeline,
    limit: &RunLimit,
    rows: &[&Work],
) -> Result<Vec<NamedTensor>, BackendError> {
    let outputs = rows.first().map(|it| it.outputs.as_slice()).unwrap_or_default();
    let columns = rows.first().map(|it| it.inputs.as_slice()).unwrap_or_default();
    let padding = pipeline.rows.padding.as_deref();
    let column = |(at, input): (usize, &NamedTensor)| {
        let parts = rows.iter().filter_map(|it| it.inputs.get(at)).map(|it| &it.tensor);
        let tensor = Tensor::concat(parts.clone());
        let tensor = tensor.or_else(|| padding?.concat(&input.name, parts))?;
        Some(NamedTensor { name: input.name.clone(), tensor })
    };
    let inputs: Option<Vec<NamedTensor>> = columns.iter().enumerate().map(column).collect();
    let uneven = || BackendError::Execute("its rows cannot be put together".to_owned());
    let inputs = &inputs.ok_or_else(uneven)?;
    let batch = Batch { signature: 0, inputs, outputs, rows: rows.len(), stop: limit.stop() };
    let answers = instance.execute(&batch);
    limit.check()?;
    answers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn output(values: &[f32]) -> RowOutput<'_> {
        RowOutput { name: "x", dims: vec![values.len()], values: Cow::Borrowed(values) }
    }

    #[test]
    fn a_difference_is_a_part_of_the_largest_number() {
        assert_eq!(apart(&output(&[1.0, -4.0]), &output(&[1.0, -4.0])), 0.0);
        assert_eq!(apart(&output(&[1.0, -4.0]), &output(&[2.0, -4.0])), 0.25);
        assert_eq!(apart(&output(&[f32::NAN]), &output(&[f32::NAN])), f64::INFINITY);
        assert_eq!(apart(&output(&[f32::NAN]), &output(&[1.0])), f64::INFINITY);
        assert_eq!(apart(&output(&[1.0]), &output(&[1.0, 2.0])), f64::INFINITY);
    }

    #[test]
    fn rounding_inside_is_no_mixing() {
        assert_eq!(judged(9e-5, String::new()), TextRows::Independent);
        assert_eq!(judged(0.02, "x".to_owned()), TextRows::Rounded(0.02, "x".to_owned()));
        assert!(matches!(judged(0.3, "x".to_owned()), TextRows::Mixed(_)));
        assert!(matches!(judged(f64::INFINITY, "x".to_owned()), TextRows::Mixed(_)));
    }
}

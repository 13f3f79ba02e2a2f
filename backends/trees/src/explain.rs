//! Outputs that are not made of sums: the leaves that rows reach, and what features contribute.

use backend::{BackendError, Batch, DataType, Tensor};

use crate::{
    forest::{packed::Forest, shap::Scratch},
    limits,
    output::{Output, tensor},
    rows::{Converted, ROWS_PER_LOOK},
};

/// The leaf of each tree of all forests.
pub(crate) fn leaves(
    output: &Output,
    forests: &[Forest],
    rows: Converted<'_>,
    batch: &Batch<'_>,
) -> Result<Tensor, BackendError> {
    let dims = output.form.dims(forests);
    let width = bounded(output, &dims, batch.rows)?;
    let mut leaves = vec![0; batch.rows * width];
    let mut start = 0;
    for forest in forests {
        let trees = forest.trees.len();
        let mut of_forest = vec![0; ROWS_PER_LOOK.min(batch.rows) * trees];
        let of_look = forest.features * ROWS_PER_LOOK;
        for (i, leaves) in leaves.chunks_mut(width * ROWS_PER_LOOK).enumerate() {
            check(batch)?;
            forest.leaves_of(rows.of(forest).slice(i * of_look, of_look), &mut of_forest);
            for (row, found) in leaves.chunks_mut(width).zip(of_forest.chunks(trees.max(1))) {
                row[start..start + trees].copy_from_slice(found);
            }
        }
        start += trees;
    }
    tensor(batch.rows, &dims, leaves)
}

/// What each feature contributes to each sum, and behind them the sum without any. Of several forests the mean.
pub(crate) fn contributions(
    output: &Output,
    forests: &[Forest],
    rows: Converted<'_>,
    batch: &Batch<'_>,
    scratch: &mut Scratch,
) -> Result<Tensor, BackendError> {
    let dims = output.form.dims(forests);
    let width = bounded(output, &dims, batch.rows)?;
    let mut of_row = vec![0.0; width];
    let mut of_all = vec![0.0; width];
    let (mut singles, mut doubles) = (Vec::new(), Vec::new());
    match output.dtype {
        DataType::Fp32 => singles.reserve_exact(batch.rows * width),
        _ => doubles.reserve_exact(batch.rows * width),
    }
    for row in 0..batch.rows {
        check(batch)?;
        of_all.fill(0.0);
        for forest in forests {
            let typed = rows.of(forest).slice(row * forest.features, forest.features);
            forest.explain(typed, scratch, &mut of_row);
            of_all.iter_mut().zip(&of_row).for_each(|(sum, it)| *sum += it);
        }
        let mean = of_all.iter().map(|it| it / forests.len() as f64);
        match output.dtype {
            DataType::Fp32 => singles.extend(mean.map(|it| it as f32)),
            _ => doubles.extend(mean),
        }
    }
    match output.dtype {
        DataType::Fp32 => tensor(batch.rows, &dims, singles),
        _ => tensor(batch.rows, &dims, doubles),
    }
}

/// The numbers that an output of these dimensions has in a row, where a run may have as many for all of its rows.
fn bounded(output: &Output, dims: &[usize], rows: usize) -> Result<usize, BackendError> {
    let width = dims.iter().product();
    match limits::EXPLAINED_NUMBERS.checked_div(width) {
        Some(most) if most < rows => Err(BackendError::InvalidInput(format!(
            "output '{}' of {rows} rows has {width} numbers each; at most {most} rows are explained at once",
            output.name
        ))),
        _ => Ok(width),
    }
}

/// Does anybody still wait for the batch?
fn check(batch: &Batch<'_>) -> Result<(), BackendError> {
    match batch.stop.is_stopped() {
        true => Err(BackendError::Execute("stopped".to_owned())),
        false => Ok(()),
    }
}

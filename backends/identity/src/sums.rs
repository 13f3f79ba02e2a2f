//! A model that keeps state: each row gives the sum of all that has come in that row since its sequence began.

use backend::{BackendError, Batch, DataType, NamedTensor, Tensor};

/// Says with a number other than zero that a row begins a sequence; of INT32.
const START: &str = "START";

/// What each row has come to.
#[derive(Default)]
pub(crate) struct Sums(Vec<Vec<f32>>);

impl Sums {
    /// The same inputs, each of FP32 with the sum of its rows in the place of the row.
    pub(crate) fn add(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let starts: Vec<i32> = numbers(batch, START).unwrap_or_default();
        let mut summed = Vec::with_capacity(batch.inputs.len());
        for input in batch.inputs {
            if input.tensor.dtype() != DataType::Fp32 {
                summed.push(input.clone());
                continue;
            }
            let values: Vec<f32> = elements(&input.tensor);
            let length = values.len() / batch.rows.max(1);
            let mut sums = Vec::with_capacity(values.len());
            self.0.resize(self.0.len().max(batch.rows), Vec::new());
            let rows = values.chunks_exact(length.max(1)).zip(&mut self.0);
            for (at, (row, sum)) in rows.enumerate() {
                if starts.get(at).is_some_and(|it| *it != 0) || sum.len() != row.len() {
                    *sum = vec![0.0; row.len()];
                }
                sum.iter_mut().zip(row).for_each(|(sum, it)| *sum += it);
                sums.extend_from_slice(sum);
            }
            let tensor = Tensor::from_vec(input.tensor.shape().clone(), sums);
            let tensor = tensor.map_err(|it| BackendError::Execute(it.to_string()))?;
            summed.push(NamedTensor { name: input.name.clone(), tensor });
        }
        Ok(summed)
    }
}

fn numbers<T: backend::Element>(batch: &Batch<'_>, input: &str) -> Option<Vec<T>> {
    let input = batch.inputs.iter().find(|it| &*it.name == input)?;
    Some(elements(&input.tensor))
}

/// The elements, read as `T`, which has their size.
fn elements<T: backend::Element>(tensor: &Tensor) -> Vec<T> {
    let bytes = tensor.to_bytes();
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

//! Batches of requests whose shapes differ: their tensors one behind the other, what the model learns about them,
//! and outputs that are cut up by the shapes of an input. Pure.

use std::sync::Arc;

use backend::{BackendError, DataType, NamedTensor, Shape, SizeMismatch, Tensor};

use super::work::Work;

/// How the batches of one model are put together and cut up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ragged {
    /// Is the first dimension of a request's tensors the batch?
    pub batches: bool,
    /// Inputs that become one list of elements.
    pub inputs: Vec<Arc<str>>,
    /// Inputs that are made from the batch.
    pub batch_inputs: Vec<BatchInput>,
    /// Outputs that are one list of elements.
    pub batch_outputs: Vec<BatchOutput>,
}

/// An input that says something about the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchInput {
    /// What it says.
    pub kind: BatchInputKind,
    /// In which type.
    pub dtype: CountType,
    /// Names of the model's inputs that get it.
    pub targets: Vec<Arc<str>>,
    /// The input that it is about.
    pub source: Arc<str>,
}

/// The type of an input that says something about the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CountType {
    Int32,
    Fp32,
}

impl CountType {
    /// The element type.
    pub fn dtype(self) -> DataType {
        match self {
            CountType::Int32 => DataType::Int32,
            CountType::Fp32 => DataType::Fp32,
        }
    }
}

/// What an input says about the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchInputKind {
    /// Elements of each request: `[requests]`.
    ElementCount,
    /// Elements of it and all before it: `[requests]`.
    AccumulatedCount,
    /// The same behind a zero: `[requests + 1]`.
    AccumulatedCountWithZero,
    /// Nothing but its own size, which is the most elements of any request: `[elements]`, zeros.
    MaxCountAsShape,
    /// The shape of each item: `[rows, rank]`.
    ItemShape,
    /// The same in one dimension: `[rows * rank]`.
    ItemShapeFlat,
}

/// Outputs that are cut up by the shapes of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchOutput {
    /// Names of the model's outputs.
    pub targets: Vec<Arc<str>>,
    /// The input whose shapes they have.
    pub source: Arc<str>,
}

impl Ragged {
    /// All inputs of a run of these jobs, which bring the same inputs. Copies nothing but what it makes.
    ///
    /// # Errors
    /// When an input that is not ragged differs inside the batch, or a number is too large for its type.
    pub fn gather(&self, jobs: &[&Work]) -> Result<Vec<NamedTensor>, BackendError> {
        let Some(first) = jobs.first() else { return Ok(Vec::new()) };
        let mut inputs = Vec::with_capacity(first.inputs.len() + self.batch_inputs.len());
        for (at, input) in first.inputs.iter().enumerate() {
            let parts = jobs.iter().filter_map(|it| it.inputs.get(at)).map(|it| &it.tensor);
            let tensor = if self.inputs.contains(&input.name) {
                let flat: Option<Vec<Tensor>> = parts.map(flattened).collect();
                flat.and_then(|it| Tensor::concat(&it))
            } else {
                Tensor::concat(parts).or_else(|| (jobs.len() == 1).then(|| input.tensor.clone()))
            };
            let tensor = tensor.ok_or_else(|| {
                BackendError::Execute(format!("input '{}' differs inside the batch", input.name))
            })?;
            inputs.push(NamedTensor { name: input.name.clone(), tensor });
        }
        for made in &self.batch_inputs {
            let shapes: Vec<&Shape> =
                jobs.iter().filter_map(|it| source(it, &made.source)).collect();
            let tensor = self.batch_input(made, &shapes)?;
            let target =
                |name: &Arc<str>| NamedTensor { name: name.clone(), tensor: tensor.clone() };
            inputs.extend(made.targets.iter().map(target));
        }
        Ok(inputs)
    }

    /// The input that describes requests of these shapes.
    fn batch_input(&self, made: &BatchInput, shapes: &[&Shape]) -> Result<Tensor, BackendError> {
        let counts = || shapes.iter().map(|it| it.elements().unwrap_or(0));
        let list = |numbers: Vec<usize>| {
            let shape = Shape::new(&[numbers.len()]);
            counted(made, shape, &numbers)
        };
        match made.kind {
            BatchInputKind::ElementCount => list(counts().collect()),
            BatchInputKind::AccumulatedCount => list(accumulated(counts()).collect()),
            BatchInputKind::AccumulatedCountWithZero => {
                list([0].into_iter().chain(accumulated(counts())).collect())
            }
            BatchInputKind::MaxCountAsShape => {
                let most = counts().max().unwrap_or(0);
                let zeros = Tensor::zeros(made.dtype.dtype(), Shape::new(&[most]));
                zeros.map_err(|it| BackendError::Execute(it.to_string()))
            }
            BatchInputKind::ItemShape | BatchInputKind::ItemShapeFlat => {
                let mut numbers = Vec::new();
                let (mut items, mut rank) = (0, 0);
                for shape in shapes {
                    let (rows, item) = match self.batches {
                        true => (shape.rows().unwrap_or(0), shape.inner()),
                        false => (1, shape.dims()),
                    };
                    (items, rank) = (items + rows, item.len());
                    (0..rows).for_each(|_| numbers.extend_from_slice(item));
                }
                match made.kind {
                    BatchInputKind::ItemShape => {
                        counted(made, Shape::new(&[items, rank]), &numbers)
                    }
                    _ => list(numbers),
                }
            }
        }
    }

    /// The source of an output that is cut up by the shapes of an input.
    pub fn source_of(&self, output: &Arc<str>) -> Option<&Arc<str>> {
        let scattered = self.batch_outputs.iter().find(|it| it.targets.contains(output));
        scattered.map(|it| &it.source)
    }

    /// Cuts up an output by the shapes of `source`: one part for each job.
    ///
    /// # Errors
    /// When it has not as many elements as they have together.
    pub fn scatter(
        &self,
        output: &NamedTensor,
        source_name: &Arc<str>,
        jobs: &[&Work],
    ) -> Result<Vec<NamedTensor>, BackendError> {
        let shapes: Vec<Shape> = jobs
            .iter()
            .map(|it| source(it, source_name).cloned().unwrap_or_else(|| Shape::new(&[0])))
            .collect();
        let expected: usize = shapes.iter().map(|it| it.elements().unwrap_or(0)).sum();
        let wrong = || {
            BackendError::Execute(format!(
                "the engine returned output '{}' of shape {}; expected {expected} elements, as input \
                 '{source_name}' has",
                output.name,
                output.tensor.shape()
            ))
        };
        let flat = flattened(&output.tensor).ok_or_else(wrong)?;
        if flat.elements() != expected {
            return Err(wrong());
        }
        let mut start = 0;
        let parts = shapes.into_iter().map(|shape| {
            let count = shape.elements().unwrap_or(0);
            let part = flat.slice_rows(start, count).and_then(|it| it.reshape(shape));
            start += count;
            Ok(NamedTensor { name: output.name.clone(), tensor: part.ok_or_else(wrong)? })
        });
        parts.collect()
    }
}

/// The shape of a job's input.
fn source<'a>(job: &'a Work, name: &Arc<str>) -> Option<&'a Shape> {
    job.inputs.iter().find(|it| it.name == *name).map(|it| it.tensor.shape())
}

fn flattened(tensor: &Tensor) -> Option<Tensor> {
    tensor.reshape(Shape::new(&[tensor.elements()]))
}

fn accumulated(counts: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
    counts.scan(0usize, |sum, count| {
        *sum += count;
        Some(*sum)
    })
}

/// Numbers in the type of an input.
fn counted(made: &BatchInput, shape: Shape, numbers: &[usize]) -> Result<Tensor, BackendError> {
    let failed = |it: SizeMismatch| BackendError::Execute(it.to_string());
    match made.dtype {
        CountType::Int32 => {
            let numbers: Result<Vec<i32>, _> =
                numbers.iter().map(|it| i32::try_from(*it)).collect();
            let numbers = numbers.map_err(|_| {
                BackendError::InvalidInput(format!(
                    "input '{}' has more elements in a batch than INT32 can count",
                    made.source
                ))
            })?;
            Tensor::from_vec(shape, numbers).map_err(failed)
        }
        CountType::Fp32 => {
            let numbers = numbers.iter().map(|it| *it as f32).collect();
            Tensor::from_vec(shape, numbers).map_err(failed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(shape: &[usize], first: f32) -> Tensor {
        let shape = Shape::new(shape);
        let values = (0..shape.elements().unwrap()).map(|it| first + it as f32).collect();
        Tensor::from_vec(shape, values).unwrap()
    }

    /// A job whose input `x` has this shape, and whose elements count up from `first`.
    fn work(shape: &[usize], first: f32) -> Work {
        let inputs = vec![NamedTensor { name: "x".into(), tensor: floats(shape, first) }];
        Work {
            about: None,
            parts: None,
            signature: 0,
            inputs,
            outputs: vec!["y".into()],
            rows: shape[0],
        }
    }

    fn ragged(kind: BatchInputKind, dtype: CountType) -> Ragged {
        let made = BatchInput { kind, dtype, targets: vec!["b".into()], source: "x".into() };
        Ragged {
            batches: true,
            inputs: vec!["x".into()],
            batch_inputs: vec![made],
            batch_outputs: vec![BatchOutput { targets: vec!["y".into()], source: "x".into() }],
        }
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        let bytes = tensor.to_bytes();
        let words = bytes.chunks_exact(4).map(|it| it.try_into().unwrap());
        match tensor.dtype() {
            DataType::Int32 => words.map(|it| i32::from_le_bytes(it) as f32).collect(),
            _ => words.map(f32::from_le_bytes).collect(),
        }
    }

    /// What is said of a request of two rows `[3, 1]` and one of a row `[2, 2]`.
    #[track_caller]
    fn check(kind: BatchInputKind, shape: &[usize], expected: &[f32]) {
        let works = [work(&[2, 3, 1], 0.0), work(&[1, 2, 2], 10.0)];
        for dtype in [CountType::Int32, CountType::Fp32] {
            let inputs = ragged(kind, dtype).gather(&[&works[0], &works[1]]).unwrap();
            assert_eq!(inputs[0].tensor.shape().dims(), [10]);
            assert_eq!(numbers(&inputs[0].tensor), [0., 1., 2., 3., 4., 5., 10., 11., 12., 13.]);
            assert_eq!(inputs[1].tensor.dtype(), dtype.dtype());
            assert_eq!(inputs[1].tensor.shape().dims(), shape);
            assert_eq!(numbers(&inputs[1].tensor), expected);
        }
    }

    #[test]
    fn each_kind_says_its_part_in_its_shape() {
        check(BatchInputKind::ElementCount, &[2], &[6., 4.]);
        check(BatchInputKind::AccumulatedCount, &[2], &[6., 10.]);
        check(BatchInputKind::AccumulatedCountWithZero, &[3], &[0., 6., 10.]);
        check(BatchInputKind::MaxCountAsShape, &[6], &[0.; 6]);
        check(BatchInputKind::ItemShape, &[3, 2], &[3., 1., 3., 1., 2., 2.]);
        check(BatchInputKind::ItemShapeFlat, &[6], &[3., 1., 3., 1., 2., 2.]);
    }

    #[test]
    fn an_output_is_cut_up_by_the_shapes_of_its_source() {
        let works = [work(&[1, 2, 2], 0.0), work(&[1, 1], 0.0)];
        let ragged = ragged(BatchInputKind::ElementCount, CountType::Int32);
        let output = NamedTensor { name: "y".into(), tensor: floats(&[5], 20.0) };
        let source = ragged.source_of(&output.name).unwrap();
        let parts = ragged.scatter(&output, source, &[&works[0], &works[1]]).unwrap();
        assert_eq!(parts[0].tensor.shape().dims(), [1, 2, 2]);
        assert_eq!(numbers(&parts[1].tensor), [24.0]);
        let output = NamedTensor { name: "y".into(), tensor: floats(&[4], 20.0) };
        let error = ragged.scatter(&output, source, &[&works[0], &works[1]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the engine returned output 'y' of shape [4]; expected 5 elements, as input 'x' has"
        );
    }

    #[test]
    fn an_input_that_is_not_ragged_must_agree() {
        let ragged =
            Ragged { inputs: vec![], ..ragged(BatchInputKind::ElementCount, CountType::Int32) };
        let works = [work(&[1, 2], 0.0), work(&[1, 1], 0.0)];
        let error = ragged.gather(&[&works[0], &works[1]]).unwrap_err();
        assert_eq!(error.to_string(), "input 'x' differs inside the batch");
    }
}

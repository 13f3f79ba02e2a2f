//! What is known of a module's inputs, the samples of trial runs, and the trait that runs them.

use std::sync::Arc;

use backend::{DataType, TensorHint};

use crate::{error::TrialError, inputs::Input, interface::ParameterKind, outputs::Fact};

/// An input of zeros.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Sample {
    pub(crate) dtype: DataType,
    pub(crate) dims: Vec<usize>,
}

/// Runs the module on samples.
pub(crate) trait Trial {
    /// Runs it on zeros of these types and shapes, one for each input; on ones for `int` and `float`.
    ///
    /// # Errors
    /// The useful line of libtorch's text.
    fn run(&mut self, samples: &[Sample]) -> Result<Vec<Fact>, TrialError>;

    /// Has each row of the outputs of these numbers what it would have alone? Runs it on inputs of these
    /// types and shapes whose rows differ, whatever the time.
    ///
    /// # Errors
    /// Why not, or why that is not known.
    fn rows_are_apart(&mut self, samples: &[Sample], outputs: &[usize]) -> Result<(), TrialError>;

    /// Has all this taken long enough to look for something that it takes?
    fn is_over(&self) -> bool;

    /// Has it also taken long enough to see which dimensions are free?
    fn is_long_over(&self) -> bool;
}

/// What is known of one input before any run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownInput {
    pub(super) name: Arc<str>,
    pub(super) optional: bool,
    pub(super) kind: ParameterKind,
    pub(super) dtype: Option<DataType>,
    /// `None` in it where any size is taken.
    pub(super) dims: Option<Vec<Option<usize>>>,
}

/// A run that succeeded.
pub(super) type Success = (Vec<Sample>, Vec<Fact>);

/// No trial has more elements in one input than this: 64 MiB of floats.
const MOST_ELEMENTS: usize = 16 << 20;

/// Rows of the first trial.
pub(super) const ROWS: usize = 2;

/// Sizes for dimensions that are open, in the order in which they are tried: a sequence may be short, an image
/// must be as large as what slides over it.
pub(super) const OPEN: [usize; 7] = [8, 32, 64, 128, 224, 2, 1];

/// What is configured of each input.
pub(super) fn known(inputs: &[Input], hints: &[TensorHint]) -> Vec<KnownInput> {
    let known = |input: &Input| {
        let hint = hints.iter().find(|it| it.name == input.name);
        let (dtype, dims) = (hint.and_then(|it| it.dtype), hint.and_then(|it| it.dims.clone()));
        let (dtype, dims) = match input.kind {
            ParameterKind::Strings => (Some(DataType::Bytes), dims.or_else(|| Some(vec![None]))),
            // A configuration says [1] or [1,1], as it cannot say []; the server knows them for the same.
            kind if kind.is_number() => {
                (dtype.or_else(|| kind.number_types().first().copied()), Some(Vec::new()))
            }
            _ => (dtype, dims),
        };
        KnownInput {
            name: input.name.clone(),
            optional: input.optional,
            kind: input.kind,
            dtype,
            dims,
        }
    };
    inputs.iter().map(known).collect()
}

impl KnownInput {
    /// Is that sample not against what is known?
    pub(super) fn allows(&self, sample: &Sample) -> bool {
        let dims_fit = self.dims.as_ref().is_none_or(|dims| {
            let fits = |(known, dim): (&Option<usize>, &usize)| known.is_none_or(|it| it == *dim);
            dims.len() == sample.dims.len() && dims.iter().zip(&sample.dims).all(fits)
        });
        self.dtype.is_none_or(|it| it == sample.dtype) && dims_fit
    }

    /// Is it known that any number goes in the first dimension?
    pub(super) fn begins_open(&self) -> bool {
        self.dims.as_ref().is_some_and(|it| it.first().is_some_and(Option::is_none))
    }

    /// The same input, as if nothing were configured of it.
    pub(super) fn forget(&self) -> KnownInput {
        match self.kind {
            ParameterKind::Strings => {
                KnownInput { dtype: Some(DataType::Bytes), dims: Some(vec![None]), ..self.clone() }
            }
            kind if kind.is_number() => self.clone(),
            _ => KnownInput { dtype: None, dims: None, ..self.clone() },
        }
    }
}

/// Zeros of the configured shape, with these sizes where it is open. `None` where that is too large.
pub(super) fn sample(known: &KnownInput, rows: usize, size: usize) -> Option<Sample> {
    let open = |at: usize| if at == 0 { rows } else { size };
    let dims = known.dims.as_ref()?.iter().enumerate();
    let dims = dims.map(|(at, it)| it.unwrap_or_else(|| open(at))).collect();
    Some(Sample { dtype: known.dtype?, dims }).filter(Sample::is_small)
}

impl Sample {
    pub(super) fn is_small(&self) -> bool {
        let elements = self.dims.iter().try_fold(1usize, |all, &it| all.checked_mul(it));
        elements.is_some_and(|it| it <= MOST_ELEMENTS)
    }
}

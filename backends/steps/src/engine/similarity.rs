//! The step `similarity`: how like the first of several vectors the others are.

use backend::{BackendError, NamedTensor};
use inference::task::{EMBEDDING, SCORE};

use super::{
    call::{Call, invalid},
    kind::{Opened, Run},
    ports::{FLOAT, FLOATS, port, spec},
    settings::StepSettings,
};
use crate::{
    head::{classify::check_numbers, similarity::similarity},
    request::Similarity,
};

pub(super) const PARAMETERS: &[&str] = &["function"];

struct Compare {
    function: Similarity,
    /// Dimensions in front of that of the vectors.
    leading: usize,
}

/// Opens it.
///
/// # Errors
/// When a parameter is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let known = ["cosine", "dot", "euclidean", "manhattan"];
    let function = settings.named("function", &known, Similarity::from_name)?.unwrap_or_default();
    let leading = usize::from(!settings.is_unbatched());
    let spec = spec(
        settings.source,
        &[port(EMBEDDING, FLOATS, &vec![None; leading + 2])],
        &[port(SCORE, FLOAT, &vec![None; leading + 1])],
    );
    Ok(Opened { spec, run: Box::new(Compare { function, leading }) })
}

impl Run for Compare {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let vectors = call.floats(EMBEDDING)?;
        let shape = || format!("its shape is {:?}, expected a vector and others", vectors.dims);
        let Some((groups, &[count, width])) = vectors.dims.split_at_checked(self.leading) else {
            return Err(invalid(EMBEDDING, &shape()));
        };
        if count == 0 || width == 0 {
            return Err(invalid(EMBEDDING, &shape()));
        }
        let mut scores = Vec::new();
        for group in vectors.values.chunks_exact(count * width) {
            let (first, others) = group.split_at(width);
            let others = others.chunks_exact(width);
            scores.extend(others.map(|it| similarity(self.function, first, it)));
        }
        check_numbers(&scores, SCORE)?;
        let dims = [groups, &[count - 1]].concat();
        Ok(vec![call.float_output(SCORE, &dims, scores)?])
    }
}

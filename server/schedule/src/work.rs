//! What one request brings to a batch, and what it gets out of it.

use std::sync::Arc;

use backend::{About, NamedTensor, Parameters, PartSender, RowCuts};

use inference::timings::Timings;

/// What one request brings to a batch.
#[derive(Debug, Clone)]
pub struct Work {
    /// Inputs in the order of the model's signature, in the engine's shapes. Jobs of one batch bring the
    /// same ones.
    pub inputs: Vec<NamedTensor>,
    /// Wanted outputs, in the order of the reply; never empty.
    pub outputs: Vec<Arc<str>>,
    /// Rows in the first dimension of every input; 1 without a batch dimension.
    pub rows: usize,
    /// Which of the model's signatures is run: 0 is the default. Jobs of one batch have the same.
    pub signature: usize,
    /// What else is known of the request, where its model asks for that.
    pub about: Option<Arc<About>>,
    /// Where the parts of its answer go, where it is answered in parts.
    pub parts: Option<PartSender>,
}

impl Work {
    /// Has its answer begun to go out? Then it is not run again.
    pub(super) fn has_begun(&self) -> bool {
        self.parts.as_ref().is_some_and(PartSender::has_begun)
    }

    /// The same with `rows` of its rows, from that one on. `None` where it has not so many, or no rows at all. Copies
    /// no tensor.
    pub fn cut(&self, from: usize, rows: usize) -> Option<Work> {
        let input = |it: &NamedTensor| {
            let tensor = it.tensor.slice_rows(from, rows)?;
            Some(NamedTensor { name: it.name.clone(), tensor })
        };
        let inputs = self.inputs.iter().map(input).collect::<Option<_>>()?;
        let Work { outputs, signature, about, parts, .. } = self;
        Some(Work {
            inputs,
            outputs: outputs.clone(),
            rows,
            signature: *signature,
            about: about.clone(),
            parts: parts.clone(),
        })
    }
}

/// The rows of a request cut off from their front, part by part. All parts together take O(bytes).
#[derive(Debug)]
pub struct Parts<'a> {
    work: &'a Work,
    inputs: Vec<RowCuts<'a>>,
}

impl<'a> Parts<'a> {
    /// Of that request; `None` where it has no rows.
    pub fn of(work: &'a Work) -> Option<Parts<'a>> {
        let inputs = work.inputs.iter().map(|it| RowCuts::of(&it.tensor)).collect::<Option<_>>()?;
        Some(Parts { work, inputs })
    }

    /// The same request with the next so many of its rows. `None` where fewer are left.
    pub fn next(&mut self, rows: usize) -> Option<Work> {
        let named = self.work.inputs.iter().zip(&mut self.inputs);
        let input = |(it, cuts): (&NamedTensor, &mut RowCuts<'_>)| {
            Some(NamedTensor { name: it.name.clone(), tensor: cuts.next(rows)? })
        };
        let inputs = named.map(input).collect::<Option<_>>()?;
        let Work { outputs, signature, about, parts, .. } = self.work;
        Some(Work {
            inputs,
            outputs: outputs.clone(),
            rows,
            signature: *signature,
            about: about.clone(),
            parts: parts.clone(),
        })
    }
}

/// Those of the outputs that are wanted, in the wanted order. What is not there is left out, as in Triton.
pub fn in_order(wanted: &[Arc<str>], mut outputs: Vec<NamedTensor>) -> Vec<NamedTensor> {
    let found = wanted.iter().filter_map(|name| {
        let at = outputs.iter().position(|it| it.name == *name)?;
        Some(outputs.swap_remove(at))
    });
    found.collect()
}

/// A request's share of what came out.
#[derive(Debug)]
pub struct Done {
    /// The wanted outputs, in the wanted order.
    pub outputs: Vec<NamedTensor>,
    /// What else the model says to the client.
    pub parameters: Parameters,
    /// Where the time of the execution went.
    pub timings: Timings,
    /// Is the request to be run once more, as the next one of its sequence?
    pub again: bool,
}

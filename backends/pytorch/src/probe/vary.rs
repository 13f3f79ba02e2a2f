//! Which dimensions are free: a successful run is repeated with other sizes. Pure.

use super::known::{KnownInput, Sample, Success, Trial};
use crate::outputs::Fact;

/// What runs of several sizes have shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    /// Per input; `None` where a dimension is free.
    pub(super) inputs: Vec<Vec<Option<usize>>>,
    /// Per value of the first run; `None` where a dimension was not always the same.
    pub(super) outputs: Vec<Vec<Option<usize>>>,
    /// Was there a run with another number of rows?
    pub(super) rows_varied: bool,
    /// Per value of the first run: had it as many rows as the inputs, whatever their number?
    pub(super) rows_follow: Vec<bool>,
    /// Per value of the first run: was it missing from another one, or there with another number of dimensions?
    pub(super) fickle: Vec<bool>,
    /// How many values the first run gave, and another one that gave another number.
    pub(super) counts: Option<(usize, usize)>,
    /// Inputs of which a dimension that may be free was not varied, once for each such dimension.
    pub(super) unvaried: Vec<usize>,
}

/// The value of another run that is `fact`, the one of that number in its own run.
fn same<'a>(facts: &'a [Fact], (at, fact): (usize, &Fact)) -> Option<&'a Fact> {
    match &fact.key {
        Some(key) => facts.iter().find(|it| it.key.as_ref() == Some(key)),
        None => facts.get(at),
    }
}

/// Repeats a run with other sizes. Of inputs whose shape is known, that stays as it is known.
pub(super) fn observe(
    known: &[KnownInput],
    (samples, facts): &Success,
    trial: &mut dyn Trial,
) -> Observed {
    let size = |it: &usize| Some(*it);
    let inputs = known.iter().zip(samples).map(|(known, sample)| match &known.dims {
        Some(dims) => dims.clone(),
        None => sample.dims.iter().map(size).collect(),
    });
    let outputs = facts.iter().map(|it| it.dims.iter().map(size).collect());
    let observed = Observed {
        inputs: inputs.collect(),
        outputs: outputs.collect(),
        rows_varied: false,
        rows_follow: vec![false; facts.len()],
        fickle: vec![false; facts.len()],
        counts: None,
        unvaried: Vec::new(),
    };
    let mut varied = Varied { known, samples, facts, observed, trial };
    varied.rows();
    varied.others();
    varied.observed
}

struct Varied<'a> {
    known: &'a [KnownInput],
    samples: &'a [Sample],
    facts: &'a [Fact],
    observed: Observed,
    trial: &'a mut dyn Trial,
}

impl Varied<'_> {
    /// One row more in all inputs that may have it.
    fn rows(&mut self) {
        let may: Vec<usize> =
            (0..self.samples.len()).filter(|&it| self.may_change(it, 0)).collect();
        let Some(rows) = may.first().map(|&it| self.samples[it].dims[0]) else { return };
        let Some(more) = self.run(&may, 0, |_| rows + 1) else { return };
        self.observed.rows_varied = true;
        let follow = |(at, few): (usize, &Fact)| {
            let more = same(&more, (at, few)).and_then(|it| it.dims.first());
            few.dims.first() == Some(&rows) && more == Some(&(rows + 1))
        };
        self.observed.rows_follow = self.facts.iter().enumerate().map(follow).collect();
        self.free(&may, 0);
        if self.observed.counts.is_some() {
            // Which values are there in any case?
            self.run(&may, 0, |_| 1);
        }
    }

    /// Every other dimension, alone, else with those of other inputs that have the same size.
    fn others(&mut self) {
        for input in 0..self.samples.len() {
            for at in 1..self.samples[input].dims.len() {
                if !self.may_change(input, at) {
                    continue;
                }
                if self.trial.is_long_over() {
                    self.not_varied(input, at);
                    continue;
                }
                let size = self.samples[input].dims[at];
                let alike = |&it: &usize| {
                    self.samples[it].dims.get(at) == Some(&size) && self.may_change(it, at)
                };
                let alike: Vec<usize> = (0..self.samples.len()).filter(alike).collect();
                let groups: &[&[usize]] =
                    if alike.len() > 1 { &[&[input], &alike] } else { &[&[input]] };
                for group in groups {
                    // Where a window slides over it, not any size will do, but more than one: then it
                    // is not for us to say which.
                    let others = [size * 2, size + 1, size.saturating_sub(1)];
                    if others.iter().any(|&it| self.run(group, at, |_| it).is_some()) {
                        self.free(group, at);
                        break;
                    }
                }
            }
        }
    }

    /// Is that dimension there, and of no fixed size as far as is known?
    fn may_change(&self, input: usize, at: usize) -> bool {
        let known = self.known[input].dims.as_ref();
        let open = known.is_none_or(|it| it.get(at).is_some_and(Option::is_none));
        open && at < self.samples[input].dims.len()
    }

    /// What was not tried is not known. Inputs stay as they were seen or are configured; where these are open,
    /// any output may follow them.
    fn not_varied(&mut self, input: usize, at: usize) {
        if self.known[input].dims.is_some() {
            let sizes = self.observed.outputs.iter_mut().flat_map(|it| it.iter_mut().skip(1));
            sizes.for_each(|it| *it = None);
        } else if self.observed.inputs[input][at].is_some() {
            self.observed.unvaried.push(input);
        }
    }

    fn free(&mut self, inputs: &[usize], at: usize) {
        for &input in inputs {
            self.observed.inputs[input][at] = None;
        }
    }

    /// A run with another size there; what it gave, which is noted.
    fn run(
        &mut self,
        inputs: &[usize],
        at: usize,
        size: impl Fn(usize) -> usize,
    ) -> Option<Vec<Fact>> {
        let mut samples = self.samples.to_vec();
        for &input in inputs {
            let dim = &mut samples[input].dims[at];
            *dim = size(*dim);
        }
        if !samples.iter().all(Sample::is_small) {
            return None;
        }
        let facts = self.trial.run(&samples).ok()?;
        if facts.len() != self.facts.len() {
            self.observed.counts.get_or_insert((self.facts.len(), facts.len()));
        }
        for (at, first) in self.facts.iter().enumerate() {
            let seen = &mut self.observed.outputs[at];
            match same(&facts, (at, first)).filter(|it| it.dims.len() == seen.len()) {
                None => self.observed.fickle[at] = true,
                Some(fact) => {
                    for (seen, dim) in seen.iter_mut().zip(&fact.dims) {
                        *seen = seen.filter(|it| it == dim);
                    }
                }
            }
        }
        Some(facts)
    }
}

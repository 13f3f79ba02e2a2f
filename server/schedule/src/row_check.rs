//! Was a merged request answered as it would have been alone? Looked at now and then, after the answers have left.
//!
//! A row alone and the same row in company may differ by rounding, since the shape of the run differs. So where they
//! do, the request is run once more in a run of the same shape, in which every other row is one of its own: what an
//! engine computes for a row at one place depends on the values of other rows only where the model mixes rows.
//!
//! What follows the number of rows may be a tie of nearly equal numbers, such as a label, which rounding decides, and
//! which differs by any amount. So what tiny changes of the request change, too, is no finding. Of a request that
//! nothing can be changed in by so little it is a suspicion, and the requests that follow are looked at.

use std::{slice, sync::Arc};

use backend::{BackendError, Batch, Instance, NamedTensor, Stop, Tensor};

use crate::{
    apart::{Apart, Beside, NUDGES, ROUNDED, apart, is_tie, nudged, rows_of},
    work::Work,
};

/// What becomes of a model whose rows turn out to depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCheck {
    /// Its requests are not looked at.
    Off,
    /// It is said, and nothing else.
    Report,
    /// Its requests are not merged any more.
    StopMerging,
}

/// One merged run in so many is looked at, for as long as the model serves.
const ONE_IN: u64 = 1024;

/// Until there have been so many times [`ONE_IN`] merged runs, one is looked at in this part of those so far.
const PART: u64 = 16;

/// The first runs are looked at one in so many: a model that mixes rows is to be found early.
const FIRST: u64 = 8;

/// Of larger requests nothing is kept. An image of 224 by 224 pixels as floats has 588 KiB. While so much is copied,
/// for some 100 µs, the queue stands still.
const MOST_BYTES: usize = 1 << 20;

/// Behind a suspicion so many runs are looked at one by one. They count as they are chosen: whatever becomes of a look,
/// such as one that fails, the closer look ends.
const CLOSELY: u32 = 16;

/// Which merged runs are looked at, and which request of each. Both are drawn: requests that come in a pattern could
/// else be passed over for ever. From the same runs come the same looks.
#[derive(Debug)]
pub(crate) struct Looks {
    /// Merged runs so far.
    runs: u64,
    /// The number of the next run that is looked at.
    next: u64,
    /// What is drawn from.
    state: u64,
    /// So many runs are looked at one by one yet, as a request seems to have been answered by how many were in its run.
    closely: u32,
}

/// A request that is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Its place in its run.
    pub(crate) place: usize,
    /// Is it looked at because of another, which was suspicious?
    pub(crate) is_behind_suspicion: bool,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { runs: 0, next: FIRST, state: 0x9E37_79B9_7F4A_7C15, closely: 0 }
    }
}

impl Looks {
    /// A run of so many requests has ended: the request that is looked at, if one is. Each place of a run is as likely
    /// as any other.
    pub(crate) fn choose(&mut self, requests: usize) -> Option<Chosen> {
        self.runs += 1;
        let is_behind_suspicion = 0 < self.closely;
        if (self.runs < self.next && !is_behind_suspicion) || requests == 0 {
            return None;
        }
        match is_behind_suspicion {
            true => self.closely -= 1,
            false => {
                let mean = (self.runs / PART).clamp(FIRST, ONE_IN);
                // From one to twice the mean, less one: the mean of these is the mean.
                self.next = self.runs + 1 + self.below(2 * mean - 1);
            }
        }
        let place = usize::try_from(self.below(requests as u64)).ok()?;
        Some(Chosen { place, is_behind_suspicion })
    }

    /// A request seems to have been answered by how many were in its run.
    pub(crate) fn suspect(&mut self) {
        self.closely = CLOSELY;
    }

    /// A number below that one, each as likely as any other.
    fn below(&mut self, bound: u64) -> u64 {
        // The generator of Lehmer and Knuth in 64 bits, of which the high ones are good.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.state) * u128::from(bound)) >> 64) as u64
    }
}

/// A request of a merged run, and how it was answered.
pub(crate) struct Sample {
    work: Work,
    answer: Vec<NamedTensor>,
    /// Rows of the run, and where those of the request began.
    rows: usize,
    offset: usize,
    is_behind_suspicion: bool,
}

/// A row that was answered otherwise than it would have been alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mismatch {
    pub(crate) output: Arc<str>,
    /// How far the answers are apart, as a part of the largest number in them.
    pub(crate) distance: f64,
    /// Rows of the run, and of the request.
    pub(crate) rows: usize,
    pub(crate) own_rows: usize,
}

/// What a look at a request has shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Look {
    /// It was answered as it would have been alone.
    Alike,
    /// It seems that answers follow how many are in a run. It may be a tie that rounding has decided.
    Suspicion(Mismatch),
    /// It was not.
    Mismatch(Mismatch),
}

impl Sample {
    /// The chosen one of the requests of a run. `None` where it is too large.
    pub(crate) fn new(works: &[&Work], chosen: Chosen, answer: &[NamedTensor]) -> Option<Sample> {
        let Chosen { place, is_behind_suspicion } = chosen;
        let work = works.get(place)?;
        let bytes = |of: &[NamedTensor]| of.iter().map(|it| it.tensor.byte_len()).sum::<usize>();
        if work.rows == 0 || MOST_BYTES < bytes(&work.inputs) + bytes(answer) {
            return None;
        }
        let rows = works.iter().map(|it| it.rows).sum();
        let offset = works.iter().take(place).map(|it| it.rows).sum();
        let inputs = copied(&work.inputs)?;
        let work =
            Work { inputs, outputs: work.outputs.clone(), about: None, parts: None, ..**work };
        Some(Sample { work, answer: copied(answer)?, rows, offset, is_behind_suspicion })
    }

    /// Rows of the run that it is from.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Is it looked at because of another, which was suspicious?
    pub(crate) fn is_behind_suspicion(&self) -> bool {
        self.is_behind_suspicion
    }

    /// Runs the request again, on its own.
    pub(crate) fn check(
        &self,
        instance: &mut dyn Instance,
        stop: &Stop,
    ) -> Result<Look, BackendError> {
        let own = self.work.rows;
        let alone = execute(instance, &self.work, &self.work.inputs, own, stop)?;
        if apart(&self.answer, &alone, Beside::Largest).is_none() {
            return Ok(Look::Alike);
        }
        let tiled = self.work.inputs.iter().map(|it| {
            // So that its own rows lie where they were.
            let rows = (0..self.rows).map(|at| (at + self.rows * own - self.offset) % own);
            let rows: Vec<Tensor> =
                rows.map(|row| it.tensor.slice_rows(row, 1)).collect::<Option<_>>()?;
            let tensor = Tensor::concat(&rows)?;
            Some(NamedTensor { name: it.name.clone(), tensor })
        });
        let Some(tiled) = tiled.collect::<Option<Vec<_>>>() else { return Ok(Look::Alike) };
        let mut beside = || -> Result<Vec<NamedTensor>, BackendError> {
            let all = execute(instance, &self.work, &tiled, self.rows, stop)?;
            Ok(rows_of(&all, self.offset, own).unwrap_or_default())
        };
        let first = beside()?;
        let mut answer = self.answer.clone();
        if apart(&answer, &first, Beside::Largest).is_some() {
            // What differs from run to run says nothing of other rows.
            let again = beside()?;
            let is_same =
                |it: &NamedTensor| apart(slice::from_ref(it), &again, Beside::Largest).is_none();
            answer.retain(|it| first.iter().filter(|of| of.name == it.name).all(is_same));
        }
        if let Some(found) = apart(&answer, &first, Beside::Largest) {
            return Ok(Look::Mismatch(self.mismatch(found)));
        }
        let by_number = apart(&answer, &alone, Beside::Largest);
        let Some(found) = by_number.filter(|it| ROUNDED < it.distance) else {
            return Ok(Look::Alike);
        };
        let is_steady = |it: &NamedTensor| answer.iter().any(|of| of.name == it.name);
        let alone: Vec<NamedTensor> = alone.into_iter().filter(is_steady).collect();
        let mut nudges = Vec::new();
        for inputs in (0..NUDGES).map_while(|turn| nudged(&self.work.inputs, turn)) {
            nudges.push(execute(instance, &self.work, &inputs, own, stop)?);
            if is_tie(&alone, &answer, &nudges) {
                return Ok(Look::Alike);
            }
        }
        let found = self.mismatch(found);
        Ok(if nudges.is_empty() { Look::Suspicion(found) } else { Look::Mismatch(found) })
    }

    fn mismatch(&self, found: Apart) -> Mismatch {
        let Apart { output, distance } = found;
        Mismatch { output, distance, rows: self.rows, own_rows: self.work.rows }
    }
}

/// Copies of these, as the buffers that they are a part of are not to be kept for them.
fn copied(tensors: &[NamedTensor]) -> Option<Vec<NamedTensor>> {
    let copy = |it: &NamedTensor| {
        let (dtype, shape) = (it.tensor.dtype(), it.tensor.shape().clone());
        let tensor = Tensor::new(dtype, shape, it.tensor.segments().concat().into()).ok()?;
        Some(NamedTensor { name: it.name.clone(), tensor })
    };
    tensors.iter().map(copy).collect()
}

fn execute(
    instance: &mut dyn Instance,
    of: &Work,
    inputs: &[NamedTensor],
    rows: usize,
    stop: &Stop,
) -> Result<Vec<NamedTensor>, BackendError> {
    let Work { outputs, signature, .. } = of;
    instance.execute(&Batch { inputs, outputs, rows, signature: *signature, stop })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use backend::{Shape, distance};

    use super::*;

    /// Answers with what `answer` makes of the numbers of a run.
    struct Fake<F>(F);

    impl<F: Fn(&[f32]) -> Vec<f32> + Send> Instance for Fake<F> {
        fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
            let input = &batch.inputs[0].tensor;
            let values: Vec<f32> =
                distance::floats(input).unwrap().iter().map(|it| *it as f32).collect();
            let tensor = Tensor::from_vec(input.shape().clone(), (self.0)(&values)).unwrap();
            Ok(vec![NamedTensor { name: "y".into(), tensor }])
        }
    }

    fn work(values: &[f32]) -> Work {
        let tensor = Tensor::from_vec(Shape::new(&[values.len()]), values.to_vec()).unwrap();
        let inputs = vec![NamedTensor { name: "x".into(), tensor }];
        Work {
            about: None,
            parts: None,
            signature: 0,
            inputs,
            outputs: vec!["y".into()],
            rows: values.len(),
        }
    }

    const SECOND: Chosen = Chosen { place: 1, is_behind_suspicion: false };

    /// What is found of the second of three requests.
    fn found(answer: impl Fn(&[f32]) -> Vec<f32> + Send) -> Look {
        found_of([1.5, 2.5, 4.5, 8.5], answer)
    }

    /// The same of rows of those numbers.
    fn found_of(rows: [f32; 4], answer: impl Fn(&[f32]) -> Vec<f32> + Send) -> Look {
        let works = [work(&rows[..1]), work(&rows[1..3]), work(&rows[3..])];
        let works: Vec<&Work> = works.iter().collect();
        let whole = answer(&rows);
        let tensor = Tensor::from_vec(Shape::new(&[2]), whole[1..3].to_vec()).unwrap();
        let sample =
            Sample::new(&works, SECOND, &[NamedTensor { name: "y".into(), tensor }]).unwrap();
        sample.check(&mut Fake(answer), &Stop::new()).unwrap()
    }

    #[test]
    fn rows_that_mix_are_found_and_rounding_is_not() {
        assert_eq!(found(|it| it.iter().map(|x| x * 2.0).collect()), Look::Alike);
        let sum = found(|it| it.iter().map(|x| x + it.iter().sum::<f32>()).collect());
        let Look::Mismatch(sum) = sum else { panic!("{sum:?}") };
        assert_eq!((&*sum.output, sum.rows, sum.own_rows), ("y", 4, 2));
        assert!(0.1 < sum.distance, "{sum:?}");
        // By the shape of the run, and little.
        assert_eq!(
            found(|it| it.iter().map(|x| x * (1.0 + it.len() as f32 / 1e3)).collect()),
            Look::Alike
        );
        let by_number = found(|it| it.iter().map(|x| x * it.len() as f32).collect());
        assert!(matches!(by_number, Look::Mismatch(_)), "{by_number:?}");
    }

    /// A threshold that is nearly the second row's number, and which the number of rows moves by rounding.
    fn label(values: &[f32]) -> Vec<f32> {
        let threshold = 2.5 * (1.0 + (values.len() as f32 - 3.0) * 1e-6);
        values.iter().map(|x| if threshold <= *x { 7.0 } else { 3.0 }).collect()
    }

    #[test]
    fn a_label_that_a_tie_decides_is_no_mismatch() {
        assert_eq!(found(label), Look::Alike);
        // Rows whose labels follow the number of rows by more.
        let label = |it: &[f32]| -> Vec<f32> {
            it.iter().map(|x| if 0.7 * it.len() as f32 <= *x { 7.0 } else { 3.0 }).collect()
        };
        assert!(matches!(found(label), Look::Mismatch(_)), "{:?}", found(label));
        // Or the numbers of others.
        let label = |it: &[f32]| -> Vec<f32> {
            let half = it.iter().copied().fold(0.0, f32::max) / 2.0;
            it.iter().map(|x| if half <= *x { 7.0 } else { 3.0 }).collect()
        };
        assert!(matches!(found(label), Look::Mismatch(_)), "{:?}", found(label));
    }

    #[test]
    fn what_the_values_of_others_decide_is_a_mismatch_though_nudges_would_decide_it_too() {
        // The second row's number is nearly the threshold, above which it is only where another row is large.
        let label = |it: &[f32]| -> Vec<f32> {
            let threshold = if it.contains(&8.5) { 2.500_001 } else { 2.5 };
            it.iter().map(|x| if threshold <= *x { 7.0 } else { 3.0 }).collect()
        };
        assert!(matches!(found(label), Look::Mismatch(_)), "{:?}", found(label));
    }

    #[test]
    fn what_differs_from_run_to_run_is_no_mismatch() {
        let runs = AtomicUsize::new(0);
        let by_chance = |it: &[f32]| -> Vec<f32> {
            let run = runs.fetch_add(1, Relaxed) as f32;
            it.iter().map(|x| x + run).collect()
        };
        assert_eq!(found(by_chance), Look::Alike);
        // The request alone, and twice in a run of the same shape, behind the run that it was in.
        assert_eq!(runs.into_inner(), 4);
    }

    #[test]
    fn where_nothing_can_be_changed_by_little_the_number_of_rows_is_a_suspicion_and_values_are_none()
     {
        let rows = [1.0, 2.0, 4.0, 8.0];
        let by_number = |it: &[f32]| it.iter().map(|x| x * it.len() as f32).collect();
        assert!(matches!(found_of(rows, by_number), Look::Suspicion(_)));
        let by_values = |it: &[f32]| it.iter().map(|x| x + it[0]).collect();
        assert!(matches!(found_of(rows, by_values), Look::Mismatch(_)));
    }

    #[test]
    fn runs_behind_a_suspicion_are_all_looked_at_and_it_fades() {
        let mut looks = Looks::default();
        let mut behind = |runs: u32| {
            let chosen = (0..runs).filter_map(|_| looks.choose(4));
            let behind = chosen.filter(|it| it.is_behind_suspicion).count();
            looks.suspect();
            behind
        };
        assert_eq!(behind(1000), 0);
        // Nobody says what became of the looks.
        assert_eq!(behind(1000), 16);
        assert_eq!(behind(7), 7);
        assert_eq!(behind(1000), 16);
    }

    #[test]
    fn a_large_request_is_not_kept() {
        let large = work(&vec![0.0; MOST_BYTES / 4 + 1]);
        let first = Chosen { place: 0, ..SECOND };
        assert!(Sample::new(&[&large], first, &[]).is_none());
    }

    /// How often each place is looked at in so many runs, of `requests(number)` each.
    fn looked_at(runs: usize, requests: impl Fn(usize) -> usize) -> Vec<usize> {
        let mut looks = Looks::default();
        let mut places = vec![0; 16];
        for chosen in (0..runs).filter_map(|it| looks.choose(requests(it))) {
            places[chosen.place] += 1;
        }
        places
    }

    #[test]
    fn each_place_of_a_run_is_looked_at_equally_often() {
        let places = looked_at(4_000_000, |_| 16);
        let mean = places.iter().sum::<usize>() / 16;
        assert!(places.iter().all(|it| (mean * 3 / 4..=mean * 5 / 4).contains(it)), "{places:?}");
    }

    #[test]
    fn a_pattern_of_runs_hides_no_place() {
        // Large runs are every second, fourth or 1024th one.
        for period in [2, 4, 1024] {
            let runs = 512 * period.max(64);
            let places = looked_at(runs * 8, |it| if it % period == 0 { 16 } else { 2 });
            assert!(0 < places[2..].iter().sum::<usize>(), "{period}: {places:?}");
        }
    }

    #[test]
    fn one_run_in_a_thousand_is_looked_at_for_ever_and_early_ones_more_often() {
        let looks = |from: usize, to: usize| {
            let count = |runs| looked_at(runs, |_| 4).iter().sum::<usize>();
            count(to) - count(from)
        };
        assert_eq!(looks(0, 7), 0);
        // One in eight.
        assert!((8..=24).contains(&looks(0, 128)), "{}", looks(0, 128));
        // Sixteen or so for each doubling.
        assert!((5..=24).contains(&looks(4096, 8192)), "{}", looks(4096, 8192));
        let late = looks(1 << 20, (1 << 20) + 1_024_000);
        assert!((900..=1100).contains(&late), "{late}");
    }
}

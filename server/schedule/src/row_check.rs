//! Was a merged request answered as it would have been alone? Looked at now and then, after the answers have left.
//!
//! A row alone and the same row in company may differ by rounding, since the shape of the run differs. So where they
//! do, the request is run once more in a run of the same shape, in which every other row is one of its own: what an
//! engine computes for a row at one place depends on the values of other rows only where the model mixes rows.

use std::sync::Arc;

use backend::{BackendError, Batch, Instance, NamedTensor, Stop, Tensor, distance};

use crate::work::Work;

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

/// Of a graph that rounds inside a row alone may differ by so much, see `load::proof`.
const ROUNDED: f64 = 0.05;

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
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { runs: 0, next: FIRST, state: 0x9E37_79B9_7F4A_7C15 }
    }
}

impl Looks {
    /// A run of so many requests has ended: the place of the request that is looked at, if one is. Each place of a run
    /// is as likely as any other.
    pub(crate) fn place(&mut self, requests: usize) -> Option<usize> {
        self.runs += 1;
        if self.runs < self.next || requests == 0 {
            return None;
        }
        let mean = (self.runs / PART).clamp(FIRST, ONE_IN);
        // From one to twice the mean, less one: the mean of these is the mean.
        self.next = self.runs + 1 + self.below(2 * mean - 1);
        usize::try_from(self.below(requests as u64)).ok()
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

impl Sample {
    /// One of the requests of a run, by its place. `None` where it is too large.
    pub(crate) fn new(works: &[&Work], place: usize, answer: &[NamedTensor]) -> Option<Sample> {
        let work = works.get(place)?;
        let bytes = |of: &[NamedTensor]| of.iter().map(|it| it.tensor.byte_len()).sum::<usize>();
        if work.rows == 0 || MOST_BYTES < bytes(&work.inputs) + bytes(answer) {
            return None;
        }
        let rows = works.iter().map(|it| it.rows).sum();
        let offset = works.iter().take(place).map(|it| it.rows).sum();
        let inputs = copied(&work.inputs)?;
        let work = Work { inputs, outputs: work.outputs.clone(), ..**work };
        Some(Sample { work, answer: copied(answer)?, rows, offset })
    }

    /// Rows of the run that it is from.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Runs the request again, on its own.
    pub(crate) fn check(
        &self,
        instance: &mut dyn Instance,
        stop: &Stop,
    ) -> Result<Option<Mismatch>, BackendError> {
        let own = self.work.rows;
        let alone = execute(instance, &self.work, &self.work.inputs, own, stop)?;
        let Some(found) = self.apart(&alone, 0) else { return Ok(None) };
        let tiled = self.work.inputs.iter().map(|it| {
            // So that its own rows lie where they were.
            let rows = (0..self.rows).map(|at| (at + self.rows * own - self.offset) % own);
            let rows: Vec<Tensor> =
                rows.map(|row| it.tensor.slice_rows(row, 1)).collect::<Option<_>>()?;
            let tensor = Tensor::concat(&rows)?;
            Some(NamedTensor { name: it.name.clone(), tensor })
        });
        let Some(tiled) = tiled.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let beside = execute(instance, &self.work, &tiled, self.rows, stop)?;
        Ok(self.apart(&beside, self.offset).or(Some(found).filter(|it| ROUNDED < it.distance)))
    }

    /// The output that differs most from the answer, if one differs by more than the order of sums explains.
    fn apart(&self, results: &[NamedTensor], from: usize) -> Option<Mismatch> {
        let each = self.answer.iter().map(|given| {
            let result = results.iter().find(|it| it.name == given.name);
            let rows = result.and_then(|it| it.tensor.slice_rows(from, self.work.rows));
            let distance = rows.map_or(f64::INFINITY, |it| distance::distance(&given.tensor, &it));
            (given, distance)
        });
        let real =
            each.filter(|(given, distance)| distance::noise(given.tensor.dtype()) < *distance);
        let (given, distance) = real.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (rows, own_rows) = (self.rows, self.work.rows);
        Some(Mismatch { output: given.name.clone(), distance, rows, own_rows })
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
    use backend::Shape;

    use super::*;

    /// Answers with what `answer` makes of the numbers of a run.
    struct Fake(fn(&[f32]) -> Vec<f32>);

    impl Instance for Fake {
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
        Work { signature: 0, inputs, outputs: vec!["y".into()], rows: values.len() }
    }

    /// What is found of the second of three requests.
    fn found(answer: fn(&[f32]) -> Vec<f32>) -> Option<Mismatch> {
        let works = [work(&[1.0]), work(&[2.0, 4.0]), work(&[8.0])];
        let works: Vec<&Work> = works.iter().collect();
        let whole = answer(&[1.0, 2.0, 4.0, 8.0]);
        let tensor = Tensor::from_vec(Shape::new(&[2]), whole[1..3].to_vec()).unwrap();
        let sample = Sample::new(&works, 1, &[NamedTensor { name: "y".into(), tensor }]).unwrap();
        sample.check(&mut Fake(answer), &Stop::new()).unwrap()
    }

    #[test]
    fn rows_that_mix_are_found_and_rounding_is_not() {
        assert_eq!(found(|it| it.iter().map(|x| x * 2.0).collect()), None);
        let sum = found(|it| it.iter().map(|x| x + it.iter().sum::<f32>()).collect()).unwrap();
        assert_eq!((&*sum.output, sum.rows, sum.own_rows), ("y", 4, 2));
        assert!(0.1 < sum.distance, "{sum:?}");
        // By the shape of the run, and little.
        assert_eq!(
            found(|it| it.iter().map(|x| x * (1.0 + it.len() as f32 / 1e3)).collect()),
            None
        );
        assert!(found(|it| it.iter().map(|x| x * it.len() as f32).collect()).is_some());
    }

    #[test]
    fn a_large_request_is_not_kept() {
        let large = work(&vec![0.0; MOST_BYTES / 4 + 1]);
        assert!(Sample::new(&[&large], 0, &[]).is_none());
    }

    /// How often each place is looked at in so many runs, of `requests(number)` each.
    fn looked_at(runs: usize, requests: impl Fn(usize) -> usize) -> Vec<usize> {
        let mut looks = Looks::default();
        let mut places = vec![0; 16];
        for place in (0..runs).filter_map(|it| looks.place(requests(it))) {
            places[place] += 1;
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

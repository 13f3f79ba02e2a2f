//! The memory of one lane, in two halves: the server writes inputs into the first, the worker outputs into the second.
//! Nothing in it outlives a run, so that each run begins at the front of its half, in pages that are in use.

use std::{
    borrow::Cow,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{NamedTensor, Shape, Tensor};
use bytes::Bytes;

use crate::{
    frame::Garbage,
    mapping::Mapping,
    message::{Fault, Placed},
    pages::Pages,
};

/// Where tensors begin: a line of the processor's cache, and what vector instructions ask for.
const ALIGN: usize = 64;

/// Memory beyond twice what was needed of late is given back where it is at least so much.
const WORTH_GIVING_BACK: usize = 1 << 20;

/// Runs after which the need of late is looked at.
const RUNS_OF_LATE: u32 = 64;

/// A lane that has made no run for so long is at rest.
const AT_REST: Duration = Duration::from_secs(10);

/// The server's side.
pub(crate) struct HostArena {
    mapping: Arc<Mapping>,
    inputs: Use,
    outputs: Use,
    /// When the last run wrote its inputs.
    used: Instant,
}

/// What of a half is in use: its pages take memory.
#[derive(Default)]
struct Use {
    /// Bytes that some run has used and nobody has given back.
    touched: usize,
    /// The most that a run of late has used.
    recent: usize,
    runs: u32,
}

impl Use {
    /// A run has used so many bytes. From where to where memory can be given back.
    fn note(&mut self, bytes: usize) -> Option<(usize, usize)> {
        self.touched = self.touched.max(bytes);
        self.recent = self.recent.max(bytes);
        self.runs += 1;
        if self.runs < RUNS_OF_LATE {
            return None;
        }
        self.look()
    }

    /// From where to where memory can be given back: beyond twice what was needed since the last look, where it is
    /// worth it.
    fn look(&mut self) -> Option<(usize, usize)> {
        let keep = self.recent.saturating_mul(2).next_multiple_of(4096);
        (self.runs, self.recent) = (0, 0);
        let end = self.touched;
        if end < keep.saturating_add(WORTH_GIVING_BACK) {
            return None;
        }
        self.touched = keep;
        Some((keep, end))
    }
}

impl HostArena {
    /// Room for `half` bytes of inputs and as much of outputs.
    pub(crate) fn create(half: usize) -> io::Result<HostArena> {
        let len = half.checked_mul(2).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Arc::new(Mapping::create(len)?);
        let (inputs, outputs) = Default::default();
        Ok(HostArena { mapping, inputs, outputs, used: Instant::now() })
    }

    /// Its memory, to be counted.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// For the worker.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.mapping.file()
    }

    fn half(&self) -> usize {
        self.mapping.len() / 2
    }

    /// Copies the inputs into their half.
    ///
    /// # Errors
    /// The bytes that they take and that there are, where they do not fit.
    pub(crate) fn put<'a>(
        &mut self,
        inputs: &'a [NamedTensor],
    ) -> Result<Vec<Placed<'a>>, (usize, usize)> {
        let half = self.half();
        self.used = Instant::now();
        let (placed, end) = put_inputs(self.mapping.pages(), half, inputs)?;
        if let Some((from, to)) = self.inputs.note(end) {
            // Memory that cannot be given back is used again.
            let _ = self.mapping.give_back(from, to - from);
        }
        Ok(placed)
    }

    /// Gives back what is beyond the need of late, where no run has been made for a while: all but a little with the
    /// second call. Not while a run is made.
    pub(crate) fn rest(&mut self, now: Instant) {
        if now.saturating_duration_since(self.used) < AT_REST {
            return;
        }
        let half = self.half();
        let beyond = [(0, self.inputs.look()), (half, self.outputs.look())];
        for (start, (from, to)) in beyond.into_iter().filter_map(|(at, it)| Some((at, it?))) {
            // Memory that cannot be given back is used again.
            let _ = self.mapping.give_back(start + from, to - from);
        }
    }

    /// The outputs that the worker has written, as copies: it can change them no more.
    ///
    /// # Errors
    /// Where they are not what they are said to be, or are more bytes together than this memory has.
    pub(crate) fn take(&mut self, outputs: &[Placed<'_>]) -> Result<Vec<NamedTensor>, Garbage> {
        let half = self.half();
        let (taken, end) = take_outputs(self.mapping.pages(), half, outputs)?;
        if let Some((from, to)) = self.outputs.note(end - half) {
            let _ = self.mapping.give_back(half + from, to - from);
        }
        taken
    }
}

/// The worker's side.
pub(crate) struct WorkerArena(Arc<Mapping>);

impl WorkerArena {
    pub(crate) fn open(file: OwnedFd) -> io::Result<WorkerArena> {
        Ok(WorkerArena(Arc::new(Mapping::open(file)?)))
    }

    /// The inputs that the server has written: where they lie, if they are let go of before their run is answered, or
    /// as copies, which an engine may keep.
    pub(crate) fn inputs(
        &self,
        inputs: &[Placed<'_>],
        as_copies: bool,
    ) -> Result<Vec<NamedTensor>, Fault> {
        let taken = inputs.iter().map(|it| {
            // The server writes there again once this run is answered.
            let bytes = self.0.inputs(it.at as usize, it.len as usize).unwrap_or_default();
            let bytes = if as_copies { Bytes::copy_from_slice(&bytes) } else { bytes };
            let shape: Shape = it.dims.iter().map(|it| *it as usize).collect();
            let tensor = Tensor::new(it.dtype, shape, bytes).map_err(|error| {
                Fault::execute(format!("input '{}' came damaged: {error}", it.name))
            })?;
            Ok(NamedTensor { name: Arc::from(&*it.name), tensor })
        });
        taken.collect()
    }

    /// Copies the outputs into their half; what lies in this memory already stays where it is.
    pub(crate) fn put<'a>(&self, outputs: &'a [NamedTensor]) -> Result<Vec<Placed<'a>>, Fault> {
        put_outputs(self.0.pages(), self.0.len() / 2, outputs)
    }
}

/// Copies the inputs into the first half: where they lie, and where they end.
fn put_inputs<'a>(
    pages: &Pages,
    half: usize,
    inputs: &'a [NamedTensor],
) -> Result<(Vec<Placed<'a>>, usize), (usize, usize)> {
    let sizes = inputs.iter().map(|it| it.tensor.byte_len().next_multiple_of(ALIGN));
    let all = sizes.fold(0, usize::saturating_add);
    if half < all {
        return Err((all, half));
    }
    let mut at = 0;
    let placed: Option<_> = inputs.iter().map(|it| put(pages, it, &mut at, half)).collect();
    placed.map(|it| (it, at)).ok_or((all, half))
}

/// What came of the outputs, and where what was read of the second half ends.
type Taken = (Result<Vec<NamedTensor>, Garbage>, usize);

/// Copies of these outputs.
fn take_outputs(pages: &Pages, half: usize, outputs: &[Placed<'_>]) -> Result<Taken, Garbage> {
    // Outputs may lie in the same place: copies of a small answer may be large.
    let all = outputs.iter().map(|it| it.len).fold(0, u64::saturating_add);
    if (pages.len() as u64) < all {
        return Err(Garbage::TooLarge { all, memory: pages.len() });
    }
    let mut end = half;
    let taken = outputs.iter().map(|it| {
        let (at, len) = (it.at as usize, it.len as usize);
        let bytes = pages.read(at, len);
        let bytes = bytes.ok_or_else(|| Garbage::Outside(it.name.to_string()))?;
        end = end.max(at.saturating_add(len));
        let shape: Shape = it.dims.iter().map(|it| *it as usize).collect();
        let tensor = Tensor::new(it.dtype, shape, bytes);
        let no_tensor = |error| Garbage::NoTensor { name: it.name.to_string(), error };
        let tensor = tensor.map_err(no_tensor)?;
        Ok(NamedTensor { name: Arc::from(&*it.name), tensor })
    });
    let taken = taken.collect();
    Ok((taken, end))
}

/// Copies the outputs into the second half; what lies in this memory already stays where it is.
fn put_outputs<'a>(
    pages: &Pages,
    half: usize,
    outputs: &'a [NamedTensor],
) -> Result<Vec<Placed<'a>>, Fault> {
    let (mut at, end) = (half, pages.len());
    let room = end - at;
    let bytes = outputs.iter().map(|it| it.tensor.byte_len()).fold(0, usize::saturating_add);
    let all =
        outputs.iter().map(|it| match it.tensor.contiguous().and_then(|it| pages.place_of(it)) {
            Some(here) => Some(placed(it, here)),
            None => put(pages, it, &mut at, end),
        });
    // One that is several outputs at once takes room in the server for each of them.
    all.collect::<Option<_>>().filter(|_| bytes <= end).ok_or_else(|| {
        Fault::out_of_memory(format!(
            "its outputs take {bytes} bytes, and a model in a process of its own has {room} bytes for those of a \
             run (--worker-arena-bytes)"
        ))
    })
}

/// Copies the tensor to `at`, which moves on. `None` where it does not fit before `end`.
fn put<'a>(
    pages: &Pages,
    named: &'a NamedTensor,
    at: &mut usize,
    end: usize,
) -> Option<Placed<'a>> {
    let from = *at;
    let len = named.tensor.byte_len();
    if end < from.checked_add(len)? {
        return None;
    }
    let mut to = from;
    for segment in named.tensor.segments() {
        pages.write(to, segment)?;
        to += segment.len();
    }
    *at = to.next_multiple_of(ALIGN);
    Some(placed(named, from))
}

fn placed(named: &NamedTensor, at: usize) -> Placed<'_> {
    let tensor = &named.tensor;
    Placed {
        name: Cow::Borrowed(&named.name),
        dtype: tensor.dtype(),
        dims: tensor.shape().dims().iter().map(|it| *it as u64).collect(),
        at: at as u64,
        len: tensor.byte_len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::BothSides;
    use backend::DataType;

    fn named(name: &str, values: &[f32]) -> NamedTensor {
        let tensor = Tensor::from_vec(Shape::new(&[values.len()]), values.to_vec()).unwrap();
        NamedTensor { name: name.into(), tensor }
    }

    fn pair(half: usize) -> (HostArena, WorkerArena) {
        let host = HostArena::create(half).unwrap();
        let worker = WorkerArena::open(host.file().try_clone_to_owned().unwrap()).unwrap();
        (host, worker)
    }

    #[test]
    fn tensors_go_over_and_come_back() {
        let (mut host, worker) = pair(1 << 16);
        let strings = Tensor::from_strings(Shape::new(&[2]), ["a", "text"]).unwrap();
        let sent =
            [named("x", &[1.0, 2.0, 3.0]), NamedTensor { name: "s".into(), tensor: strings }];
        let placed = host.put(&sent).unwrap();
        let copies = worker.inputs(&placed, true).unwrap();
        assert_eq!(copies[0].tensor.as_slice_of::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert!(1 << 16 <= worker.put(&copies).unwrap()[0].at, "in the worker's own half");
        let came = worker.inputs(&placed, false).unwrap();
        assert_eq!(came[0].tensor.as_slice_of::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(came[1].tensor.to_bytes(), sent[1].tensor.to_bytes());
        // One that was made there, and one that is an input.
        let answers = [named("y", &[4.0]), came[1].clone()];
        let placed = worker.put(&answers).unwrap();
        assert!(1 << 16 <= placed[0].at && placed[1].at < 1 << 16);
        let taken = host.take(&placed).unwrap();
        assert_eq!(taken[0].tensor.as_slice_of::<f32>().unwrap(), [4.0]);
        assert_eq!(taken[1].tensor.to_bytes(), sent[1].tensor.to_bytes());
    }

    /// Needs no file that is mapped, for Miri.
    #[test]
    fn places_of_tensors_are_within_their_half_and_hold_what_was_put_there() {
        const HALF: usize = 1024;
        let BothSides { ours, theirs, .. } = &BothSides::new(HALF);
        let strings = Tensor::from_strings(Shape::new(&[2]), ["a", "text"]).unwrap();
        let sent = [named("x", &[1.0, 2.0]), NamedTensor { name: "s".into(), tensor: strings }];
        let (placed, end) = put_inputs(ours, HALF, &sent).unwrap();
        assert_eq!(placed.iter().map(|it| it.at).collect::<Vec<_>>(), [0, ALIGN as u64]);
        assert_eq!(end, 2 * ALIGN);
        let seen = theirs.view(ALIGN, sent[1].tensor.byte_len()).unwrap();
        assert_eq!(seen, &sent[1].tensor.to_bytes()[..]);
        let placed = put_outputs(theirs, HALF, &sent).unwrap();
        assert!(placed.iter().all(|it| HALF as u64 <= it.at));
        let (taken, end) = take_outputs(ours, HALF, &placed).unwrap();
        let taken = taken.unwrap();
        assert_eq!(taken[0].tensor.as_slice_of::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(taken[1].tensor.to_bytes(), sent[1].tensor.to_bytes());
        assert_eq!(end, HALF + ALIGN + sent[1].tensor.byte_len());
        let large = [named("x", &[0.0; 240]), named("y", &[0.0; 240])];
        assert_eq!(put_inputs(ours, HALF, &large).unwrap_err(), (1920, HALF));
        assert!(put_outputs(theirs, HALF, &large).is_err());
        for at in [u64::MAX, 2 * HALF as u64 - 7, 3 * HALF as u64] {
            let lie = Placed { name: "y".into(), dtype: DataType::Fp32, dims: vec![2], at, len: 8 };
            assert!(take_outputs(ours, HALF, &[lie]).unwrap().0.is_err());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_sizes() {
        let (mut host, worker) = pair(1024);
        let large = [named("x", &[0.0; 300])];
        assert_eq!(host.put(&large).unwrap_err(), (1216, 1024));
        assert!(worker.put(&large).unwrap_err().text.contains("1200 bytes"));
        assert!(host.put(&[named("x", &[0.0; 240])]).is_ok());
    }

    #[test]
    fn answers_that_lie_are_errors() {
        let (mut host, _worker) = pair(1024);
        let of = |dtype, dims: &[u64], at, len| Placed {
            name: "y".into(),
            dtype,
            dims: dims.into(),
            at,
            len,
        };
        for (lie, text) in [
            (of(DataType::Fp32, &[4], 2040, 16), "outside"),
            (of(DataType::Fp32, &[4], u64::MAX, 16), "outside"),
            (of(DataType::Fp32, &[5], 1024, 16), "output 'y'"),
            (of(DataType::Bytes, &[5], 1024, 4), "output 'y'"),
            (of(DataType::Fp32, &[u64::MAX, 2], 1024, 16), "output 'y'"),
        ] {
            let error = host.take(&[lie]).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_lane_at_rest_gives_back_what_is_beyond_the_need_of_late() {
        let (mut host, worker) = pair(32 << 20);
        let run = |host: &mut HostArena, floats: usize| {
            let sent = [named("x", &vec![1.0; floats])];
            let placed = host.put(&sent).unwrap();
            let copies = worker.inputs(&placed, true).unwrap();
            host.take(&worker.put(&copies).unwrap()).unwrap();
        };
        run(&mut host, 4 << 20);
        run(&mut host, 4);
        let (now, full) = (Instant::now(), host.mapping().bytes_in_use());
        assert!(32 << 20 <= full, "{full}: both halves of the large run");
        host.rest(now + AT_REST / 2);
        assert_eq!(host.mapping().bytes_in_use(), full);
        host.rest(now + AT_REST);
        assert_eq!(host.mapping().bytes_in_use(), full, "the large run is one of late");
        host.rest(now + 2 * AT_REST);
        assert_eq!(host.mapping().bytes_in_use(), 0);
        run(&mut host, 4);
    }

    #[test]
    fn memory_that_is_not_needed_of_late_is_given_back() {
        let mut half = Use::default();
        assert_eq!(half.note(8 << 20), None);
        let given_back: Vec<_> = (0..127).filter_map(|_| half.note(1000)).collect();
        // The large run is among the first 64, and not among the next.
        assert_eq!(given_back, [(4096, 8 << 20)]);
        assert_eq!(half.touched, 4096);
    }
}

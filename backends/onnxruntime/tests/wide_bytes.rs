//! Sums that are made in another order with more threads: whoever has company must not be able to tell.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::num::NonZeroUsize;

use backend::{Backend, Device, Instance, ModelSource, RunTerms, Tensor};
use support::{engine, floats, path, run, source, values};

/// A product without packed weights, which ONNX Runtime divides among threads by columns: the fewer columns a thread
/// has, the more rows it sums at a time.
const ROWS: usize = 16;
const SUMMED: usize = 16_384;
const COLUMNS: usize = 128;

/// Numbers that are those of this seed alone.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

fn product(instance: &mut dyn Instance, wide: bool, (a, b): &(Tensor, Tensor)) -> Vec<f32> {
    instance.expect_runs(RunTerms { wide, ..RunTerms::default() });
    values(&run(instance, &[("a", a.clone()), ("b", b.clone())], &["c"]).unwrap()[0])
}

#[test]
fn more_threads_change_no_bit_of_an_answer() {
    let source =
        ModelSource { wide_threads: NonZeroUsize::new(2), ..source(path("matmul.onnx"), &[]) };
    let model = engine().load(&source).unwrap();
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let inputs = |seed: u32| {
        let a = floats(&[ROWS, SUMMED], &numbers(ROWS * SUMMED, seed));
        (a, floats(&[SUMMED, COLUMNS], &numbers(SUMMED * COLUMNS, seed + 1000)))
    };
    let mut is_compared = |seed: u32| {
        let given = inputs(seed);
        let wide = product(&mut *instance, true, &given);
        let was_compared = instance.has_run_wide();
        assert!(wide == product(&mut *instance, false, &given), "inputs {seed} differ");
        was_compared
    };
    // The second session is made in the background, after some runs that take long enough.
    let first = (1..5000).find(|seed| is_compared(*seed)).expect("one that was made both ways");
    (first + 1..first + 100).for_each(|seed| {
        is_compared(seed);
    });
}

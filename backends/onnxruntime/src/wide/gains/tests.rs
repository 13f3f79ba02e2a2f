//! Facts of what is learned from pairs of runs, and of trials of wide ones.

use super::*;

const MS: Duration = Duration::from_millis(1);

const SHAPES: Shapes = Shapes { key: 1, elements: 1000 };

/// Of another shape for each key, and about as large.
fn shapes(key: u64) -> Shapes {
    Shapes { key, ..SHAPES }
}

/// That of inputs and outputs which are those of this number alone.
fn of(number: u128) -> Outcome {
    Outcome { inputs: number, outputs: number, floats: 8 }
}

/// After pairs of so many inputs, whose narrow runs took a millisecond.
fn after(pairs: u128) -> Gains {
    let mut gains = Gains::new();
    (0..pairs).for_each(|it| gains.same(SHAPES, of(it), Some(MS)));
    gains
}

/// How many of so many runs of the same inputs are wide, and how many pairs, where a wide one takes so many times as
/// long as a narrow one.
fn run(gains: &mut Gains, runs: u32, times: f64) -> (u32, u32) {
    let (mut wide, mut pairs) = (0, 0);
    for _ in 0..runs {
        match gains.choose(SHAPES, || 0) {
            Choice::Wide => {
                wide += 1;
                gains.ran_wide(SHAPES, Some(MS.mul_f64(times)));
            }
            Choice::Pair => {
                pairs += 1;
                gains.same(SHAPES, of(0), Some(MS));
            }
            Choice::Narrow => {}
        }
    }
    (wide, pairs)
}

#[test]
fn inputs_are_compared_first_and_then_tried_several_times_in_a_row() {
    let mut gains = Gains::new();
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Pair);
    gains.same(SHAPES, of(0), Some(MS));
    // Threads that have slept long are slow at first.
    for ratio in [5.0, 3.0, 0.6, 0.6, 0.6] {
        assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
        gains.ran_wide(SHAPES, Some(MS.mul_f64(ratio)));
        assert!(!gains.sizes[SHAPES.size()].is_wide, "the trial goes on");
    }
    assert_eq!(run(&mut gains, 1000, 0.6), (1000, 0));
    assert_eq!(gains.choose(SHAPES, || 1), Choice::Pair, "other inputs");
}

#[test]
fn a_trial_without_a_gain_is_made_again_later_and_later() {
    let mut gains = after(1);
    assert_eq!(run(&mut gains, 20, 0.92).0, TRIAL as u32);
    let trials = |it: u32| it / TRIAL as u32;
    assert_eq!(trials(run(&mut gains, 5_000, 0.92).0), 7);
    assert!((9..=10).contains(&trials(run(&mut gains, 10 * LATER, 0.92).0)));
    assert_eq!(run(&mut after(1), 100, 9.0).0 % (WARM_UP as u32 + 1), 0, "ended at once");
}

#[test]
fn where_something_else_becomes_busy_or_idle_that_is_seen() {
    let mut gains = after(1);
    run(&mut gains, 100, 0.6);
    assert!(run(&mut gains, 30, 1.5).0 < 30);
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Narrow);
    run(&mut gains, 2 * SOON, 0.6);
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
}

#[test]
fn wide_runs_are_compared_again_now_and_then() {
    let mut gains = after(1);
    run(&mut gains, 10, 0.6);
    assert_eq!(run(&mut gains, 10 * LATER, 0.6).1, 10);
}

#[test]
fn eight_inputs_with_outputs_of_their_own_decide_for_all_inputs() {
    let mut gains = after(TRUSTED as u128 - 1);
    run(&mut gains, 10, 0.6);
    assert_ne!(gains.choose(SHAPES, || 100), Choice::Wide);
    let mut gains = after(TRUSTED as u128);
    run(&mut gains, 10, 0.6);
    assert_eq!(gains.choose(SHAPES, || unreachable!("they do not matter")), Choice::Wide);
}

#[test]
fn inputs_with_the_same_outputs_prove_nothing_for_others() {
    let (mut gains, mut pairs) = (Gains::new(), 0);
    for it in 0..10_000 {
        match gains.choose(SHAPES, || it) {
            Choice::Pair => {
                pairs += 1;
                gains.same(SHAPES, Outcome { inputs: it, outputs: 0, floats: 8 }, Some(MS));
            }
            choice => assert_eq!(choice, Choice::Narrow),
        }
    }
    assert!((MOST_TRIES..MOST_TRIES + 2).contains(&pairs), "{pairs}: then no others are looked at");
}

#[test]
fn a_single_number_proves_little() {
    let wide = |inputs: u128| {
        let mut gains = Gains::new();
        (0..inputs).for_each(|it| gains.same(SHAPES, Outcome { floats: 1, ..of(it) }, Some(MS)));
        run(&mut gains, 10, 0.6);
        gains.choose(SHAPES, || 1000) == Choice::Wide
    };
    assert!(!wide(63) && wide(64));
}

#[test]
fn other_bytes_are_never_given_however_soon_they_come() {
    let mut gains = after(20);
    gains.refuse(SHAPES);
    assert!((0..2 * LATER).all(|_| gains.choose(SHAPES, || 0) == Choice::Narrow));
    // However many other shapes there are.
    (0..2 * MOST_SHAPES as u64).for_each(|it| gains.same(shapes(it + 10), of(0), Some(MS)));
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Narrow);
}

#[test]
fn where_shapes_hardly_repeat_one_in_eight_runs_is_compared() {
    let (mut gains, mut pairs) = (Gains::new(), 0);
    for it in 0..800 {
        if gains.choose(shapes(it), || 0) == Choice::Pair {
            pairs += 1;
            gains.same(shapes(it), of(0), Some(MS));
        }
    }
    assert!((100..=110).contains(&pairs), "{pairs}");
}

#[test]
fn a_pair_with_other_runs_beside_it_proves_bytes_and_no_times() {
    let mut gains = Gains::new();
    (0..5).for_each(|it| gains.same(SHAPES, of(it), None));
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Pair, "no time is known yet");
    gains.same(SHAPES, of(0), Some(MS));
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
    // Another run has begun meanwhile.
    gains.ran_wide(SHAPES, None);
    assert!(gains.sizes[SHAPES.size()].trial.is_none());
    assert_eq!(run(&mut gains, 100, 0.6).0, 100);
}

#[test]
fn a_model_whose_outputs_differ_everywhere_is_known_as_such() {
    let mut gains = Gains::new();
    (0..u64::from(FRUITLESS)).for_each(|it| gains.refuse(shapes(it)));
    assert!(gains.are_fruitless());
    gains = after(1);
    (0..u64::from(FRUITLESS)).for_each(|it| gains.refuse(shapes(it)));
    assert!(!gains.are_fruitless());
}

#[test]
fn so_many_shapes_are_kept_and_no_more() {
    let mut gains = Gains::new();
    for key in 0..3 * MOST_SHAPES as u64 {
        if gains.choose(Shapes { key, elements: 1 << (key % 60) }, || 0) == Choice::Pair {
            gains.same(shapes(key), of(0), Some(MS));
        }
    }
    assert!(gains.shapes.len() <= MOST_SHAPES);
}

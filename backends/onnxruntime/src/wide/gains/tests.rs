//! Facts of what is learned from pairs of runs.

use super::*;

const MS: Duration = Duration::from_millis(1);

const SHAPES: Shapes = Shapes { key: 1, elements: 1000 };

/// Those of a pair whose wide run took so long, and the narrow one a millisecond.
fn took(wide: Duration) -> Option<Times> {
    Some(Times { narrow: MS, wide })
}

/// Of another shape for each key, and about as large.
fn shapes(key: u64) -> Shapes {
    Shapes { key, ..SHAPES }
}

/// That of inputs and outputs which are those of this number alone.
fn of(number: u128) -> Outcome {
    Outcome { inputs: number, outputs: number, floats: 8 }
}

/// After so many pairs of other inputs each, whose wide run took so many times as long as the narrow one.
fn after(pairs: u64, times: f64) -> Gains {
    let mut gains = Gains::new();
    (0..u128::from(pairs)).for_each(|it| gains.same(SHAPES, of(it), took(MS.mul_f64(times))));
    gains
}

fn is_pair(choice: Choice) -> bool {
    matches!(choice, Choice::Pair { .. })
}

#[test]
fn three_pairs_decide_for_inputs_that_were_among_them() {
    assert!(is_pair(after(2, 0.6).choose(SHAPES, || 0)));
    assert_eq!(after(3, 0.6).choose(SHAPES, || 0), Choice::Wide);
    assert_eq!(after(3, 0.95).choose(SHAPES, || 0), Choice::Narrow);
}

#[test]
fn eight_inputs_with_outputs_of_their_own_decide_for_all_inputs() {
    assert_ne!(after(TRUSTED as u64 - 1, 0.6).choose(SHAPES, || 100), Choice::Wide);
    let mut gains = after(TRUSTED as u64, 0.6);
    assert_eq!(gains.choose(SHAPES, || unreachable!("they do not matter")), Choice::Wide);
}

#[test]
fn inputs_with_the_same_outputs_prove_nothing_for_others() {
    let mut gains = Gains::new();
    let mut pairs = 0;
    for it in 0..10_000 {
        match gains.choose(SHAPES, || it) {
            Choice::Pair { .. } => {
                pairs += 1;
                gains.same(SHAPES, Outcome { inputs: it, outputs: 0, floats: 8 }, took(MS / 2));
            }
            choice => assert_eq!(choice, Choice::Narrow),
        }
    }
    // The first input is one of those that were compared.
    assert!((MOST_TRIES..MOST_TRIES + 2).contains(&pairs), "{pairs}: then no others are looked at");
}

#[test]
fn a_single_number_proves_little() {
    let mut gains = Gains::new();
    for it in 0..20 {
        gains.same(SHAPES, Outcome { floats: 1, ..of(it) }, took(MS / 2));
    }
    assert_ne!(gains.choose(SHAPES, || 100), Choice::Wide);
    (20..64).for_each(|it| gains.same(SHAPES, Outcome { floats: 1, ..of(it) }, took(MS / 2)));
    assert_eq!(gains.choose(SHAPES, || 100), Choice::Wide);
}

#[test]
fn inputs_that_come_again_and_again_stay_wide() {
    let mut gains = after(3, 0.5);
    let runs = run(&mut gains, 100 * LATER, 0.5).len();
    assert!((100..110).contains(&runs), "{runs}");
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
}

#[test]
fn other_bytes_are_never_given_however_soon_they_come() {
    let mut gains = after(20, 0.1);
    gains.refuse(SHAPES);
    assert!((0..2 * LATER).all(|_| gains.choose(SHAPES, || 0) == Choice::Narrow));
    // However many other shapes there are.
    (0..2 * MOST_SHAPES as u64).for_each(|it| gains.same(shapes(it + 10), of(0), took(MS / 2)));
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Narrow);
}

#[test]
fn where_shapes_hardly_repeat_one_in_eight_runs_is_compared() {
    let (mut gains, mut pairs) = (Gains::new(), 0);
    for it in 0..800 {
        if is_pair(gains.choose(shapes(it), || 0)) {
            pairs += 1;
            gains.same(shapes(it), of(0), took(MS / 2));
        }
    }
    assert!((100..=110).contains(&pairs), "{pairs}");
}

/// After so many runs, of which those that are compared take so many times as long wide: the pairs among them.
fn run(gains: &mut Gains, runs: u32, times: f64) -> Vec<bool> {
    let mut first = Vec::new();
    for _ in 0..runs {
        if let Choice::Pair { wide_first, .. } = gains.choose(SHAPES, || 0) {
            first.push(wide_first);
            gains.same(SHAPES, of(0), took(MS.mul_f64(times)));
        }
    }
    first
}

#[test]
fn what_was_found_is_looked_at_again_less_and_less_often_and_in_either_order() {
    let mut gains = after(20, 0.6);
    run(&mut gains, 1000, 0.6);
    let first = run(&mut gains, 20 * LATER, 0.6);
    assert_eq!((first.len(), first.iter().filter(|it| **it).count()), (20, 10));
}

#[test]
fn where_something_else_becomes_busy_or_idle_that_is_seen_soon() {
    let mut gains = after(20, 0.6);
    // Three of five pairs decide: the first of them comes after 256 runs at the latest, the others soon after it.
    run(&mut gains, 3 * LATER, 1.5);
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Narrow);
    run(&mut gains, 3 * LATER, 0.6);
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
}

#[test]
fn a_pair_or_two_that_had_other_work_beside_them_decide_nothing() {
    let mut gains = after(20, 0.6);
    gains.same(SHAPES, of(0), took(9 * MS));
    gains.same(SHAPES, of(0), took(9 * MS));
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
    let mut gains = after(u64::from(FRUITLESS) + 8, 0.6);
    (0..3).for_each(|_| gains.same(SHAPES, of(0), took(9 * MS)));
    assert!(!gains.are_fruitless(), "it was none for so short a time");
}

#[test]
fn a_wide_run_that_was_no_gain_has_the_next_compared() {
    let mut gains = after(20, 0.6);
    gains.sizes[SHAPES.size()].runs = 200;
    gains.ran_wide(SHAPES, MS.mul_f64(0.9));
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
    gains.ran_wide(SHAPES, MS.mul_f64(1.1));
    assert!(is_pair(gains.choose(SHAPES, || 0)));
    gains.same(SHAPES, of(0), took(MS.mul_f64(0.6)));
    assert_eq!(gains.choose(SHAPES, || 0), Choice::Wide);
}

#[test]
fn a_pair_with_other_runs_beside_it_proves_bytes_and_no_times() {
    let mut gains = Gains::new();
    (0..20).for_each(|it| gains.same(SHAPES, of(it), None));
    assert!(matches!(gains.choose(SHAPES, || 0), Choice::Pair { .. } | Choice::Narrow));
    (0..3).for_each(|_| gains.same(SHAPES, of(0), took(MS / 2)));
    assert_eq!(gains.choose(SHAPES, || 100), Choice::Wide);
}

#[test]
fn a_model_whose_outputs_differ_everywhere_is_known_as_such() {
    let mut gains = Gains::new();
    (0..u64::from(FRUITLESS)).for_each(|it| gains.refuse(shapes(it)));
    assert!(gains.are_fruitless());
    // A neighbour may be busy for any time.
    assert!(!after(10 * u64::from(FRUITLESS), 2.0).are_fruitless());
}

#[test]
fn so_many_shapes_are_kept_and_no_more() {
    let mut gains = Gains::new();
    for key in 0..3 * MOST_SHAPES as u64 {
        if is_pair(gains.choose(Shapes { key, elements: 1 << (key % 60) }, || 0)) {
            gains.same(shapes(key), of(0), took(MS / 2));
        }
    }
    assert!(gains.shapes.len() <= MOST_SHAPES);
}

//! The table of [`pack`], and what holds for every queue.

use std::time::Duration;

use proptest::{prelude::*, test_runner::TestRunner};

use super::*;

const FREE: RunBounds = RunBounds { rows: 32, tokens: 4096 };

/// Do the rows at these places run next, where rows of these lengths wait and the first is the oldest?
#[track_caller]
fn check(lengths: &[usize], bounds: RunBounds, expected: &[usize]) {
    assert_eq!(pack(lengths, 0, &CostTable::default(), bounds), expected);
}

#[test]
fn nothing_waits() {
    check(&[], FREE, &[]);
}

#[test]
fn one_row_runs_alone() {
    check(&[300], FREE, &[0]);
}

#[test]
fn rows_of_equal_length_run_together() {
    check(&[16; 5], FREE, &[0, 1, 2, 3, 4]);
}

#[test]
fn short_rows_gather_around_a_long_one() {
    check(&[9, 512, 8, 7, 10], FREE, &[0, 2, 3, 4]);
}

#[test]
fn the_long_row_runs_alone_when_it_is_the_oldest() {
    check(&[512, 9, 8, 7, 10], FREE, &[0]);
}

#[test]
fn a_little_padding_is_cheaper_than_another_run() {
    check(&[100, 105], FREE, &[0, 1]);
    check(&[100, 160], FREE, &[0]);
}

#[test]
fn a_run_has_no_more_rows_than_it_may() {
    check(&[16; 5], RunBounds { rows: 2, ..FREE }, &[0]);
    check(&[16; 6], RunBounds { rows: 2, ..FREE }, &[0, 1]);
    check(&[16; 6], RunBounds { rows: 1, ..FREE }, &[0]);
}

#[test]
fn a_run_has_no_more_tokens_than_it_may() {
    check(&[16; 4], RunBounds { tokens: 32, ..FREE }, &[0, 1]);
    check(&[16; 4], RunBounds { tokens: 31, ..FREE }, &[0]);
}

#[test]
fn a_row_of_more_tokens_than_a_run_may_have_runs_alone() {
    check(&[600, 600], RunBounds { tokens: 512, ..FREE }, &[0]);
}

#[test]
fn the_oldest_decides_which_run_is_next() {
    let lengths = [9, 512, 8, 7, 10];
    let next = |oldest| pack(&lengths, oldest, &CostTable::default(), FREE);
    assert_eq!(next(3), [0, 2, 3, 4]);
    assert_eq!(next(1), [1]);
}

#[test]
fn where_a_run_costs_much_by_itself_more_is_padded() {
    let mut costs = CostTable::default();
    for (rows, length) in [(1, 8), (1, 128), (2, 128), (8, 128), (32, 128)] {
        costs.record(rows, length, Duration::from_micros(5000 + (rows * length) as u64 / 8));
    }
    let lengths = [9, 128, 60, 30];
    assert_eq!(pack(&lengths, 0, &costs, FREE), [0, 1, 2, 3]);
}

/// Seconds of the cheapest of all ways to cut these rows into runs.
fn exhaustive(lengths: &[usize], costs: &CostTable, bounds: RunBounds) -> f32 {
    fn place(
        rest: &[usize],
        runs: &mut Vec<(usize, usize)>,
        bounds: RunBounds,
        costs: &dyn Fn(usize, usize) -> f32,
    ) -> f32 {
        let Some((length, rest)) = rest.split_first() else {
            return runs.iter().map(|(rows, longest)| costs(*rows, *longest)).sum();
        };
        let mut best = f32::INFINITY;
        for at in 0..runs.len() {
            let before = runs[at];
            let (rows, longest) = (before.0 + 1, before.1.max(*length));
            if rows <= bounds.rows && rows * longest <= bounds.tokens {
                runs[at] = (rows, longest);
                best = best.min(place(rest, runs, bounds, costs));
                runs[at] = before;
            }
        }
        runs.push((1, *length));
        best = best.min(place(rest, runs, bounds, costs));
        runs.pop();
        best
    }
    let columns: Vec<Vec<f32>> = (0..=*lengths.iter().max().unwrap_or(&0))
        .map(|length| {
            let mut column = vec![0.0; lengths.len()];
            if lengths.contains(&length) {
                costs.column(length, &mut column);
            }
            column
        })
        .collect();
    place(lengths, &mut Vec::new(), bounds, &|rows, length| columns[length][rows - 1])
}

/// Seconds of runs in the order of arrival, each as large as it may be.
fn in_order_of_arrival(lengths: &[usize], costs: &CostTable, bounds: RunBounds) -> f32 {
    let (mut total, mut run) = (0.0, (0usize, 0usize));
    for length in lengths {
        let more = (run.0 + 1, run.1.max(*length));
        if run.0 == 0 || (more.0 <= bounds.rows && more.0 * more.1 <= bounds.tokens) {
            run = more;
            continue;
        }
        total += costs.seconds(run.0, run.1);
        run = (1, *length);
    }
    if 0 < run.0 { total + costs.seconds(run.0, run.1) } else { total }
}

/// A table that has seen runs of these sizes and times.
fn costs() -> impl Strategy<Value = CostTable> {
    let run = (1usize..40, 1usize..700, 10u64..1_000_000);
    prop::collection::vec(run, 0..12).prop_map(|runs| {
        let mut costs = CostTable::default();
        for (rows, length, us) in runs {
            costs.record(rows, length, Duration::from_micros(us));
        }
        costs
    })
}

fn bounds() -> impl Strategy<Value = RunBounds> {
    (1usize..40, 1usize..5000).prop_map(|(rows, tokens)| RunBounds { rows, tokens })
}

/// A row is in exactly one run, and each run is one that may be.
#[track_caller]
fn check_all_runs(lengths: &[usize], costs: &CostTable, bounds: RunBounds) {
    let mut waiting: Vec<usize> = (0..lengths.len()).collect();
    while let Some(oldest) = waiting.first().copied() {
        let of: Vec<usize> = waiting.iter().map(|it| lengths[*it]).collect();
        let run = pack(&of, 0, costs, bounds);
        assert!(run.contains(&0) && run.is_sorted_by(|one, other| one < other));
        let longest = run.iter().map(|it| of[*it]).max().unwrap();
        assert!(run.len() <= bounds.rows);
        assert!(run.len() == 1 || run.len() * longest <= bounds.tokens);
        let rows: Vec<usize> = run.iter().map(|it| waiting[*it]).collect();
        waiting.retain(|it| !rows.contains(it));
        assert!(!waiting.contains(&oldest));
    }
}

#[test]
fn the_cut_is_the_cheapest_there_is_and_never_dearer_than_the_order_of_arrival() {
    let queues = (prop::collection::vec(1usize..600, 1..10), costs(), bounds());
    let config = ProptestConfig { cases: 4_000, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&queues, |(lengths, costs, bounds)| {
        let cheapest = cheapest(&lengths, &costs, bounds);
        let bruteforce = exhaustive(&lengths[..lengths.len().min(7)], &costs, bounds);
        let of_few = super::cheapest(&lengths[..lengths.len().min(7)], &costs, bounds);
        prop_assert!((of_few - bruteforce).abs() <= 1e-4 * bruteforce, "{of_few} {bruteforce}");
        prop_assert!(cheapest <= in_order_of_arrival(&lengths, &costs, bounds) * 1.0001);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn of_nine_rows_no_way_to_cut_is_cheaper() {
    let queues = (prop::collection::vec(1usize..600, 9), costs(), bounds());
    let config = ProptestConfig { cases: 60, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&queues, |(lengths, costs, bounds)| {
        let (cheapest, all) =
            (cheapest(&lengths, &costs, bounds), exhaustive(&lengths, &costs, bounds));
        prop_assert!((cheapest - all).abs() <= 1e-4 * all, "{cheapest} {all}");
        Ok(())
    });
    outcome.unwrap();
}

/// Draws so many queues, and runs each of them down.
fn check_queues(cases: u32) {
    let queues = (prop::collection::vec(1usize..600, 0..40), costs(), bounds());
    let config = ProptestConfig { cases, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&queues, |(lengths, costs, bounds)| {
        check_all_runs(&lengths, &costs, bounds);
        let cheapest = cheapest(&lengths, &costs, bounds);
        prop_assert!(cheapest <= in_order_of_arrival(&lengths, &costs, bounds) * 1.0001);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn the_oldest_is_always_in_and_bounds_are_kept() {
    check_queues(1_000);
}

#[test]
#[ignore = "takes minutes"]
fn the_oldest_is_always_in_and_bounds_are_kept_in_a_hundred_thousand_queues() {
    check_queues(100_000);
}

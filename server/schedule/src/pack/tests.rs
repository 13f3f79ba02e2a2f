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

/// Seconds of the cheapest of all ways to cut at most nine rows into runs, neighbours by length or not.
fn exhaustive(lengths: &[usize], costs: &CostTable, bounds: RunBounds) -> f32 {
    let columns = lengths.iter().map(|length| {
        let mut column = vec![0.0; lengths.len()];
        costs.column(*length, &mut column);
        column
    });
    let columns: Vec<Vec<f32>> = columns.collect();
    // By the set of rows, a bit for each: what one run of them takes, and what the cheapest runs of them take.
    let sets = 1usize << lengths.len();
    let (mut run, mut least) = (vec![f32::INFINITY; sets], vec![0.0f32; sets]);
    for set in 1..sets {
        let rows = set.count_ones() as usize;
        let places = (0..lengths.len()).filter(|it| set >> it & 1 == 1);
        let longest = places.max_by_key(|it| lengths[*it]).unwrap();
        if rows == 1 || (rows <= bounds.rows && rows * lengths[longest] <= bounds.tokens) {
            run[set] = columns[longest][rows - 1];
        }
        // The first row is in some run: all sets that it may share one with.
        let first = set & set.wrapping_neg();
        let others = set ^ first;
        let (mut company, mut best) = (others, f32::INFINITY);
        loop {
            best = best.min(run[first | company] + least[others ^ company]);
            if company == 0 {
                break;
            }
            company = (company - 1) & others;
        }
        least[set] = best;
    }
    least[sets - 1]
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

/// No way to cut these rows is cheaper than that of `pack`, and the order of arrival is none that is.
#[track_caller]
fn check_is_cheapest(lengths: &[usize], costs: &CostTable, bounds: RunBounds) {
    let given = cheapest(lengths, costs, bounds);
    let least = exhaustive(lengths, costs, bounds);
    let what = (lengths, bounds);
    assert!((given - least).abs() <= 1e-4 * least, "{what:?}: {given}, and {least} would do");
    let arrival = in_order_of_arrival(lengths, costs, bounds);
    assert!(given <= arrival * 1.0001, "{what:?}: {given}, in order of arrival {arrival}");
}

/// Tables that have seen nothing, runs that cost much by themselves, and runs that get dear by the token.
fn tables() -> [CostTable; 3] {
    let table = |microseconds: fn(u64) -> u64| {
        let mut costs = CostTable::default();
        for (rows, length) in [(1, 8), (1, 128), (2, 32), (4, 16), (8, 128), (32, 64)] {
            let took = Duration::from_micros(microseconds((rows * length) as u64));
            costs.record(rows, length, took);
        }
        costs
    };
    [CostTable::default(), table(|tokens| 5000 + tokens / 8), table(|tokens| tokens * tokens)]
}

#[test]
fn every_queue_of_few_rows_of_few_lengths_is_cut_as_cheaply_as_can_be() {
    const LENGTHS: [usize; 4] = [3, 16, 70, 512];
    for rows in 1..=5 {
        for number in 0..LENGTHS.len().pow(rows) {
            let digit = |at| number / LENGTHS.len().pow(at) % LENGTHS.len();
            let lengths: Vec<usize> = (0..rows).map(|at| LENGTHS[digit(at)]).collect();
            for costs in &tables() {
                for rows in [1, 2, 3, 32] {
                    for tokens in [1, 32, 140, 600, 4096] {
                        let bounds = RunBounds { rows, tokens };
                        check_is_cheapest(&lengths, costs, bounds);
                        check_all_runs(&lengths, costs, bounds);
                    }
                }
            }
        }
    }
}

/// Draws so many queues of at most nine rows, and tries every way to cut each.
fn check_short_queues(cases: u32) {
    let queues = (prop::collection::vec(1usize..600, 1..10), costs(), bounds());
    let config = ProptestConfig { cases, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&queues, |(lengths, costs, bounds)| {
        check_is_cheapest(&lengths, &costs, bounds);
        check_all_runs(&lengths, &costs, bounds);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn of_at_most_nine_rows_no_way_to_cut_is_cheaper() {
    check_short_queues(3_000);
}

#[test]
#[ignore = "takes minutes"]
fn of_at_most_nine_rows_no_way_to_cut_is_cheaper_in_a_hundred_thousand_queues() {
    check_short_queues(100_000);
}

/// Draws so many longer queues, and runs each of them down.
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

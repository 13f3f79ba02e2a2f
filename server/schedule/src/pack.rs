//! Which rows of unequal length share a run? Pure: lengths and costs go in, the rows of the next run come out.

use crate::cost::CostTable;

/// No more rows than the oldest so many are looked at.
pub const WINDOW: usize = 256;

/// Rows of a run where no bound is given: with more of them, a run of a text model gains nothing on a processor.
pub const USUAL_ROWS: usize = 32;

/// What one run may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// Most rows.
    pub rows: usize,
    /// Most tokens, padding included. A longer row runs alone.
    pub tokens: usize,
}

/// The rows that run next, ascending: of the cheapest way to cut everything that waits into runs, the run with row
/// `oldest` in it. `lengths` are those of the rows that wait, in tokens, at most [`WINDOW`] of them.
///
/// Each run takes as long as its rows and its longest row say. So of all ways to cut one is the cheapest in which each
/// run has neighbours by length.
pub fn pack(lengths: &[usize], oldest: usize, costs: &CostTable, bounds: RunBounds) -> Vec<usize> {
    Cut::cheapest(lengths, costs, bounds).run_with(oldest)
}

/// Seconds that the cheapest way to run them all takes, as [`pack`] sees it.
pub fn cheapest(lengths: &[usize], costs: &CostTable, bounds: RunBounds) -> f32 {
    Cut::cheapest(lengths, costs, bounds).seconds
}

/// Rows by length, cut into runs.
struct Cut {
    /// Places of the rows, by their length.
    sorted: Vec<usize>,
    /// Seconds of the cheapest way to run all of them.
    seconds: f32,
    /// Rows of its last run.
    last_run: Vec<usize>,
}

impl Cut {
    fn cheapest(lengths: &[usize], costs: &CostTable, bounds: RunBounds) -> Cut {
        let rows = lengths.len();
        let mut sorted: Vec<usize> = (0..rows).collect();
        sorted.sort_by_key(|it| lengths[*it]);
        // Seconds of the cheapest way to run all of them, all but the longest, and so on: from the end, so that what is
        // added up below lies in the same direction.
        let mut seconds = vec![0.0; rows + 1];
        let mut last_run = vec![0; rows + 1];
        let most = bounds.rows.clamp(1, rows.max(1));
        let (mut column, mut totals) = (vec![0.0; most], vec![0.0; most]);
        // How many numbers of the column hold, and for which length.
        let mut known = (0, 0);
        for end in 1..=rows {
            let length = lengths[sorted[end - 1]];
            let fitting = bounds.tokens / length.max(1);
            let most = bounds.rows.min(fitting).clamp(1, end);
            if known.0 != length || known.1 < most {
                costs.column(length, &mut column[..most]);
                known = (length, most);
            }
            // By the rows of the run that ends with the row before `end`.
            let totals = &mut totals[..most];
            let before = &seconds[rows - end + 1..][..most];
            for ((total, before), own) in totals.iter_mut().zip(before).zip(&column) {
                *total = before + own;
            }
            let best = least(totals);
            // Of equally cheap ways the one of fewer runs.
            let run = totals.iter().rposition(|it| *it <= best).unwrap_or(0) + 1;
            (seconds[rows - end], last_run[end]) = (best, run);
        }
        Cut { sorted, seconds: seconds[0], last_run }
    }

    fn run_with(&self, row: usize) -> Vec<usize> {
        let mut end = self.sorted.len();
        while 0 < end {
            let run = &self.sorted[end - self.last_run[end]..end];
            if run.contains(&row) {
                let mut run = run.to_vec();
                run.sort_unstable();
                return run;
            }
            end -= run.len();
        }
        Vec::new()
    }
}

/// The least of some numbers, of which several are compared at once.
fn least(numbers: &[f32]) -> f32 {
    let (eights, rest) = numbers.as_chunks::<8>();
    let mut least = [f32::INFINITY; 8];
    for eight in eights {
        for (least, it) in least.iter_mut().zip(eight) {
            *least = if *it < *least { *it } else { *least };
        }
    }
    least.iter().chain(rest).copied().fold(f32::INFINITY, f32::min)
}

#[cfg(test)]
mod tests;

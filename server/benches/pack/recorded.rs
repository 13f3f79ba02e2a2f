//! Recorded run times: an encoder of six layers of 384 (MiniLM-L6), FP32, on one thread of a server processor.

use std::time::Duration;

use schedule::cost::CostTable;

/// What a token costs where nothing is padded and runs are as large as is best, in microseconds.
pub const BEST: f64 = 111.0;

const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Microseconds of a padded token, by length and rows; 0 where nothing was measured.
const MICROSECONDS: [(usize, [u64; 6]); 7] = [
    (8, [377, 234, 173, 136, 121, 112]),
    (16, [235, 172, 135, 120, 111, 115]),
    (32, [189, 144, 125, 113, 119, 112]),
    (64, [138, 121, 112, 112, 114, 118]),
    (128, [125, 114, 113, 116, 124, 134]),
    (256, [123, 123, 140, 145, 148, 172]),
    (512, [172, 178, 178, 191, 198, 0]),
];

/// The table that has seen these.
pub fn costs() -> CostTable {
    let mut costs = CostTable::default();
    for (length, row) in MICROSECONDS {
        for (rows, microseconds) in ROWS.into_iter().zip(row).filter(|it| 0 < it.1) {
            let tokens = (rows * length) as u64;
            costs.record(rows, length, Duration::from_micros(tokens * microseconds));
        }
    }
    costs
}

//! Operators by which a graph tells what to expect of its runs. Pure.

/// Operators whose outputs have shapes that follow from what is in their inputs, or which run parts of the graph as
/// often as that says.
pub(crate) const OF_VALUES: [&str; 12] = [
    "BeamSearch",
    "Compress",
    "GreedySearch",
    "If",
    "Loop",
    "MoE",
    "NonMaxSuppression",
    "NonZero",
    "QMoE",
    "Sampling",
    "Scan",
    "Unique",
];

/// Those of them that run parts of the graph as often as values say, or one part or another: runs of the same shapes
/// may take any time. `Scan` runs its part once for each element, which the shapes say.
pub(crate) const OF_ANY_TIME: [&str; 5] = ["BeamSearch", "GreedySearch", "If", "Loop", "Sampling"];

/// Operators whose answer for a row is made with the other rows of the run. Trial values need not show it: where a row
/// has the largest number of all, its company changes nothing.
const OF_ALL_ROWS: [&str; 9] = [
    "Bernoulli",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeLinear",
    "DynamicQuantizeMatMul",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
];

/// It does the same where its scale is computed.
pub(crate) const QUANTIZE: &[u8] = b"QuantizeLinear";

/// Names of operators that matter are so long.
pub(crate) const LENGTHS: std::ops::RangeInclusive<u64> = 2..=23;

/// That operator, if it makes rows share something.
pub(crate) fn shared_by(operator: &[u8]) -> Option<&'static str> {
    OF_ALL_ROWS.into_iter().find(|it| it.as_bytes() == operator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_read() {
        let mut all = OF_ALL_ROWS.iter().chain(&OF_VALUES);
        assert!(all.all(|it| LENGTHS.contains(&(it.len() as u64))));
        assert!(OF_ANY_TIME.iter().all(|it| OF_VALUES.contains(it)));
        assert_eq!(shared_by(b"DynamicQuantizeLinear"), Some("DynamicQuantizeLinear"));
        assert_eq!(shared_by(b"MatMulInteger"), None);
    }
}

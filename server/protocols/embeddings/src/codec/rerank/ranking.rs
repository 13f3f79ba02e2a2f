//! The scores of a response, and their order.

use formats::vectors;
use inference::{error::Error, request::InferenceResponse, task::SCORE};

/// A score for each document, in the order of the request.
///
/// # Errors
/// When the response has none.
pub(super) fn scores(response: &InferenceResponse) -> Result<Vec<f32>, Error> {
    let bytes = vectors::output(response, SCORE)?.to_bytes();
    Ok(bytes.chunks_exact(size_of::<f32>()).map(bytemuck::pod_read_unaligned).collect())
}

/// The places of the documents with their scores, best first, those of equal score in their order; `most` of them.
pub(super) fn best(scores: &[f32], most: Option<usize>) -> Vec<(usize, f32)> {
    let mut ranking: Vec<(usize, f32)> = scores.iter().copied().enumerate().collect();
    ranking.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranking.truncate(most.unwrap_or(usize::MAX));
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_equal_ones_in_their_order() {
        let scores = [0.25, 0.75, 0.25, 1.0];
        assert_eq!(best(&scores, None), [(3, 1.0), (1, 0.75), (0, 0.25), (2, 0.25)]);
        assert_eq!(best(&scores, Some(1)), [(3, 1.0)]);
        assert_eq!(best(&scores, Some(9)).len(), 4);
    }
}

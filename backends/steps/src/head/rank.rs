//! Scores of texts to their ranking.

use crate::reply::Ranked;

/// The texts, best first, those of equal score in their order.
pub(crate) fn rank(scores: impl IntoIterator<Item = f32>) -> Vec<Ranked> {
    let scored = scores.into_iter().enumerate();
    let mut ranking: Vec<Ranked> = scored.map(|(index, score)| Ranked { index, score }).collect();
    ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_keep_their_order() {
        let order: Vec<usize> = rank([0.1, 0.7, 0.1, 0.9]).iter().map(|it| it.index).collect();
        assert_eq!(order, [3, 1, 0, 2]);
    }
}

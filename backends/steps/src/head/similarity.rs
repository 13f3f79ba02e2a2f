//! How like two vectors are: the greater, the more.

use crate::request::Similarity;

/// The likeness of two vectors of one length.
pub(crate) fn similarity(function: Similarity, a: &[f32], b: &[f32]) -> f32 {
    let pairs = || a.iter().zip(b);
    let dot = || pairs().map(|(a, b)| a * b).sum::<f32>();
    match function {
        Similarity::Cosine => dot() / (length(a) * length(b)),
        Similarity::Dot => dot(),
        Similarity::Euclidean => -pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt(),
        Similarity::Manhattan => -pairs().map(|(a, b)| (a - b).abs()).sum::<f32>(),
    }
}

fn length(a: &[f32]) -> f32 {
    a.iter().map(|it| it * it).sum::<f32>().sqrt().max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_its_formula() {
        let (a, b) = ([3.0, 4.0], [0.0, 2.0]);
        assert_eq!(similarity(Similarity::Cosine, &a, &b), 0.8);
        assert_eq!(similarity(Similarity::Dot, &a, &b), 8.0);
        assert_eq!(similarity(Similarity::Euclidean, &a, &b), -13f32.sqrt());
        assert_eq!(similarity(Similarity::Manhattan, &a, &b), -5.0);
        assert_eq!(similarity(Similarity::Cosine, &a, &[0.0, 0.0]), 0.0);
    }
}

//! Integrals of polynomials between 0 and 1, by sums over a few points. Pure.

/// Points and their weights: exact for polynomials of a degree below twice their number (Gauss and Legendre).
#[derive(Debug, Clone, PartialEq)]
pub struct Quadrature {
    /// In ascending order, between 0 and 1.
    pub points: Vec<f64>,
    /// A weight for each point. They add up to 1.
    pub weights: Vec<f64>,
}

/// Steps towards a root. Each doubles the digits that are right, from one or two at the beginning.
const STEPS: usize = 12;

impl Quadrature {
    /// The rule with so many points.
    pub fn new(count: usize) -> Quadrature {
        let (mut points, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for i in (0..count).rev() {
            let quarter = (i as f64 + 0.75) / (count as f64 + 0.5);
            let mut root = (std::f64::consts::PI * quarter).cos();
            for _ in 0..STEPS {
                let (value, slope) = legendre(count, root);
                root -= value / slope;
            }
            let (_, slope) = legendre(count, root);
            points.push(0.5 + root / 2.0);
            weights.push(1.0 / ((1.0 - root * root) * slope * slope));
        }
        Quadrature { points, weights }
    }
}

/// The polynomial of Legendre of that degree at `x`, and its slope.
fn legendre(degree: usize, x: f64) -> (f64, f64) {
    let (mut before, mut value) = (1.0, x);
    for n in 2..=degree {
        let n = n as f64;
        (before, value) = (value, ((2.0 * n - 1.0) * x * value - (n - 1.0) * before) / n);
    }
    (value, degree as f64 * (x * value - before) / (x * x - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_have_their_integrals() {
        for count in 1..=32 {
            let Quadrature { points, weights } = Quadrature::new(count);
            assert!(points.is_sorted() && 0.0 < points[0] && points[count - 1] < 1.0, "{count}");
            for power in 0..2 * count as i32 {
                let of_point = |(point, weight): (&f64, &f64)| weight * point.powi(power);
                let found: f64 = points.iter().zip(&weights).map(of_point).sum();
                let expected = 1.0 / f64::from(power + 1);
                assert!((found - expected).abs() < 1e-14, "{count} points, power {power}: {found}");
            }
        }
    }
}

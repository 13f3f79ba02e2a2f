//! The spectrum of a piece of sound: a Fourier transform of any length that is quick where it has small divisors.

use std::f64::consts::PI;

/// Real and imaginary part.
type Complex = (f64, f64);

/// Transforms of one length.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spectrum {
    /// The roots of one, in the order of their angles.
    roots: Vec<Complex>,
}

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

impl Spectrum {
    pub(crate) fn new(length: usize) -> Spectrum {
        let angle = |at: usize| -2.0 * PI * at as f64 / length as f64;
        Spectrum { roots: (0..length).map(|at| (angle(at).cos(), angle(at).sin())).collect() }
    }

    /// The squares of the amplitudes of the tones from zero to half the rate. `piece` is as long as the transform.
    pub(crate) fn power(&self, piece: &[f64]) -> Vec<f64> {
        let tones = self.tones(piece, 0, 1);
        tones.iter().take(piece.len() / 2 + 1).map(|(re, im)| re * re + im * im).collect()
    }

    /// The transform of every `step`-th value from `first` on.
    fn tones(&self, piece: &[f64], first: usize, step: usize) -> Vec<Complex> {
        let length = self.roots.len() / step;
        if !length.is_multiple_of(2) {
            let value = |at: usize| piece[first + at * step];
            let tone = |tone: usize| {
                let sum = |sum: Complex, at: usize| {
                    let root = self.roots[tone * at % length * step];
                    (sum.0 + value(at) * root.0, sum.1 + value(at) * root.1)
                };
                (0..length).fold((0.0, 0.0), sum)
            };
            return (0..length).map(tone).collect();
        }
        let even = self.tones(piece, first, step * 2);
        let odd = self.tones(piece, first + step, step * 2);
        let turned = |at: usize| times(odd[at], self.roots[at * step]);
        let lower =
            (0..length / 2).map(|at| (even[at].0 + turned(at).0, even[at].1 + turned(at).1));
        let upper =
            (0..length / 2).map(|at| (even[at].0 - turned(at).0, even[at].1 - turned(at).1));
        lower.chain(upper).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_has_all_power_at_its_place() {
        for length in [400, 512, 100, 9, 2] {
            let tone = length / 4;
            let piece = |at: usize| (2.0 * PI * (tone * at) as f64 / length as f64).cos();
            let piece: Vec<f64> = (0..length).map(piece).collect();
            let power = Spectrum::new(length).power(&piece);
            assert_eq!(power.len(), length / 2 + 1);
            let half = if tone == 0 { length as f64 } else { length as f64 / 2.0 };
            for (at, power) in power.iter().enumerate() {
                let expected = if at == tone { half * half } else { 0.0 };
                assert!((power - expected).abs() < 1e-6, "{length}: {at} {power}");
            }
        }
    }
}

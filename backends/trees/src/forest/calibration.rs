//! What a calibrated classifier of scikit-learn makes of what the estimator within it says: probabilities. Pure.

use crate::error::FormatError;

/// From what an estimator says of a row to the probabilities of all classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// What the estimator is asked for.
    said: Said,
    /// One for each class; of two classes one, which is that of the second.
    calibrators: Vec<Calibrator>,
}

/// What an estimator is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Said {
    /// `decision_function`: its sums, each divided by this.
    Sums {
        /// 2 where sums are kept doubled, else 1.
        divisor: f64,
    },
    /// `predict_proba`, for estimators that have no such function.
    Probabilities,
}

/// From a number that an estimator says of a class to how probable the class is.
#[derive(Debug, Clone, PartialEq)]
pub enum Calibrator {
    /// 1 / (1 + e^(slope x + intercept))
    Sigmoid {
        /// `a_`
        slope: f64,
        /// `b_`
        intercept: f64,
    },
    /// A curve that never falls.
    Isotonic(Isotonic),
}

/// Straight lines from one point to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Isotonic {
    x: Vec<f64>,
    y: Vec<f64>,
    is_single: bool,
}

impl Calibration {
    /// Checks that there are calibrators for two classes or more.
    ///
    /// # Errors
    /// There are two: of two classes there is only one.
    pub fn new(said: Said, calibrators: Vec<Calibrator>) -> Result<Calibration, FormatError> {
        match calibrators.len() {
            0 | 2 => Err(FormatError::new(format!(
                "{} calibrators, expected one for two classes, or one for each of three and more",
                calibrators.len()
            ))),
            _ => Ok(Calibration { said, calibrators }),
        }
    }

    /// What the estimator is asked for.
    pub fn said(&self) -> Said {
        self.said
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        match self.calibrators.len() {
            1 => 2,
            classes => classes,
        }
    }

    /// Adds the probabilities of one row, of which the estimator says this: a number for each class, or of two classes
    /// one that is the last.
    pub fn extend(&self, said: impl ExactSizeIterator<Item = f64>, into: &mut Vec<f64>) {
        let divisor = match self.said {
            Said::Sums { divisor } => divisor,
            Said::Probabilities => 1.0,
        };
        let start = into.len();
        let before = said.len().saturating_sub(self.calibrators.len());
        let said = said.skip(before).zip(&self.calibrators);
        into.extend(said.map(|(it, calibrator)| calibrator.probability(it / divisor)));
        if let [only] = into[start..] {
            into[start] = 1.0 - only;
            into.push(only);
        } else {
            let row = &mut into[start..];
            let sum: f64 = row.iter().sum();
            let share = 1.0 / row.len() as f64;
            row.iter_mut().for_each(|it| *it = if sum == 0.0 { share } else { *it / sum });
        }
        for it in &mut into[start..] {
            if 1.0 < *it && *it <= 1.0 + 1e-5 {
                *it = 1.0;
            }
        }
    }
}

impl Calibrator {
    fn probability(&self, said: f64) -> f64 {
        match self {
            Calibrator::Sigmoid { slope, intercept } => {
                1.0 / (1.0 + (slope * said + intercept).exp())
            }
            Calibrator::Isotonic(curve) => curve.at(said),
        }
    }
}

impl Isotonic {
    /// A curve through these points, computed in 32 bits where they are of 32 bits.
    ///
    /// # Errors
    /// There is none, the points do not ascend, or are no pairs.
    pub fn new(x: Vec<f64>, y: Vec<f64>, is_single: bool) -> Result<Isotonic, FormatError> {
        let ascends = x.windows(2).all(|it| it[0] < it[1]);
        match !x.is_empty() && x.len() == y.len() && ascends && x.iter().all(|it| it.is_finite()) {
            true => Ok(Isotonic { x, y, is_single }),
            false => Err(FormatError::new("the thresholds of an IsotonicRegression do not ascend")),
        }
    }

    /// What lies before the first point is there, and what lies behind the last one, too.
    fn at(&self, said: f64) -> f64 {
        let (x, y) = (&self.x, &self.y);
        let [first, .., last] = x[..] else { return y[0] };
        if said.is_nan() {
            return f64::NAN;
        }
        match self.is_single {
            // As SciPy interpolates: from the point before a number, also where it is that of the next.
            true => {
                let said = (said as f32).clamp(first as f32, last as f32);
                let hi = x.partition_point(|it| (*it as f32) < said).clamp(1, x.len() - 1);
                let [x0, x1, y0, y1] = [x[hi - 1], x[hi], y[hi - 1], y[hi]].map(|it| it as f32);
                let slope = (y1 - y0) / (x1 - x0);
                f64::from(slope * (said - x0) + y0)
            }
            // As NumPy does: a number that is a point is at its place.
            false => {
                let said = said.clamp(first, last);
                let lo = x.partition_point(|it| *it <= said).saturating_sub(1);
                if x[lo] == said || lo + 1 == x.len() {
                    return y[lo];
                }
                let slope = (y[lo + 1] - y[lo]) / (x[lo + 1] - x[lo]);
                slope * (said - x[lo]) + y[lo]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(calibration: &Calibration, said: &[f64]) -> Vec<f64> {
        let mut into = vec![9.0];
        calibration.extend(said.iter().copied(), &mut into);
        into.split_off(1)
    }

    fn curve(is_single: bool) -> Calibrator {
        let points = (vec![0.0, 1.0, 3.0], vec![0.25, 0.5, 0.5]);
        Calibrator::Isotonic(Isotonic::new(points.0, points.1, is_single).unwrap())
    }

    #[test]
    fn of_two_classes_the_last_number_counts() {
        let sigmoid = Calibrator::Sigmoid { slope: -1.0, intercept: 0.0 };
        let calibration = |said| Calibration::new(said, vec![sigmoid.clone()]).unwrap();
        assert_eq!(of(&calibration(Said::Probabilities), &[5.0, 0.0]), [0.5, 0.5]);
        let halved = calibration(Said::Sums { divisor: 2.0 });
        assert_eq!(of(&halved, &[2.0]), of(&calibration(Said::Probabilities), &[1.0]));
    }

    #[test]
    fn a_curve_is_level_on_both_sides_of_its_points() {
        for is_single in [false, true] {
            let calibration =
                Calibration::new(Said::Probabilities, vec![curve(is_single)]).unwrap();
            let second = |said: f64| of(&calibration, &[said])[1];
            let (low, high) = (second(-7.0), second(1e9));
            assert_eq!([low, second(0.0), second(0.5), second(1.0)], [0.25, 0.25, 0.375, 0.5]);
            assert_eq!([second(2.0), second(3.0), high], [0.5; 3]);
            assert!(second(f64::NAN).is_nan());
        }
        let lone = Isotonic::new(vec![4.0], vec![0.75], false).unwrap();
        assert_eq!(lone.at(-1.0), 0.75);
        assert!(Isotonic::new(vec![1.0, 1.0], vec![0.0, 1.0], false).is_err());
        assert!(Isotonic::new(vec![], vec![], false).is_err());
    }

    #[test]
    fn of_several_classes_probabilities_add_up_and_are_equal_where_all_are_zero() {
        let flat = |y| Calibrator::Isotonic(Isotonic::new(vec![0.0], vec![y], false).unwrap());
        let calibration = |y: [f64; 3]| {
            let all = y.into_iter().map(flat).collect();
            of(&Calibration::new(Said::Probabilities, all).unwrap(), &[0.0; 3])
        };
        assert_eq!(calibration([0.5, 0.5, 1.0]), [0.25, 0.25, 0.5]);
        assert_eq!(calibration([0.0; 3]), [1.0 / 3.0; 3]);
        let two = vec![flat(0.5), flat(0.5)];
        assert!(Calibration::new(Said::Probabilities, two).is_err());
    }
}

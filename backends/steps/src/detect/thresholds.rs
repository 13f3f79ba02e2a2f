//! Which boxes are kept.

/// Boxes that may be asked for. Each one that is kept is compared with all that come after it.
pub const MOST_DETECTIONS: usize = 3_000;

/// What a box must have in order to be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// A box has a score above this one.
    pub confidence: f32,
    /// Of two boxes of one class that overlap by more than this share of their union, the better one stays. In
    /// double precision, as the reference compares.
    pub iou: f64,
    /// Most boxes, the best ones; at most [`MOST_DETECTIONS`]. `None`: as many as is usual, which is 300 for
    /// Ultralytics' models and all queries for those with queries.
    pub max_detections: Option<usize>,
    /// Do boxes of different classes displace each other?
    pub agnostic: bool,
}

impl Thresholds {
    /// What Ultralytics' prediction has where nothing is said.
    pub const YOLO: Thresholds =
        Thresholds { confidence: 0.25, iou: 0.7, max_detections: None, agnostic: false };

    /// What Hugging Face's pipeline has where nothing is said. There is nothing to suppress in boxes of queries.
    pub const QUERIES: Thresholds = Thresholds { confidence: 0.5, ..Thresholds::YOLO };

    /// What is wrong with a value, by the name of its parameter.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        let share = 0.0..=1.0;
        if !share.contains(&f64::from(self.confidence)) {
            return Some(("confidence", format!("{} is not between 0 and 1", self.confidence)));
        }
        if !share.contains(&self.iou) {
            return Some(("iou", format!("{} is not between 0 and 1", self.iou)));
        }
        match self.max_detections {
            Some(most) if most > MOST_DETECTIONS => {
                Some(("max_detections", format!("{most} is more than {MOST_DETECTIONS}")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_of_what_they_may_be_are_named() {
        let usual = Thresholds::YOLO;
        assert_eq!(usual.problem(), None);
        let named = |it: Thresholds| it.problem().map(|it| it.0);
        assert_eq!(named(Thresholds { confidence: f32::NAN, ..usual }), Some("confidence"));
        assert_eq!(named(Thresholds { confidence: -0.1, ..usual }), Some("confidence"));
        assert_eq!(named(Thresholds { iou: 1.5, ..usual }), Some("iou"));
        let many = Thresholds { max_detections: Some(3_001), ..usual };
        assert_eq!(many.problem().unwrap().1, "3001 is more than 3000");
        assert_eq!(named(Thresholds { max_detections: Some(0), ..usual }), None);
    }
}

//! Boxes by centre and by corners, and their way from a graph's input back to the image as it was sent.

/// One thing that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// Number of the class.
    pub class: usize,
    /// Between zero and one.
    pub score: f32,
    /// Left, top, right and bottom in pixels of the image as it was sent.
    pub corners: [f32; 4],
}

impl Detection {
    /// The corners as the reference's JSON has them: cut toward zero.
    pub fn whole_corners(&self) -> [i32; 4] {
        self.corners.map(|it| it as i32)
    }
}

/// How an image lies in a graph's input: scaled, with a border around it. Pairs are x and y, or width and height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed {
    /// Pixels of the scaled image for each of the image as it was sent.
    pub gain: [f32; 2],
    /// Width of the border on the left, and height of that on the top.
    pub padding: [f32; 2],
    /// The image as it was sent.
    pub sent: [u32; 2],
}

impl Placed {
    /// An image in an input of a fixed size: one factor, each side rounded, the border split in two halves of which
    /// the right and the lower one are never smaller by more than a pixel.
    ///
    /// The gain of each side is that of the rounded side, as in the reference from 8.4 on; older ones take the factor
    /// itself, which moves a box by a fraction of a pixel. No side is empty.
    pub fn of(sent: [u32; 2], input: [u32; 2]) -> Placed {
        let sides = [sent[0].max(1), sent[1].max(1)].map(f64::from);
        let input = input.map(f64::from);
        let factor = (input[0] / sides[0]).min(input[1] / sides[1]);
        let scaled = sides.map(|it| (it * factor).round_ties_even().max(1.0));
        Placed {
            gain: [(scaled[0] / sides[0]) as f32, (scaled[1] / sides[1]) as f32],
            padding: std::array::from_fn(|at| {
                ((input[at] - scaled[at]) / 2.0 - 0.1).round_ties_even() as f32
            }),
            sent,
        }
    }

    /// Corners in the input → corners in the image as it was sent, within its borders.
    pub(super) fn back(&self, corners: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|at| {
            let side = at % 2;
            let moved = (corners[at] - self.padding[side]) / self.gain[side];
            // No `clamp`, which panics where the bound is no number.
            moved.max(0.0).min(self.sent[side] as f32)
        })
    }
}

/// Centre, width and height → corners.
pub(super) fn corners_of([x, y, width, height]: [f32; 4]) -> [f32; 4] {
    let (half_width, half_height) = (width / 2.0, height / 2.0);
    [x - half_width, y - half_height, x + half_width, y + half_height]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_border_is_split_and_each_side_is_rounded() {
        let wide = Placed::of([1920, 1080], [640, 640]);
        assert_eq!((wide.gain, wide.padding), ([1.0 / 3.0, 1.0 / 3.0], [0.0, 140.0]));
        // 426.67 is 427: the border is 213, of which 106 are on the left.
        let high = Placed::of([480, 720], [640, 640]);
        assert_eq!((high.gain[1], high.padding), (640.0 / 720.0, [106.0, 0.0]));
        assert_eq!(high.gain[0], 427.0 / 480.0);
        // One that is smaller grows.
        assert_eq!(Placed::of([10, 20], [640, 640]).gain, [32.0, 32.0]);
        let line = Placed::of([4000, 1], [64, 64]);
        assert_eq!((line.gain[1], line.padding), (1.0, [0.0, 31.0]));
    }

    #[test]
    fn corners_go_back_to_the_image_and_end_at_its_borders() {
        let letterbox = Placed::of([1920, 1080], [640, 640]);
        let back = letterbox.back([-5.0, 140.0, 320.0, 700.0]);
        assert_eq!(back, [0.0, 0.0, 960.0, 1080.0]);
        let detection = Detection { class: 0, score: 1.0, corners: [-1.9, 0.9, 3.0, 7.999] };
        assert_eq!(detection.whole_corners(), [-1, 0, 3, 7]);
    }

    #[test]
    fn a_box_by_its_centre_has_its_corners_half_a_side_from_there() {
        assert_eq!(corners_of([10.0, 20.0, 4.0, 6.0]), [8.0, 17.0, 12.0, 23.0]);
    }
}

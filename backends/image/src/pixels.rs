//! What becomes of an image: values, and how they lie to the image that was sent.

/// The shape of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputShape {
    /// `[3, height, width]` for every image.
    Fixed([usize; 3]),
    /// It depends on the image.
    Varies,
}

/// The values of one image.
#[derive(Debug, Clone, PartialEq)]
pub struct Pixels {
    /// `[3, height, width]`.
    pub shape: [usize; 3],
    /// As many as the shape says, channel by channel.
    pub values: Vec<f32>,
    /// Height and width of the part that is no padding, from the upper left, where the graph is given a mask.
    pub mask: Option<[usize; 2]>,
    /// Height and width of the image as it was sent, upright.
    pub size: [usize; 2],
    /// Where a letterbox has put the image.
    pub placement: Option<Placement>,
}

/// Where a letterbox has put an image, and how large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// What sides were multiplied by.
    pub gain: f64,
    /// Columns of grey in front of the image.
    pub left: usize,
    /// Rows of grey above the image.
    pub top: usize,
}

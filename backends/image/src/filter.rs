//! The filters of Pillow's `resize`, as weights by distance.

use std::f64::consts::PI;

/// A filter, with the number that Pillow and the field `resample` of processors have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// 0: the pixel that lies there.
    Nearest,
    /// 1
    Lanczos,
    /// 2
    Bilinear,
    /// 3
    Bicubic,
    /// 4
    Box,
    /// 5
    Hamming,
}

impl Filter {
    /// All filters, in the order of their numbers.
    pub const ALL: [Filter; 6] = [
        Filter::Nearest,
        Filter::Lanczos,
        Filter::Bilinear,
        Filter::Bicubic,
        Filter::Box,
        Filter::Hamming,
    ];

    /// The filter with this number in Pillow.
    pub fn from_number(number: u64) -> Option<Filter> {
        Filter::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The filter of this name, as timm and torchvision have it.
    pub fn from_name(name: &str) -> Option<Filter> {
        Filter::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Filter::Nearest => "nearest",
            Filter::Lanczos => "lanczos",
            Filter::Bilinear => "bilinear",
            Filter::Bicubic => "bicubic",
            Filter::Box => "box",
            Filter::Hamming => "hamming",
        }
    }

    /// How far a weight other than zero can be from the centre, in pixels of the smaller image.
    pub(crate) fn support(self) -> f64 {
        match self {
            Filter::Nearest => 0.0,
            Filter::Box => 0.5,
            Filter::Bilinear | Filter::Hamming => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    /// The weight at this distance. The order of operations is Pillow's, so that roundings are the same.
    pub(crate) fn weight(self, x: f64) -> f64 {
        match self {
            Filter::Nearest => 0.0,
            Filter::Box => f64::from(u8::from(x > -0.5 && x <= 0.5)),
            Filter::Bilinear => (1.0 - x.abs()).max(0.0),
            Filter::Bicubic => bicubic(x.abs()),
            Filter::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Filter::Lanczos => 0.0,
            Filter::Hamming => hamming(x.abs()),
        }
    }
}

fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

fn hamming(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    if x >= 1.0 {
        return 0.0;
    }
    let x = x * PI;
    x.sin() / x * (0.54 + 0.46 * x.cos())
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let x = x * PI;
    x.sin() / x
}

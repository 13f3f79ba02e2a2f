//! Which implementation of the two passes runs. All of them give the same bytes.

#[cfg(not(target_arch = "x86_64"))]
use super::portable;
#[cfg(target_arch = "x86_64")]
use super::{avx2, sse2};
use crate::{part::View, rgb::Rgb, weights::Weights};

/// Each row at the width of the weights.
#[cfg(target_arch = "x86_64")]
pub(crate) fn across(image: &View<'_>, weights: &Weights) -> Rgb {
    avx2::across(image, weights).unwrap_or_else(|| sse2::across(image, weights))
}

/// Each column at the height of the weights.
#[cfg(target_arch = "x86_64")]
pub(crate) fn down(image: &View<'_>, weights: &Weights) -> Rgb {
    avx2::down(image, weights).unwrap_or_else(|| sse2::down(image, weights))
}

/// Each row at the width of the weights.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn across(image: &View<'_>, weights: &Weights) -> Rgb {
    portable::across(image, weights)
}

/// Each column at the height of the weights.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn down(image: &View<'_>, weights: &Weights) -> Rgb {
    portable::down(image, weights)
}

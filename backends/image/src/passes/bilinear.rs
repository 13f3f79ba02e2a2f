//! Weighted sums of two neighbours, first along rows, then along columns.

#[cfg(target_arch = "x86_64")]
use super::bilinear_avx2;
use super::bilinear_portable;
use crate::{neighbours::Pair, part::View, rgb::Rgb};

/// One pixel for each of `columns` and `rows`.
pub(crate) fn bilinear(image: &View<'_>, columns: &[Pair], rows: &[Pair]) -> Rgb {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = bilinear_avx2::bilinear(image, columns, rows) {
        return found;
    }
    bilinear_portable::bilinear(image, columns, rows)
}

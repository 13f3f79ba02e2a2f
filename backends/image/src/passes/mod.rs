//! Sums of weighted bytes along rows and columns, by the widest instructions that the processor has.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod bilinear;
#[cfg(target_arch = "x86_64")]
mod bilinear_avx2;
mod bilinear_portable;
mod choice;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg(test)]
mod tests;
mod two_rows;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use {
    bilinear::bilinear,
    choice::{across, down},
};

//! Sums of weighted bytes along rows and columns, by the widest instructions that the processor has.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod choice;
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

pub(crate) use choice::{across, down};

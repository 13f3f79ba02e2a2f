//! Forests of any library: what readers produce, the checks, and the form that is walked.
//!
//! A reader fills a [`document::Document`], which may be as wrong as its file. [`check`] finds that out, and [`layout`]
//! makes a [`packed::Forest`] of what is sound.

pub mod calibration;
pub mod category;
pub mod check;
pub mod document;
pub mod double;
pub mod explained;
pub mod layout;
mod leaf;
pub mod packed;
mod quadrature;
pub mod shap;
pub mod single;
pub mod sum;
#[cfg(test)]
pub(crate) mod testing;
mod walk;

//! Codecs.
pub mod negotiate;
pub mod npy;

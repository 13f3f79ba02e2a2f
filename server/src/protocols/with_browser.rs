//! What a person's browser asks.

pub use browser::{Browser as Pages, Browser as PAGES};

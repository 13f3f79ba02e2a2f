//! What a person's browser asks.

pub use browser::Browser as Pages;

/// Its addresses.
pub fn pages() -> Pages {
    Pages::new()
}

//! A number that goes up and down.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// More of it.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount.cast_signed(), Relaxed);
    }

    /// Less of it.
    pub fn sub(&self, amount: u64) {
        self.0.fetch_sub(amount.cast_signed(), Relaxed);
    }

    /// That much of it.
    pub fn set(&self, amount: u64) {
        self.0.store(amount.cast_signed(), Relaxed);
    }

    /// What is shown. A moment below zero, where two threads crossed, is zero.
    pub fn get(&self) -> u64 {
        u64::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }
}

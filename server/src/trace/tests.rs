//! Facts about which requests are traced, and about what is written of them.

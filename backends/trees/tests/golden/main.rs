//! Forests as the libraries wrote them, and what the libraries answer, in `tests/fixtures/forests`.

mod contributions;
mod lightgbm;
mod sklearn;
mod support;
mod treelite;
mod xgboost;

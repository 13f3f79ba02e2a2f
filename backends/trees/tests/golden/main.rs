//! Forests as the libraries wrote them, and what the libraries answer, in `tests/fixtures/forests`.

mod composed;
mod contributions;
mod lightgbm;
mod sklearn;
mod support;
mod treelite;
mod xgboost;

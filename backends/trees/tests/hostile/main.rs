//! Files that were made to do harm: each is refused in no time, with little memory and a small stack, and the error
//! says where the harm is.

mod amplification;
mod forests;
mod lightgbm;
mod mutations;
mod support;
mod ubj;

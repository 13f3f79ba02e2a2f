//! For cargo-fuzz: the target that the variable `FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use muster_fuzz::{
    oracle,
    targets::{self, Target},
};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    targets::ALL.iter().find(|it| it.name == name).expect("FUZZ_TARGET names a target")
});

fuzz_target!(|data: &[u8]| {
    oracle::run(&TARGET, data);
});

//! Texts that no memory stands behind: each is a small block of C++'s, and together they are more than the process may
//! take. In a process of its own, since all libraries of the process are refused blocks.
#![cfg(target_env = "gnu")]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use backend::{BackendError, Shape, Tensor};
use support::{instance, run};

#[global_allocator]
static HEAP: environment::OwnHeap = environment::OwnHeap;

/// What this process may take.
const MEMORY: u64 = 512 << 20;

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn texts_that_together_are_more_than_there_is_fail_their_run_and_nothing_else() {
    environment::refuse_blocks_beyond(|| Some(MEMORY.saturating_sub(resident())));
    let mut instance = instance("repeated");
    let mut copies = |count: i64| {
        let text = Tensor::from_strings(Shape::new(&[1]), ["a text of some length"]).unwrap();
        let count = Tensor::from_vec(Shape::new(&[1]), vec![count]).unwrap();
        run(&mut *instance, &[("x", text), ("count", count)], &["y"])
    };
    let many = 10_000_000;
    for _ in 0..3 {
        let refused = copies(many).unwrap_err();
        assert!(matches!(refused, BackendError::OutOfMemory(_)), "{refused:?}");
        let made = copies(many / 10).unwrap();
        assert_eq!(*made[0].to_bytes(), (many / 10).to_le_bytes());
    }
}

//! What sessions with threads of their own cost while nobody asks anything. In a process of its own, since
//! it looks at the processor time of the whole process.

mod support;

use std::{thread, time::Duration};

use backend::Device;
use support::{floats, load_with, processor_ticks, run};

#[test]
fn threads_of_a_session_are_idle_after_a_run() {
    let model = load_with("matmul", &[("intra_op_thread_count", "2")]);
    let mut instance = model.instantiate(Device::Cpu).unwrap();
    let side = 512;
    let matrix = floats(&[side, side], &vec![1.0; side * side]);
    let inputs = [("a", matrix.clone()), ("b", matrix)];
    for _ in 0..20 {
        run(&mut *instance, &inputs, &["c"]).unwrap();
    }
    let before = processor_ticks();
    thread::sleep(Duration::from_secs(1));
    let used = processor_ticks() - before;
    assert!(used <= 1, "{used} ticks of 10 ms in an idle second");
}

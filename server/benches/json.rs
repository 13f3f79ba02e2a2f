//! Nanoseconds per number of JSON, in and out, beside serde_json's typed path: `cargo bench --bench json`.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use backend::{DataType, Shape, Tensor};
use muster::protocol::{
    elements::TensorBuilder,
    json::{
        BytesForm, Reader,
        write::{self, BytesAs},
    },
};

/// 1.6 MB of FP32.
const NUMBERS: usize = 400_000;

fn main() {
    let floats = floats();
    let doubles: Vec<f64> = floats.iter().map(|&it| f64::from(it)).collect();
    let short = text(floats.iter().map(|it| format!("{it}")));
    let long = text(doubles.iter().map(|it| format!("{it:?}")));
    let rounded = text(floats.iter().map(|it| format!("{it:.4}")));
    println!("{:32}{:>10}{:>12}", "ns/number", "muster", "serde_json");
    for (name, body) in [
        ("in, FP32, 4 decimals", &rounded),
        ("in, FP32, shortest", &short),
        ("in, FP32, 17 digits", &long),
    ] {
        let ours = time(|| read(body, DataType::Fp32).elements());
        let theirs = time(|| serde_json::from_slice::<Vec<f32>>(body).map_or(0, |it| it.len()));
        report(name, ours, theirs);
    }
    let ours = time(|| read(&long, DataType::Fp64).elements());
    let theirs = time(|| serde_json::from_slice::<Vec<f64>>(&long).map_or(0, |it| it.len()));
    report("in, FP64, 17 digits", ours, theirs);

    let integers: Vec<i64> = floats.iter().map(|it| (it * 1e5) as i64).collect();
    let body = text(integers.iter().map(i64::to_string));
    let ours = time(|| read(&body, DataType::Int64).elements());
    let theirs = time(|| serde_json::from_slice::<Vec<i64>>(&body).map_or(0, |it| it.len()));
    report("in, INT64", ours, theirs);

    let tensor = Tensor::from_vec(Shape::new(&[NUMBERS]), floats.clone()).expect("as many");
    let theirs = time(|| serde_json::to_vec(&floats).map_or(0, |it| it.len()));
    report("out, FP32", time(|| written(&tensor)), theirs);
    let tensor = Tensor::from_vec(Shape::new(&[NUMBERS]), doubles.clone()).expect("as many");
    let theirs = time(|| serde_json::to_vec(&doubles).map_or(0, |it| it.len()));
    report("out, FP64", time(|| written(&tensor)), theirs);
    let tensor = Tensor::from_vec(Shape::new(&[NUMBERS]), integers.clone()).expect("as many");
    let theirs = time(|| serde_json::to_vec(&integers).map_or(0, |it| it.len()));
    report("out, INT64", time(|| written(&tensor)), theirs);
}

/// Values like those of a normalised image, from a fixed pseudo-random sequence.
fn floats() -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 16_777_216.0 * 4.0 - 2.0
    };
    (0..NUMBERS).map(|_| next()).collect()
}

fn text(numbers: impl Iterator<Item = String>) -> Vec<u8> {
    format!("[{}]", numbers.collect::<Vec<_>>().join(", ")).into_bytes()
}

fn read(body: &[u8], dtype: DataType) -> Tensor {
    let mut builder = TensorBuilder::new(dtype, Some(NUMBERS));
    Reader::document(body, |it| it.elements(&mut builder, BytesForm::Text)).expect("sound");
    builder.finish(Shape::new(&[NUMBERS])).expect("as many")
}

fn written(tensor: &Tensor) -> usize {
    let mut out = Vec::new();
    write::flat(&mut out, tensor, BytesAs::Text).expect("numbers");
    out.len()
}

/// The fastest of many runs: on a shared machine the others measure its neighbours.
fn time(mut run: impl FnMut() -> usize) -> Duration {
    let one = |_| {
        let started = Instant::now();
        black_box(run());
        started.elapsed()
    };
    (0..30).map(one).min().unwrap_or_default()
}

fn report(name: &str, ours: Duration, theirs: Duration) {
    let per_number = |it: Duration| it.as_nanos() as f64 / NUMBERS as f64;
    println!("{name:32}{:>10.1}{:>12.1}", per_number(ours), per_number(theirs));
}

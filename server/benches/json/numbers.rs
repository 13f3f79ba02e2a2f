//! Nanoseconds per number, for bodies of as many numbers as an image of 3 × 224 × 224 has.

use std::{fmt::Display, hint::black_box};

use backend::{DataType, Element, Shape, Tensor};
use formats::{
    elements::TensorBuilder,
    json::{
        BytesForm, JsonReader,
        write::{self, BytesAs},
    },
};
use inference::grant::Grant;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::measure::compare;

const NUMBERS: usize = 150_528;

/// What a program with a typed structure has.
#[derive(Serialize, Deserialize)]
struct Typed<T> {
    data: Vec<T>,
}

pub fn run() {
    println!(
        "| {NUMBERS} numbers | bytes each | muster ns/number | serde_json ns/number | ratio |"
    );
    println!("|---|--:|--:|--:|--:|");
    let floats = floats();
    let integers = integers();
    for (name, values) in &floats {
        read(&format!("FP32 in, {name}, shortest"), values, |it| {
            serde_json::to_string(it).unwrap_or_default()
        });
    }
    for (name, values) in &floats {
        read(&format!("FP32 in, {name}, as FP64"), values, |it| format!("{:?}", f64::from(*it)));
    }
    let wide: Vec<f64> = floats.iter().take(1).flat_map(|it| &it.1).map(|&it| it.into()).collect();
    read("FP64 in, normalised, 17 digits", &wide, |it| format!("{it:?}"));
    for (name, values) in &integers {
        read(&format!("INT64 in, {name}"), values, i64::to_string);
    }
    let narrow: Vec<i32> =
        integers.iter().take(1).flat_map(|it| &it.1).map(|&it| it as i32).collect();
    read("INT32 in, 0..255", &narrow, i32::to_string);
    for (name, values) in &floats {
        write(&format!("FP32 out, {name}"), values);
    }
    write("FP64 out, normalised", &wide);
    for (name, values) in &integers {
        write(&format!("INT64 out, {name}"), values);
    }
    write("INT32 out, 0..255", &narrow);
}

/// Xorshift from a fixed beginning: bits, and numbers from 0 to 1.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 16_777_216.0
    }
}

fn floats() -> Vec<(&'static str, Vec<f32>)> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut fill = |next: fn(&mut Random) -> f32| (0..NUMBERS).map(|_| next(&mut random)).collect();
    vec![
        ("normalised", fill(|it| it.unit() * 4.0 - 2.0)),
        ("probabilities", fill(|it| (it.unit() * 12.0 - 12.0).exp())),
        ("pixels 0.xxxxx", fill(|it| (it.unit() * 1e5).round() / 1e5)),
        ("whole 0..255", fill(|it| (it.bits() >> 56) as f32)),
        ("any bits", fill(finite)),
    ]
}

fn finite(random: &mut Random) -> f32 {
    loop {
        let value = f32::from_bits((random.bits() >> 32) as u32);
        if value.is_finite() {
            return value;
        }
    }
}

fn integers() -> Vec<(&'static str, Vec<i64>)> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut fill =
        |shift: u32| (0..NUMBERS).map(|_| random.bits().cast_signed() >> shift).collect();
    let pixels: Vec<i64> = fill(56);
    vec![
        ("0..255", pixels.iter().map(|it| it & 255).collect()),
        ("tokens to 65535", fill(47)),
        ("any bits", fill(0)),
    ]
}

fn read<T: Element + DeserializeOwned>(name: &str, values: &[T], text: impl Fn(&T) -> String) {
    let texts: Vec<String> = values.iter().map(text).collect();
    let body = format!("{{\"data\":[{}]}}", texts.join(", ")).into_bytes();
    let ours = || decoded(black_box(&body), T::DTYPE);
    let theirs = || serde_json::from_slice::<Typed<T>>(black_box(&body)).ok();
    row(name, &body, &compare(1, ours, theirs));
}

fn decoded(body: &[u8], dtype: DataType) -> Option<Tensor> {
    let grant = Grant::uncounted();
    let mut builder = TensorBuilder::new(dtype, Some(NUMBERS), &grant);
    let read = JsonReader::document(body, &grant, |reader| {
        reader.object(|reader, _| reader.elements(&mut builder, BytesForm::Text))
    });
    read.ok().and_then(|()| builder.finish(Shape::new(&[NUMBERS])).ok())
}

fn write<T: Element + Send + Serialize + Display>(name: &str, values: &[T]) {
    let typed = Typed { data: values.to_vec() };
    let tensor = Tensor::from_vec(Shape::new(&[NUMBERS]), values.to_vec()).expect("as many");
    let body = encoded(&tensor);
    row(
        name,
        &body,
        &compare(1, || encoded(black_box(&tensor)), || serde_json::to_vec(black_box(&typed)).ok()),
    );
}

fn encoded(tensor: &Tensor) -> Vec<u8> {
    let mut out = vec![b'{'];
    write::key(&mut out, "data");
    write::flat(&mut out, tensor, BytesAs::Text).expect("numbers");
    out.push(b'}');
    out
}

fn row(name: &str, body: &[u8], compared: &crate::measure::Compared) {
    let each = |it: f64| it / NUMBERS as f64;
    println!(
        "| {name} | {:.1} | {:.1} | {:.1} | {:.2} |",
        each(body.len() as f64),
        each(compared.ours),
        each(compared.theirs),
        compared.ratio
    );
}

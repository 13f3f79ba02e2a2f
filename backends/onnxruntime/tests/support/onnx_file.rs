//! Writes ONNX files from scratch: as much of its protobuf as a chain of layers with weights needs.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

/// The file of weights that a model may have.
pub(crate) const BESIDE: &str = "weights.data";

/// A message of protobuf, encoded field by field.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Message {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn text(self, field: u64, value: &str) -> Message {
        self.bytes(field, value.as_bytes())
    }

    fn message(self, field: u64, value: Message) -> Message {
        self.bytes(field, &value.0)
    }
}

/// A graph of floats under construction. Field numbers are those of `onnx.proto`.
#[derive(Default)]
pub(crate) struct Graph {
    body: Message,
    /// Each weight is unlike all others.
    seed: u64,
    /// The weights so far, where they go to a file of their own.
    beside: Option<Vec<u8>>,
}

impl Graph {
    pub(crate) fn new(seed: u64) -> Graph {
        Graph { body: Message::default().text(2, "graph"), seed, beside: None }
    }

    /// The same, with its weights in a file [`BESIDE`] the model's.
    pub(crate) fn with_weights_beside(seed: u64) -> Graph {
        Graph { beside: Some(Vec::new()), ..Graph::new(seed) }
    }

    /// One operator. `ints` are its attributes that are lists of whole numbers.
    pub(crate) fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        ints: &[(&str, &[u64])],
    ) {
        let mut node = Message::default();
        for input in inputs {
            node = node.text(1, input);
        }
        node = node.text(2, output).text(3, output).text(4, operator);
        for (name, values) in ints {
            let mut attribute = Message::default().text(1, name);
            for value in *values {
                attribute = attribute.number(8, *value);
            }
            node = node.message(5, attribute.number(20, 7));
        }
        self.body = std::mem::take(&mut self.body).message(1, node);
    }

    /// A weight of random floats around zero, of about the size that keeps a signal's size.
    pub(crate) fn weight(&mut self, name: &str, dims: &[u64]) {
        let count: u64 = dims.iter().product();
        let inputs: u64 = dims.iter().product::<u64>() / dims.iter().max().copied().unwrap_or(1);
        let scale = (3.0 / inputs.max(1) as f32).sqrt();
        let mut state = self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        self.seed += 1;
        let mut data = Vec::with_capacity(4 * count as usize);
        for _ in 0..count {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let unit = (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
            data.extend_from_slice(&(unit * scale).to_le_bytes());
        }
        let mut tensor = Message::default();
        for dim in dims {
            tensor = tensor.number(1, *dim);
        }
        let tensor = tensor.number(2, 1).text(8, name);
        let tensor = match &mut self.beside {
            None => tensor.bytes(9, &data),
            Some(file) => {
                let (offset, length) = (file.len().to_string(), data.len().to_string());
                file.extend_from_slice(&data);
                let entry = |key, value| Message::default().text(1, key).text(2, value);
                let tensor = tensor.message(13, entry("location", BESIDE));
                let tensor = tensor.message(13, entry("offset", &offset));
                tensor.message(13, entry("length", &length)).number(14, 1)
            }
        };
        self.body = std::mem::take(&mut self.body).message(5, tensor);
    }

    /// Names an input (`field` 11) or output (12); the first dimension is open.
    fn port(&mut self, field: u64, name: &str, dims: &[u64]) {
        let mut shape = Message::default().message(1, Message::default().text(2, "rows"));
        for dim in dims {
            shape = shape.message(1, Message::default().number(1, *dim));
        }
        let tensor = Message::default().number(1, 1).message(2, shape);
        let port =
            Message::default().text(1, name).message(2, Message::default().message(1, tensor));
        self.body = std::mem::take(&mut self.body).message(field, port);
    }

    /// Writes the model: from `x` to `y`, both `[rows, ..]`.
    pub(crate) fn write(mut self, path: &Path, x: &[u64], y: &[u64]) -> std::io::Result<()> {
        if let (Some(weights), Some(folder)) = (&self.beside, path.parent()) {
            fs::write(folder.join(BESIDE), weights)?;
        }
        self.port(11, "x", x);
        self.port(12, "y", y);
        let opset = Message::default().text(1, "").number(2, 17);
        let head = Message::default().number(1, 9).message(8, opset);
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&head.0)?;
        let mut begin = Message::default();
        begin.varint(7 << 3 | 2);
        begin.varint(self.body.0.len() as u64);
        file.write_all(&begin.0)?;
        file.write_all(&self.body.0)?;
        file.flush()
    }
}

/// `layers` matrices of `side × side`, each followed by a bias and a Relu. Input and output `[rows, side]`.
pub(crate) fn dense(path: &Path, layers: u64, side: u64, seed: u64) -> std::io::Result<()> {
    dense_in(Graph::new(seed), path, layers, side)
}

/// The same, in that graph.
pub(crate) fn dense_in(
    mut graph: Graph,
    path: &Path,
    layers: u64,
    side: u64,
) -> std::io::Result<()> {
    let mut before = "x".to_owned();
    for layer in 0..layers {
        let name = |it: &str| format!("{it}{layer}");
        let after = if layer + 1 == layers { "y".to_owned() } else { name("r") };
        graph.weight(&name("w"), &[side, side]);
        graph.weight(&name("b"), &[side]);
        graph.node("MatMul", &[&before, &name("w")], &name("m"), &[]);
        graph.node("Add", &[&name("m"), &name("b")], &name("a"), &[]);
        graph.node("Relu", &[&name("a")], &after, &[]);
        before = after;
    }
    graph.write(path, &[side], &[side])
}

/// `layers` convolutions of 3 × 3, each followed by a Relu, over images of `channels × side × side`.
pub(crate) fn convolutions(
    path: &Path,
    layers: u64,
    channels: u64,
    side: u64,
    seed: u64,
) -> std::io::Result<()> {
    let mut graph = Graph::new(seed);
    let mut before = "x".to_owned();
    for layer in 0..layers {
        let name = |it: &str| format!("{it}{layer}");
        let after = if layer + 1 == layers { "y".to_owned() } else { name("r") };
        graph.weight(&name("w"), &[channels, channels, 3, 3]);
        graph.weight(&name("b"), &[channels]);
        let inputs = [before.as_str(), &name("w"), &name("b")];
        graph.node("Conv", &inputs, &name("c"), &[("kernel_shape", &[3, 3]), ("pads", &[1; 4])]);
        graph.node("Relu", &[&name("c")], &after, &[]);
        before = after;
    }
    graph.write(path, &[channels, side, side], &[channels, side, side])
}

/// `layers` blocks as of a transformer without its attention: normalised, widened fourfold, Gelu, narrowed
/// again, added to what came in; a softmax at the end. Input and output `[rows, side]`.
pub(crate) fn blocks(path: &Path, layers: u64, side: u64, seed: u64) -> std::io::Result<()> {
    let mut graph = Graph::new(seed);
    graph.weight("half", &[1]);
    graph.weight("root", &[1]);
    let mut before = "x".to_owned();
    for layer in 0..layers {
        let name = |it: &str| format!("{it}{layer}");
        graph.weight(&name("scale"), &[side]);
        graph.weight(&name("shift"), &[side]);
        graph.weight(&name("wide"), &[side, 4 * side]);
        graph.weight(&name("narrow"), &[4 * side, side]);
        let inputs = [before.as_str(), &name("scale"), &name("shift")];
        graph.node("LayerNormalization", &inputs, &name("n"), &[]);
        graph.node("MatMul", &[&name("n"), &name("wide")], &name("h"), &[]);
        graph.node("Mul", &[&name("h"), "root"], &name("d"), &[]);
        graph.node("Erf", &[&name("d")], &name("e"), &[]);
        graph.node("Mul", &[&name("h"), &name("e")], &name("g"), &[]);
        graph.node("Mul", &[&name("g"), "half"], &name("f"), &[]);
        graph.node("MatMul", &[&name("f"), &name("narrow")], &name("o"), &[]);
        graph.node("Add", &[&before, &name("o")], &name("s"), &[]);
        before = name("s");
    }
    graph.node("Softmax", &[&before], "y", &[]);
    graph.write(path, &[side], &[side])
}

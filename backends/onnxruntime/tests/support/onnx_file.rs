//! Writes ONNX files from scratch: as much of its protobuf as a chain of layers with weights needs.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

/// The file of weights that a model may have.
pub const BESIDE: &str = "weights.data";

/// A message of protobuf, encoded field by field.
#[derive(Default)]
pub struct Message(Vec<u8>);

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

/// Types of elements, by their numbers in `onnx.proto`.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// An input or output of a graph: dimensions that are open, by their names, and those that are not behind them.
struct Port<'a> {
    name: &'a str,
    element: u64,
    open: &'a [&'a str],
    dims: &'a [u64],
}

/// A graph of floats under construction. Field numbers are those of `onnx.proto`.
#[derive(Default)]
pub struct Graph {
    body: Message,
    /// Each weight is unlike all others.
    seed: u64,
    /// The weights so far, where they go to a file of their own.
    beside: Option<Vec<u8>>,
    /// What the model says of itself.
    metadata: Message,
}

impl Graph {
    /// An empty one.
    pub fn new(seed: u64) -> Graph {
        Graph { body: Message::default().text(2, "graph"), seed, ..Graph::default() }
    }

    /// The same, with its weights in a file [`BESIDE`] the model's.
    pub fn with_weights_beside(seed: u64) -> Graph {
        Graph { beside: Some(Vec::new()), ..Graph::new(seed) }
    }

    /// One operator. `ints` are its attributes that are lists of whole numbers.
    pub fn node(&mut self, operator: &str, inputs: &[&str], output: &str, ints: &[(&str, &[u64])]) {
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
    pub fn weight(&mut self, name: &str, dims: &[u64]) {
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

    /// A constant of these floats, of one dimension.
    fn floats(&mut self, name: &str, values: &[f32]) {
        let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.constant(name, FLOAT, values.len(), &data);
    }

    /// A constant of these whole numbers, of one dimension.
    fn integers(&mut self, name: &str, values: &[i64]) {
        let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.constant(name, INT64, values.len(), &data);
    }

    fn constant(&mut self, name: &str, element: u64, count: usize, data: &[u8]) {
        let tensor = Message::default().number(1, count as u64).number(2, element);
        let tensor = tensor.text(8, name).bytes(9, data);
        self.body = std::mem::take(&mut self.body).message(5, tensor);
    }

    /// Names an input (`field` 11) or output (12).
    fn port(&mut self, field: u64, port: &Port<'_>) {
        let mut shape = Message::default();
        for name in port.open {
            shape = shape.message(1, Message::default().text(2, name));
        }
        for dim in port.dims {
            shape = shape.message(1, Message::default().number(1, *dim));
        }
        let tensor = Message::default().number(1, port.element).message(2, shape);
        let port =
            Message::default().text(1, port.name).message(2, Message::default().message(1, tensor));
        self.body = std::mem::take(&mut self.body).message(field, port);
    }

    /// Writes the model: from `x` to `y`, both `[rows, ..]`.
    pub fn write(self, path: &Path, x: &[u64], y: &[u64]) -> std::io::Result<()> {
        let port = |name, dims| Port { name, element: FLOAT, open: &["rows"], dims };
        self.write_with(path, &[port("x", x)], &port("y", y))
    }

    /// Writes the model with these inputs and this output.
    fn write_with(
        mut self,
        path: &Path,
        inputs: &[Port<'_>],
        output: &Port<'_>,
    ) -> std::io::Result<()> {
        if let (Some(weights), Some(folder)) = (&self.beside, path.parent()) {
            fs::write(folder.join(BESIDE), weights)?;
        }
        inputs.iter().for_each(|it| self.port(11, it));
        self.port(12, output);
        let opset = Message::default().text(1, "").number(2, 17);
        let head = Message::default().number(1, 9).message(8, opset);
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&head.0)?;
        let mut begin = Message::default();
        begin.varint(7 << 3 | 2);
        begin.varint(self.body.0.len() as u64);
        file.write_all(&begin.0)?;
        file.write_all(&self.body.0)?;
        file.write_all(&self.metadata.0)?;
        file.flush()
    }
}

/// One matrix of `side × side` zeros, in a file [`BESIDE`] the model's that takes no room on the disk.
pub fn sparse(path: &Path, side: u64) -> std::io::Result<()> {
    let bytes = 4 * side * side;
    let mut graph = Graph::new(1);
    let entry = |key, value: &str| Message::default().text(1, key).text(2, value);
    let tensor = Message::default().number(1, side).number(1, side).number(2, FLOAT).text(8, "w");
    let tensor = tensor.message(13, entry("location", BESIDE)).message(13, entry("offset", "0"));
    let tensor = tensor.message(13, entry("length", &bytes.to_string())).number(14, 1);
    graph.body = std::mem::take(&mut graph.body).message(5, tensor);
    graph.node("MatMul", &["x", "w"], "y", &[]);
    graph.write(path, &[side], &[side])?;
    File::create(path.with_file_name(BESIDE))?.set_len(bytes)
}

/// `layers` matrices of `side × side`, each followed by a bias and a Relu. Input and output `[rows, side]`.
pub fn dense(path: &Path, layers: u64, side: u64, seed: u64) -> std::io::Result<()> {
    dense_in(Graph::new(seed), path, layers, side)
}

/// The same, in that graph.
pub fn dense_in(mut graph: Graph, path: &Path, layers: u64, side: u64) -> std::io::Result<()> {
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
pub fn convolutions(
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
pub fn blocks(path: &Path, layers: u64, side: u64, seed: u64) -> std::io::Result<()> {
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

/// A detector that finds the same in each image of 640 × 640: `images`, FP32 `[1, 3, 640, 640]`, to `output0`, which is
/// `values` as `[1, rows, values / rows]`. `metadata` is what it says of itself.
pub fn detector(
    path: &Path,
    values: &[f32],
    rows: u64,
    metadata: &[(&str, &str)],
) -> std::io::Result<()> {
    let mut graph = Graph::new(1);
    for (key, value) in metadata {
        let entry = Message::default().text(1, key).text(2, value);
        graph.metadata = std::mem::take(&mut graph.metadata).message(14, entry);
    }
    let dims = [1, rows, values.len() as u64 / rows];
    graph.floats("values", values);
    graph.integers("shape", &dims.map(|it| it as i64));
    graph.floats("nothing", &[0.0]);
    graph.integers("one", &[1, 1, 1]);
    // It has to look at the image, and does so once.
    graph.node("ReduceMean", &["images"], "mean", &[]);
    graph.node("Reshape", &["mean", "one"], "of_image", &[]);
    graph.node("Mul", &["of_image", "nothing"], "zero", &[]);
    graph.node("Reshape", &["values", "shape"], "boxes", &[]);
    graph.node("Add", &["boxes", "zero"], "output0", &[]);
    let images = Port { name: "images", element: FLOAT, open: &[], dims: &[1, 3, 640, 640] };
    let output = Port { name: "output0", element: FLOAT, open: &[], dims: &dims };
    graph.write_with(path, &[images], &output)
}

/// The sizes of an encoder.
#[derive(Clone, Copy)]
pub struct Encoder {
    /// Blocks of attention, one after the other.
    pub layers: u64,
    /// Width of a token's vector.
    pub hidden: u64,
    /// Heads of each.
    pub heads: u64,
    /// Tokens that it knows.
    pub vocabulary: u64,
}

/// A BERT without positions: `input_ids` and `attention_mask`, both INT64 `[rows, tokens]`, to `last_hidden_state`,
/// FP32 `[rows, tokens, hidden]`. A token that the mask leaves out changes no other.
pub fn encoder(path: &Path, sizes: Encoder, seed: u64) -> std::io::Result<()> {
    let Encoder { layers, hidden, heads, vocabulary } = sizes;
    let mut graph = Graph::new(seed);
    graph.weight("words", &[vocabulary, hidden]);
    graph.floats("of_mask", &[-10_000.0, 0.0]);
    graph.integers("mask_axes", &[1, 2]);
    let (heads_i, size) = (heads as i64, (hidden / heads) as i64);
    graph.integers("split", &[0, 0, heads_i, size]);
    graph.integers("join", &[0, 0, hidden as i64]);
    graph.floats("scale", &[1.0 / (size as f32).sqrt()]);
    graph.floats("root", &[std::f32::consts::SQRT_2]);
    graph.floats("one", &[1.0]);
    graph.floats("half", &[0.5]);
    graph.node("Gather", &["words", "input_ids"], "embedded", &[]);
    graph.node("Gather", &["of_mask", "attention_mask"], "flat_mask", &[]);
    graph.node("Unsqueeze", &["flat_mask", "mask_axes"], "mask", &[]);
    let mut before = graph.normalized("embedded", hidden);
    for layer in 0..layers {
        before = graph.attention(&before, layer, hidden);
        before = graph.feed_forward(&before, layer, hidden);
    }
    graph.node("Identity", &[&before], "last_hidden_state", &[]);
    let open = &["rows", "tokens"];
    let tokens = |name| Port { name, element: INT64, open, dims: &[] };
    let output = Port { name: "last_hidden_state", element: FLOAT, open, dims: &[hidden] };
    graph.write_with(path, &[tokens("input_ids"), tokens("attention_mask")], &output)
}

impl Graph {
    /// `LayerNormalization` with weights of its own.
    fn normalized(&mut self, x: &str, hidden: u64) -> String {
        let [scale, shift, out] = ["scale", "shift", "normal"].map(|it| format!("{x}.{it}"));
        self.weight(&scale, &[hidden]);
        self.weight(&shift, &[hidden]);
        self.node("LayerNormalization", &[x, &scale, &shift], &out, &[]);
        out
    }

    /// `x · W + b`, from `inputs` to `outputs` numbers.
    fn linear(&mut self, x: &str, name: &str, [inputs, outputs]: [u64; 2]) -> String {
        let [weight, bias, product, out] =
            ["weight", "bias", "product", "sum"].map(|it| format!("{name}.{it}"));
        self.weight(&weight, &[inputs, outputs]);
        self.weight(&bias, &[outputs]);
        self.node("MatMul", &[x, &weight], &product, &[]);
        self.node("Add", &[&product, &bias], &out, &[]);
        out
    }

    /// One of query, key and value, cut into heads.
    fn head(&mut self, x: &str, name: &str, hidden: u64, order: &[u64]) -> String {
        let linear = self.linear(x, name, [hidden, hidden]);
        let [split, out] = ["split", "heads"].map(|it| format!("{name}.{it}"));
        self.node("Reshape", &[&linear, "split"], &split, &[]);
        self.node("Transpose", &[&split], &out, &[("perm", order)]);
        out
    }

    /// Attention over the tokens of a row, added to `x`, normalised.
    fn attention(&mut self, x: &str, layer: u64, hidden: u64) -> String {
        let name = |it: &str| format!("{layer}.{it}");
        let query = self.head(x, &name("query"), hidden, &[0, 2, 1, 3]);
        let key = self.head(x, &name("key"), hidden, &[0, 2, 3, 1]);
        let value = self.head(x, &name("value"), hidden, &[0, 2, 1, 3]);
        self.node("MatMul", &[&query, &key], &name("scores"), &[]);
        self.node("Mul", &[&name("scores"), "scale"], &name("scaled"), &[]);
        self.node("Add", &[&name("scaled"), "mask"], &name("masked"), &[]);
        self.node("Softmax", &[&name("masked")], &name("shares"), &[]);
        self.node("MatMul", &[&name("shares"), &value], &name("context"), &[]);
        let order: (&str, &[u64]) = ("perm", &[0, 2, 1, 3]);
        self.node("Transpose", &[&name("context")], &name("rows"), &[order]);
        self.node("Reshape", &[&name("rows"), "join"], &name("joined"), &[]);
        let out = self.linear(&name("joined"), &name("out"), [hidden, hidden]);
        self.node("Add", &[&out, x], &name("attended"), &[]);
        self.normalized(&name("attended"), hidden)
    }

    /// Widened fourfold, Gelu, narrowed again, added to `x`, normalised.
    fn feed_forward(&mut self, x: &str, layer: u64, hidden: u64) -> String {
        let name = |it: &str| format!("{layer}.{it}");
        let wide = self.linear(x, &name("wide"), [hidden, 4 * hidden]);
        self.node("Div", &[&wide, "root"], &name("divided"), &[]);
        self.node("Erf", &[&name("divided")], &name("erf"), &[]);
        self.node("Add", &[&name("erf"), "one"], &name("shifted"), &[]);
        self.node("Mul", &[&wide, &name("shifted")], &name("product"), &[]);
        self.node("Mul", &[&name("product"), "half"], &name("gelu"), &[]);
        let narrow = self.linear(&name("gelu"), &name("narrow"), [4 * hidden, hidden]);
        self.node("Add", &[&narrow, x], &name("added"), &[]);
        self.normalized(&name("added"), hidden)
    }
}

//! The models that requests are for.

use std::ops::Range;

use backend::DataType;
use inference::signature::{Port, Signature};

/// Most rows of a run, and the ports of a model that answers with its inputs. A question mark makes an input optional,
/// an exclamation mark a scalar of the model.
const MODELS: [(usize, &[&str]); 14] = [
    (8, &["x FP32 [-1]"]),
    (1 << 20, &["x INT64 [-1]"]),
    (8, &["x BOOL [-1]"]),
    (8, &["x BYTES [-1]"]),
    (8, &["x FP64 [3]"]),
    (8, &["x UINT8 []"]),
    (0, &["x FP64 [-1,-1]"]),
    (8, &["x BYTES []", "p? FP32 [1]"]),
    (8, &["x FP16 [2]", "z BF16 [2]"]),
    (8, &["x! FP32 [1]"]),
    (8, &["x UINT8 [1000]"]),
    (0, &["x INT8 [2,2]", "y UINT64 []"]),
    (8, &["x FP32 [2]", "y INT32 [1]", "z BYTES [1]"]),
    (0, &["x UINT16 [0]", "y? INT16 [-1,3]"]),
];

/// The model of that number.
pub(crate) fn signature(number: u8) -> Signature {
    let (max_batch_size, lines) = MODELS[usize::from(number) % MODELS.len()];
    let inputs: Vec<Port> = lines.iter().map(|line| port(line)).collect();
    Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: "m".into(),
        version: 3,
        max_batch_size,
        most_rows: (number < 128).then_some(max_batch_size),
        outputs: inputs.clone(),
        inputs,
        on_request: Vec::new(),
        pipeline: None,
    }
}

/// The numbers of all models.
pub(crate) fn numbers() -> Range<u8> {
    0..MODELS.len() as u8
}

/// A port that is written as its name, its type and its dimensions.
pub(crate) fn port(line: &str) -> Port {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("three words");
    let (name, dtype, dims) = (word(), word(), word());
    let sizes = dims.trim_matches(['[', ']']).split(',').filter(|it| !it.is_empty());
    Port {
        name: name.trim_end_matches(['?', '!']).into(),
        dtype: DataType::from_name(dtype).expect("a type"),
        dims: sizes.map(|it| it.parse().ok()).collect(),
        any_rank: false,
        scalar: name.ends_with('!'),
        optional: name.ends_with('?'),
        labels: [String::from("cat"), String::from("dog")].into(),
        text_codes: Default::default(),
    }
}

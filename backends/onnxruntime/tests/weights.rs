//! Folders that have weights and no graph: what is made for them answers as transformers does. `tests/fixtures/weights`
//! has the folders and the answers.

// The lint knows test functions, not the functions they share.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{
    Backend, BackendError, Batch, DataType, Device, Instance, ModelSource, NamedTensor, Shape,
    Stop, Tensor,
};
use backend_onnxruntime::OnnxRuntime;
use safetensors::{Dtype, SafeTensors};

/// Numbers may differ so much: other kernels add in another order.
const CLOSE: f32 = 1e-5;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/weights")
}

/// A tensor of a file of expectations.
fn tensor(name: &str, view: &safetensors::tensor::TensorView<'_>) -> NamedTensor {
    let shape: Shape = view.shape().iter().copied().collect();
    let dtype = match view.dtype() {
        Dtype::I64 => DataType::Int64,
        Dtype::F32 => DataType::Fp32,
        other => panic!("{name}: {other:?}"),
    };
    let tensor = Tensor::new(dtype, shape, view.data().to_vec().into()).unwrap();
    NamedTensor { name: name.into(), tensor }
}

fn load(folder: &Path) -> Result<Box<dyn Instance>, BackendError> {
    load_with(folder, &[])
}

fn load_with(folder: &Path, options: &[(&str, &str)]) -> Result<Box<dyn Instance>, BackendError> {
    let weights = ["model.safetensors", "model.safetensors.index.json"].map(|it| folder.join(it));
    let [one, several] = weights;
    let path = if one.exists() { one } else { several };
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let source =
        ModelSource { options: options.collect(), ..ModelSource::new("weights".to_owned(), path) };
    let model = OnnxRuntime::default().load(&source)?;
    model.instantiate(Device::Cpu)
}

/// A folder with what transformers answers.
struct Answered {
    name: String,
    instance: Box<dyn Instance>,
    inputs: Vec<NamedTensor>,
    outputs: Vec<NamedTensor>,
}

impl Answered {
    fn of(folder: &Path) -> Answered {
        Answered::with(folder, &[])
    }

    fn with(folder: &Path, options: &[(&str, &str)]) -> Answered {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected = fs::read(folder.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&expected).unwrap();
        let part = |prefix: &str| -> Vec<NamedTensor> {
            let all = expected.iter();
            all.filter_map(|(it, view)| Some(tensor(it.strip_prefix(prefix)?, &view))).collect()
        };
        let (inputs, outputs) = (part("in."), part("out."));
        let instance = load_with(folder, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        Answered { name, instance, inputs, outputs }
    }

    fn run(&mut self, inputs: &[NamedTensor], rows: usize) -> Vec<NamedTensor> {
        let names: Vec<Arc<str>> = self.outputs.iter().map(|it| it.name.clone()).collect();
        let stop = Stop::new();
        let batch = Batch { inputs, outputs: &names, rows, signature: 0, stop: &stop };
        let found = self.instance.execute(&batch);
        found.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// What is said to all rows at once, bit by bit.
    fn bits(&mut self) -> Vec<u32> {
        let inputs = self.inputs.clone();
        let found = self.run(&inputs, 3);
        let numbers = found.iter().flat_map(|it| it.tensor.as_slice_of::<f32>().unwrap());
        numbers.map(|it| it.to_bits()).collect()
    }

    /// The places of the tokens of each row that are no padding; none where the inputs are no texts.
    fn counted(&self) -> Option<Vec<Vec<usize>>> {
        let mask = &self.inputs.iter().find(|it| &*it.name == "attention_mask")?.tensor;
        let rows = mask.as_slice_of::<i64>().unwrap().chunks(self.width());
        Some(rows.map(|row| (0..row.len()).filter(|at| row[*at] == 1).collect()).collect())
    }

    /// How many tokens each row has, with padding.
    fn width(&self) -> usize {
        let mask = self.inputs.iter().find(|it| &*it.name == "attention_mask");
        mask.map_or(0, |it| it.tensor.shape().dims()[1])
    }

    /// All rows at once.
    fn in_company(&mut self) {
        let inputs = self.inputs.clone();
        let found = self.run(&inputs, 3);
        for row in 0..3 {
            self.check(&found, row, row, CLOSE);
        }
    }

    /// Each text without the others, and without the padding that it has for their sake, on either side.
    fn alone(&mut self) {
        // A model of two towers has no row for a text alone.
        if self.inputs.iter().any(|it| &*it.name == "pixel_values") {
            return;
        }
        let Some(counted) = self.counted() else { return };
        for (row, places) in counted.iter().enumerate() {
            let inputs = self.inputs.iter().map(|NamedTensor { name, tensor }| {
                let all = tensor.as_slice_of::<i64>().unwrap();
                let own = places.iter().map(|at| all[row * self.width() + at]);
                let bytes: Vec<u8> = own.flat_map(i64::to_le_bytes).collect();
                let shape: Shape = [1, places.len()].into_iter().collect();
                let tensor = Tensor::new(DataType::Int64, shape, bytes.into()).unwrap();
                NamedTensor { name: name.clone(), tensor }
            });
            let found = self.run(&inputs.collect::<Vec<_>>(), 1);
            self.check(&found, 0, row, CLOSE);
        }
    }

    /// Is the row of these outputs as that row of transformers, where a token is no padding?
    fn check(&self, found: &[NamedTensor], row: usize, expected_row: usize, close: f32) {
        let name = &self.name;
        let counted = self.counted();
        for expected in &self.outputs {
            let found = &found.iter().find(|it| it.name == expected.name).unwrap().tensor;
            let expected = &expected.tensor;
            assert_eq!(found.shape().dims().len(), expected.shape().dims().len(), "{name}");
            let of = |tensor: &Tensor, row: usize| {
                let size = tensor.shape().inner().iter().product::<usize>();
                let all = tensor.as_slice_of::<f32>().unwrap();
                all[row * size..(row + 1) * size].to_vec()
            };
            let (found, wanted) = (of(found, row), of(expected, expected_row));
            // An output with as many numbers in each row as it has tokens is one of tokens.
            let is_of_tokens = expected.shape().dims()[1] == self.width();
            let places = counted.as_ref().filter(|_| is_of_tokens).map(|it| &it[expected_row]);
            let size = places.map_or(wanted.len(), |_| wanted.len() / self.width());
            let places = places.map_or(vec![0], Clone::clone);
            let is_alone = found.len() < wanted.len();
            let mut largest = 0f32;
            for (nth, at) in places.into_iter().enumerate() {
                let found = &found[if is_alone { nth } else { at } * size..][..size];
                let pairs = found.iter().zip(&wanted[at * size..][..size]);
                largest = pairs.fold(largest, |it, (found, wanted)| it.max((found - wanted).abs()));
                assert!(found.iter().all(|it| it.is_finite()), "{name}, row {expected_row}");
            }
            assert!(largest < close, "{name}, row {expected_row}: {largest}");
        }
    }
}

#[test]
fn every_family_and_head_answers_as_transformers_does_in_company_and_alone() {
    let mut folders = 0;
    for entry in fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("expected.safetensors").exists() {
            let mut answered = Answered::of(&folder);
            answered.in_company();
            answered.alone();
            folders += 1;
        }
    }
    assert_eq!(folders, 120);
}

/// Numbers of tiny models in 8 bits are so far from those of 32.
const ROUGH: f32 = 0.35;

#[test]
fn in_8_bits_every_family_answers_nearly_the_same_and_its_layers_bit_by_bit_as_alone() {
    let mut exact = 0;
    for entry in fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("expected.safetensors").exists() {
            continue;
        }
        let mut answered = Answered::with(&folder, &INT8);
        let inputs = answered.inputs.clone();
        let found = answered.run(&inputs, 3);
        for row in 0..3 {
            answered.check(&found, row, row, ROUGH);
        }
        // Two towers compare rows with each other: that is what they are for.
        if found.iter().any(|it| it.name.starts_with("logits_per_")) {
            continue;
        }
        for row in 0..3 {
            let own: Vec<NamedTensor> = inputs.iter().map(|it| row_of(it, row)).collect();
            for (alone, all) in answered.run(&own, 1).iter().zip(&found) {
                let floats = |it: &NamedTensor| it.tensor.as_slice_of::<f32>().unwrap().to_vec();
                let (alone, row_of_all) = (floats(alone), floats(&row_of(all, row)));
                let name = &answered.name;
                // Heads compute in floats, of which a single row is multiplied in another order.
                let close = if &*all.name == "last_hidden_state" { 0.0 } else { CLOSE };
                let mut pairs = alone.iter().zip(&row_of_all);
                assert!(
                    pairs.all(|(alone, all)| (alone - all).abs() <= close),
                    "{name}, row {row}"
                );
                exact += usize::from(close == 0.0);
            }
        }
    }
    assert!(60 < exact, "{exact}");
}

const INT8: [(&str, &str); 1] = [("precision", "int8")];

/// A row of a tensor.
fn row_of(NamedTensor { name, tensor }: &NamedTensor, row: usize) -> NamedTensor {
    NamedTensor { name: name.clone(), tensor: tensor.slice_rows(row, 1).unwrap() }
}

#[test]
fn codes_of_8_bits_are_made_at_load_of_weights_of_any_kind_and_need_no_file_later() {
    for name in ["bert-shards", "bert-half", "bert-bfloat16"] {
        let folder = Copy::of(name);
        let mut answered = Answered::with(&folder.0, &INT8);
        let before = answered.bits();
        assert!(!is_mapped(&folder.0.to_string_lossy()), "{name}");
        for entry in fs::read_dir(&folder.0).unwrap() {
            fs::write(entry.unwrap().path(), []).unwrap();
        }
        assert_eq!(answered.bits(), before, "{name}");
    }
}

#[test]
fn a_precision_that_is_none_and_one_of_a_graph_that_lies_there_are_refused() {
    let weights = load_with(&fixtures().join("bert-Model"), &[("precision", "int4")]);
    let error = weights.err().unwrap().to_string();
    assert!(error.contains("parameter precision is 'int4', expected fp32 or int8"), "{error}");
    let graph = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/mlp.onnx");
    let options = INT8.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let source = ModelSource { options, ..ModelSource::new("graph".to_owned(), graph) };
    let error = OnnxRuntime::default().load(&source).err().unwrap().to_string();
    assert!(error.contains("precision int8 is for graphs that are made of"), "{error}");
}

/// A copy of a folder, gone at the end.
struct Copy(PathBuf);

impl Copy {
    fn of(name: &str) -> Copy {
        let copy =
            std::env::temp_dir().join(format!("muster-weights-{name}-{}", std::process::id()));
        fs::create_dir_all(&copy).unwrap();
        for entry in fs::read_dir(fixtures().join(name)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        Copy(copy)
    }

    /// With other text in its configuration.
    fn change(&self, from: &str, to: &str) {
        let path = self.0.join("config.json");
        let config = fs::read_to_string(&path).unwrap();
        assert!(config.contains(from), "{config}");
        fs::write(path, config.replacen(from, to, 1)).unwrap();
    }

    fn refused(&self, expected: &str) {
        let Err(BackendError::Load(text)) = load(&self.0) else { panic!("it is loaded") };
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("optimum-cli export onnx"), "{text}");
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_no_graph_is_made_for_is_refused_by_its_name() {
    let folder = Copy::of("bert-ForSequenceClassification");
    for (from, to, expected) in [
        (
            "\"model_type\": \"bert\"",
            "\"model_type\": \"gpt2\"",
            "model_type: expected one of bert",
        ),
        (
            "ForSequenceClassification",
            "ForNextSentencePrediction",
            "given BertForNextSentencePrediction",
        ),
        ("\"gelu\"", "\"mish\"", "hidden_act: expected gelu"),
        (
            "\"num_attention_heads\": 2",
            "\"num_attention_heads\": 3",
            "num_attention_heads: expected a number",
        ),
        (
            "\"hidden_size\": 16",
            "\"hidden_size\": \"16\"",
            "hidden_size: expected a whole number above zero",
        ),
        ("\"vocab_size\": 40", "\"vocab_size\": 41", "has the shape [40, 16], and by config.json"),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "'bert.encoder.layer.1."),
        (
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 3",
            "no tensor 'bert.encoder.layer.2.",
        ),
        (
            "\"model_type\": \"bert\"",
            "\"model_type\": \"bert\", \"position_embedding_type\": \"rotary\"",
            "position_embedding_type: expected absolute, relative_key or relative_key_query",
        ),
    ] {
        folder.change(from, to);
        folder.refused(expected);
        folder.change(to, from);
    }
    Answered::of(&folder.0).in_company();
}

/// That the folder is refused with `from` in its configuration changed into `to`.
#[track_caller]
fn check_refused(folder: &str, from: &str, to: &str, expected: &str) {
    let folder = Copy::of(folder);
    folder.change(from, to);
    folder.refused(expected);
}

#[test]
fn forms_of_modernbert_that_are_not_known_are_refused() {
    let check = |from, to, expected| {
        check_refused("modernbert-ForSequenceClassification", from, to, expected);
    };
    check(
        "\"classifier_pooling\": \"cls\"",
        "\"classifier_pooling\": \"max\"",
        "classifier_pooling",
    );
    check(
        "\"sliding_attention\"\n",
        "\"linear_attention\"\n",
        "layer_types: expected full_attention",
    );
    check("\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "rope_type: expected default");
    check("\"norm_bias\": false", "\"norm_bias\": true", "no tensor 'model.embeddings.norm.bias'");
    check("\"mlp_bias\": false", "\"mlp_bias\": 0", "mlp_bias: expected true or false");
}

#[test]
fn forms_of_nomicbert_and_gte_that_are_not_known_are_refused() {
    let nomic = |from, to, expected| check_refused("nomic-old", from, to, expected);
    nomic("\"swiglu\"", "\"glu\"", "activation_function: expected swiglu");
    nomic("\"qkv_proj_bias\": false,", "", "qkv_proj_bias: expected false");
    nomic("\"prenorm\": false", "\"prenorm\": true", "prenorm: expected false");
    nomic("\"rotary_emb_fraction\": 1.0", "\"rotary_emb_fraction\": 0.5", "rotary_emb_fraction");
    nomic(
        "\"causal\": false",
        "\"causal\": false, \"num_experts\": 8",
        "num_experts: expected null",
    );
    let gte = |from, to, expected| check_refused("new-Model", from, to, expected);
    gte("\"ntk\"", "\"dynamic\"", "rope_type: expected default, linear or ntk");
    gte("\"pack_qkv\": true", "\"pack_qkv\": false", "pack_qkv: expected true");
    gte(
        "\"logn_attention_scale\": false",
        "\"logn_attention_scale\": true",
        "logn_attention_scale",
    );
    gte("\"layer_norm\"", "\"rms_norm\"", "layer_norm_type: expected \"layer_norm\"");
}

#[test]
fn forms_of_decoders_that_are_not_known_are_refused() {
    let check = |from, to, expected| check_refused("qwen3-Model", from, to, expected);
    check("\"default\"", "\"linear\"", "rope_type: expected \"default\"");
    check("\"rope_theta\"", "\"type\": \"yarn\", \"rope_theta\"", "type: expected \"default\"");
    check(
        "\"rope_theta\"",
        "\"partial_rotary_factor\": 0.5, \"rope_theta\"",
        "partial_rotary_factor",
    );
    check("\"vocab_size\"", "\"rope_scaling\": {}, \"vocab_size\"", "rope_scaling: expected null");
    check(
        "\"use_sliding_window\": false",
        "\"use_sliding_window\": true",
        "use_sliding_window: expected false",
    );
    check(
        "\"full_attention\"",
        "\"sliding_attention\"",
        "layer_types: expected \"full_attention\"",
    );
    check("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "num_key_value_heads");
}

#[test]
fn forms_of_deberta_that_are_not_known_are_refused() {
    let check = |from, to, expected| check_refused("deberta-v2", from, to, expected);
    check("\"c2p\"", "\"p2p\"", "pos_att_type: expected a list of \"c2p\" and \"p2c\"");
    check("\"layer_norm\"", "\"rms_norm\"", "norm_rel_ebd: expected \"none\" or \"layer_norm\"");
    check("\"legacy\": true", "\"legacy\": false", "legacy: expected true");
    check(
        "\"conv_kernel_size\": 3",
        "\"conv_kernel_size\": 4",
        "conv_kernel_size: expected an odd",
    );
    check(
        "\"share_att_key\": true",
        "\"share_att_key\": false",
        "attention.self.pos_key_proj.weight",
    );
    check(
        "\"relative_attention\": true",
        "\"relative_attention\": false",
        "'deberta.encoder.LayerNorm",
    );
    check(
        "\"position_buckets\": 6",
        "\"position_buckets\": 7",
        "'deberta.encoder.rel_embeddings.weight'",
    );
}

#[test]
fn forms_of_clip_that_are_not_known_are_refused() {
    let check = |from, to, expected| check_refused("clip-both", from, to, expected);
    check("CLIPModel", "CLIPForImageClassification", "given CLIPForImageClassification");
    check(
        "\"eos_token_id\": 39",
        "\"eos_token_id\": [39, 2]",
        "eos_token_id: expected a whole number",
    );
    check("\"patch_size\": 4", "\"patch_size\": 3", "patch_embedding.weight' has the shape");
    check(
        "\"vision_config\": {",
        "\"vision_config\": 1, \"x\": {",
        "vision_config: expected an object",
    );
}

#[test]
fn files_that_are_cut_are_refused() {
    let folder = Copy::of("bert-Model");
    let path = folder.0.join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for (length, expected) in [(4, "its header"), (100, "its header has"), (whole.len() - 1, "'")] {
        fs::write(&path, &whole[..length]).unwrap();
        folder.refused(expected);
    }
}

/// Are weights in use in this process that begin so?
fn is_mapped(path: &str) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|it| it.contains(path) && it.contains(".safetensors"))
}

#[test]
fn weights_that_nobody_writes_to_are_read_where_they_lie_and_may_change_behind_the_load() {
    let folder = Copy::of("bert-tanh-Model");
    let path = folder.0.join("model.safetensors");
    let before = fs::read(&path).unwrap();
    let expected = Answered::of(&folder.0).bits();
    let mut answered = Answered::of(&folder.0);
    let copies = "/muster-weights-";
    assert!(!is_mapped(copies) && !is_mapped(&folder.0.to_string_lossy()));
    // The lease is over: nobody waits, and what is written is nobody's business here.
    fs::write(&path, vec![0xff; before.len()]).unwrap();
    assert_eq!(answered.bits(), expected);
    fs::write(&path, []).unwrap();
    assert_eq!(answered.bits(), expected);
    // What somebody has open for writing is copied, and answers the same.
    fs::write(&path, &before).unwrap();
    let writer = fs::File::options().append(true).open(&path).unwrap();
    let mut copied = Answered::of(&folder.0);
    assert!(is_mapped(copies));
    assert_eq!(copied.bits(), expected);
    drop(writer);
}

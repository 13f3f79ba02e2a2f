//! What no graph is made for is refused, and never taken for something else.

use std::{fs, path::Path};

use backend::{Backend, ModelSource};
use backend_onnxruntime::OnnxRuntime;

use crate::answered::{Answered, Copy, INT8, fixtures, load_with};

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
    check("\"rope_type\": \"default\"", "\"rope_type\": \"axial\"", "rope_type: expected default");
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
    gte("\"ntk\"", "\"dynamic\"", "type: expected default or ntk");
    gte("\"pack_qkv\": true", "\"pack_qkv\": false", "pack_qkv: expected true");
    gte(
        "\"logn_attention_scale\": false",
        "\"logn_attention_scale\": true",
        "logn_attention_scale",
    );
    gte("\"layer_norm\"", "\"rms_norm\"", "layer_norm_type: expected \"layer_norm\"");
}

#[test]
fn forms_of_siglip_that_are_not_known_are_refused() {
    let check = |from, to, expected| check_refused("siglip-both", from, to, expected);
    check("SiglipModel", "SiglipBackbone", "given SiglipBackbone");
    check(
        "\"vision_use_head\": true",
        "\"vision_use_head\": false",
        "vision_use_head: expected true",
    );
    check(
        "\"projection_size\": 16",
        "\"projection_size\": 8",
        "'text_model.head.weight' has the shape",
    );
    check("\"image_size\": 12", "\"image_size\": [12, 8]", "image_size: expected a whole number");
}

#[test]
fn forms_of_decoders_that_are_not_known_are_refused() {
    let check = |from, to, expected| check_refused("qwen3-Model", from, to, expected);
    check("\"default\"", "\"linear\"", "factor: expected a number, given nothing");
    check("\"default\"", "\"su\"", "rope_type: expected default, linear, dynamic");
    check("\"rope_theta\"", "\"scale\": 2, \"rope_theta\"", "scale: expected no such key");
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

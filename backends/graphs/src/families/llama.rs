//! Llama, and what has its layers: Mistral, Qwen3.

use crate::decoder::Family;

pub(super) const LLAMA: Family = Family {
    model_types: &["llama"],
    head: None,
    key_heads: None,
    inner: 11008,
    norms_heads: false,
    window: None,
};

pub(super) const MISTRAL: Family = Family {
    model_types: &["mistral"],
    key_heads: Some(8),
    inner: 14336,
    window: Some(4096),
    ..LLAMA
};

pub(super) const QWEN3: Family = Family {
    model_types: &["qwen3"],
    head: Some(128),
    key_heads: Some(32),
    inner: 22016,
    norms_heads: true,
    ..LLAMA
};

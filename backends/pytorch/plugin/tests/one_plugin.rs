//! One plugin per process. In a process of its own: once one is open, no other is looked at.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use backend::{Backend, BackendError};
use pytorch::{Options, PyTorch};
use support::{plugin, source};

#[test]
fn after_a_bad_plugin_a_good_one_is_opened_and_then_no_other() {
    let engine = |plugin| PyTorch::new(Options { plugin: Some(plugin) });
    let absent = || engine(plugin().with_extension("absent"));
    let Err(BackendError::Load(text)) = absent().load(&source("mlp")) else { panic!("it loaded") };
    assert!(text.contains("there is none"), "{text}");
    engine(plugin()).load(&source("mlp")).unwrap();
    let Err(BackendError::Load(text)) = absent().load(&source("mlp")) else {
        panic!("two plugins")
    };
    assert!(text.contains("cannot open"), "{text}");
    PyTorch::default().load(&source("mlp")).unwrap();
}

//! Facts about which models run in processes of their own.

use std::collections::BTreeSet;

use super::*;
use ::isolation::{Sandbox, Which};

fn which(args: &str) -> Which {
    config(args, &[]).isolation.which
}

#[test]
fn models_in_processes_of_their_own_are_none_all_named_or_found_out() {
    let named = |names: &[&str]| Which::Named(names.iter().map(|it| (*it).to_owned()).collect());
    assert_eq!(which(""), Which::Auto);
    assert_eq!(which("--worker-sandbox=off"), Which::Auto);
    assert_eq!(which("--isolation=off"), named(&[]));
    assert_eq!(which("--isolation=all"), Which::All);
    assert_eq!(which("--isolation=auto"), Which::Auto);
    assert_eq!(which("--isolation=b,a"), named(&["a", "b"]));
    assert_eq!(config("", &["MUSTER_ISOLATION=auto"]).isolation.which, Which::Auto);
    let of_endpoint = |args| config(args, &["SAGEMAKER_MULTI_MODEL=true"]).isolation.which;
    assert_eq!(of_endpoint(""), named(&[]));
    assert_eq!(of_endpoint("--isolation=auto"), Which::Auto);
    assert_eq!(of_endpoint("--worker-sandbox=strict"), Which::All);
    check_refused("--isolation=a,,b", &[], &["isolation", "off, all, auto, or names of models"]);
}

#[test]
fn a_strict_sandbox_takes_no_model_into_the_server() {
    check_refused(
        "--isolation=auto --worker-sandbox=strict",
        &[],
        &["--isolation=auto", "--worker-sandbox=strict", "--isolation=all"],
    );
    let strict = config("--isolation=all --worker-sandbox=strict", &[]).isolation;
    assert_eq!((strict.which, strict.sandbox), (Which::All, Sandbox::Strict));
    assert_eq!(which("--worker-sandbox=strict"), Which::All);
    assert_eq!(which("--isolation=off --worker-sandbox=strict"), Which::Named(BTreeSet::new()));
}

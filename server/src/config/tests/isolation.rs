//! Facts about which models run in processes of their own.

use std::collections::BTreeSet;

use super::*;
use crate::workers::{Sandbox, Which};

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
    for given in ["a,,b", "on", "TRUE", "Auto", "process", "all,a", "a,off"] {
        let args = format!("--isolation={given}");
        check_refused(&args, &[], &["isolation", "off, all, auto, or names of models"]);
    }
}

#[test]
fn the_memory_of_a_lane_is_what_the_machine_and_the_limits_of_the_process_allow() {
    let arena = |args: &str, limits: Machine| {
        let args = std::iter::once("muster").chain(args.split(' ').filter(|it| !it.is_empty()));
        let fake = Fake { paths: vec!["model_repository/"], ..Fake::default() };
        match read(args.map(OsString::from), &fake, &limits) {
            Ok(Command::Serve(config)) => Ok(config.isolation.arena_bytes as u64),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.problems().concat()),
        }
    };
    let with = |memory, address_space, largest_file| Machine {
        memory,
        address_space,
        largest_file,
        ..machine()
    };
    assert_eq!(arena("", with(None, None, None)), Ok(GIB));
    assert_eq!(arena("", with(Some(2 * GIB), None, None)), Ok(GIB / 4));
    assert_eq!(arena("", with(None, Some(2 * GIB), None)), Ok(GIB / 32));
    assert_eq!(arena("", with(None, None, Some(1000))), Ok(500));
    let given = "--worker-arena-bytes=501";
    assert_eq!(arena(given, with(None, Some(1000), Some(1002))), Ok(501));
    let error = arena(given, with(None, None, Some(1001))).unwrap_err();
    assert!(error.contains("--worker-arena-bytes=501: no more than 500 can be had"), "{error}");
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

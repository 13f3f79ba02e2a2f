//! Facts about the command line as a whole: booleans, names of values, what is a fault of usage, completions, the
//! manual page.

use super::*;
use configuration::Takes;

fn printed(args: &str) -> String {
    match read_text(args, &[]) {
        Ok(Command::Print(text)) => text,
        other => panic!("{args}: {other:?}"),
    }
}

#[test]
fn a_boolean_alone_is_true_and_with_no_in_front_false() {
    assert!(config("--emf", &[]).emf.is_some());
    assert!(config("--no-emf", &["MUSTER_EMF=true"]).emf.is_none());
    let ports = |args: &str| {
        let it = config(args, &[]).listeners;
        (it.grpc.is_some(), it.metrics.is_some())
    };
    assert_eq!(ports("serve --no-allow-grpc --allow-metrics"), (false, true));
    assert_eq!(ports("--allow-grpc false --no-allow-metrics serve"), (false, false));
    assert_eq!(ports("--no-allow-grpc --allow-grpc"), (true, true), "the later one counts");
    check_refused("--no-allow-grpc=true", &[], &["option --no-allow-grpc takes no value"]);
    check_refused("--emf=maybe", &[], &["--emf 'maybe'", "expected true or false"]);
    check_refused("--no-http-port", &[], &["unknown option --no-http-port"]);
}

/// What is said of a value that nothing can be, after `expected`.
fn expected(name: &str) -> Option<String> {
    let said = read_text(&format!("--{name}=\u{1}no~such"), &[]).err()?;
    let place = format!("--{name} '");
    let problem = said.problems().iter().find(|it| it.contains(&place))?;
    Some(problem.split_once("): expected ")?.1.to_owned())
}

#[test]
fn the_name_of_a_value_says_what_is_expected() {
    for flag in flags::table().flags() {
        let said = expected(flag.name).unwrap_or_default();
        assert_eq!(
            flag.takes == Takes::Boolean,
            said == "true or false",
            "--{}: {said}",
            flag.name
        );
        let part = match flag.value_name {
            "PORT" => "a port",
            "ADDRESS" => "an IP address",
            "BYTES" => "number of bytes",
            "MILLISECONDS" => "milliseconds",
            "MICROSECONDS" => "microseconds",
            "COUNT" => "whole number",
            "VALUE" => panic!("--{}: what is its value?", flag.name),
            _ => continue,
        };
        assert!(said.contains(part), "--{} <{}>: {said}", flag.name, flag.value_name);
    }
}

#[test]
fn help_names_values() {
    let help = printed("--help-all");
    for part in [
        "--http-port <PORT>",
        "--max-inflight-bytes <BYTES>",
        "--exit-timeout-secs <SECONDS>",
        "--model-repository <DIR>",
        "--emf[=<BOOL>]",
        "--no-emf is false",
    ] {
        assert!(help.contains(part), "no '{part}' in {help}");
    }
    assert!(!help.contains("<VALUE>"), "{help}");
}

#[test]
fn what_is_wrong_with_the_command_line_is_a_fault_of_usage_and_nothing_else_is() {
    let is_usage = |args: &str, variables: &[&str]| match read_text(args, variables) {
        Err(error) => error.is_usage(),
        Ok(other) => panic!("{args}: {other:?}"),
    };
    for args in [
        "--http-prot 1",
        "--http-port",
        "--http-port x",
        "sevre",
        "train",
        "serve model_repository extra",
        "health --http-prot 1",
        "env --http-prot 1",
        "completions",
        "completions csh",
    ] {
        assert!(is_usage(args, &[]), "{args}");
    }
    assert!(!is_usage("", &["MUSTER_HTTP_PORT=x"]));
    assert!(is_usage("--http-port x", &["MUSTER_GRPC_PORT=x"]));
}

#[test]
fn models_are_not_missed_where_an_option_was_not_understood() {
    let error = read_at(&[], "serve --reload model.onnx", &[]).unwrap_err();
    assert!(matches!(error.problems(), [it] if it.contains("--reload")), "{error}");
}

#[test]
fn completions_know_commands_flags_and_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&format!("completions {shell}"));
        for part in ["serve", "explain", "http-port", "model-repository"] {
            assert!(script.contains(part), "{shell}: {part}");
        }
        assert!(!script.contains("backend-directory"), "{shell}: it has no effect");
    }
    check_refused("completions csh", &[], &["expected a shell", "bash, zsh, fish"]);
    check_refused("completions", &[], &["expected a shell", "bash|zsh|fish"]);
}

#[test]
fn the_manual_page_has_all_options() {
    let page = printed("man");
    assert!(page.contains(".TH muster"), "{}", &page[..200]);
    for flag in flags::table().flags() {
        let name = flag.name.replace('-', "\\-");
        assert!(page.contains(&format!("\\-\\-{name}")), "{name}");
    }
}

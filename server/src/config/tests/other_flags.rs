//! Flags of other servers: each means the same here, or is refused with what to type in its place. None is taken for
//! another one, and none by its beginning.

use super::*;
use configuration::{
    Typed,
    command_line::{Parsed, parse},
};

/// Server, flag, what becomes of it, and the flag or words that go with that.
const TABLE: &str = include_str!("other_flags.tsv");

fn rows() -> impl Iterator<Item = [&'static str; 4]> {
    TABLE.lines().filter(|it| !it.starts_with('#')).map(|line| {
        let mut columns = line.split('\t');
        [(); 4].map(|()| columns.next().unwrap_or_default())
    })
}

/// What was typed, and what is wrong with it; `None` where a text is printed.
fn typed(args: &[&str]) -> Option<(Vec<Typed>, Vec<String>)> {
    let mut problems = Vec::new();
    let args = args.iter().map(OsString::from).collect();
    match parse(args, &flags::table(), &mut problems) {
        Parsed::Serve(serve) => Some((serve.settings, problems)),
        Parsed::Print(_) | Parsed::Version(_) => None,
        _ => panic!("no other command was typed"),
    }
}

#[test]
fn each_flag_of_another_server_means_the_same_or_is_refused_with_what_to_do() {
    let mut wrong = Vec::new();
    for [server, flag, becomes, with] in rows() {
        let typed = typed(&["muster", "serve", &format!("{flag}=1")]);
        let bare = || self::typed(&["muster", "serve", flag]);
        let is_right = match (becomes, &typed) {
            ("prints", _) => bare().is_none(),
            ("same", Some((settings, problems))) => {
                let name = with.trim_start_matches('-');
                problems.is_empty() && matches!(&**settings, [it] if it.name == name)
            }
            ("idle", Some((settings, problems))) => {
                let table = flags::table();
                let is_idle = |it: &Typed| table.is_without_effect(it.name);
                problems.is_empty() && matches!(&**settings, [it] if is_idle(it))
            }
            ("instead" | "none" | "short", Some((settings, problems))) => {
                let part = match becomes {
                    "instead" => with,
                    "none" => "muster has none like it: ",
                    _ => "no short options but -h and -V",
                };
                let says =
                    |it: &String| it.contains(&format!("option {flag};")) && it.contains(part);
                settings.is_empty() && matches!(&**problems, [it] if says(it))
            }
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{server} {flag}: expected {becomes} {with}, found {typed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn advice_names_flags_that_exist() {
    let table = flags::table();
    for [server, flag, becomes, with] in rows().filter(|it| it[3].starts_with("--")) {
        let known = table.flag(with.trim_start_matches('-'));
        let is_of_all = ["--help-all", "--version"].contains(&with);
        assert!(known.is_some() || is_of_all, "{server} {flag}: {becomes} {with}");
    }
}

#[test]
fn behind_the_name_of_a_server_its_own_flags_are_known() {
    for (server, name) in [
        ("tensorflow-serving", "tensorflow_model_server"),
        ("text-embeddings-inference", "text-embeddings-router"),
        ("triton", "tritonserver"),
    ] {
        for [_, flag, ..] in rows().filter(|it| it[0] == server) {
            let found = typed(&[name, &format!("{flag}=1")]);
            let problems = found.map(|it| it.1).unwrap_or_default();
            let is_unknown = |it: &&String| it.contains("unknown") || it.contains("could be");
            assert_eq!(problems.iter().find(is_unknown), None, "{name} {flag}");
        }
    }
}

#[test]
fn no_option_is_taken_by_its_beginning() {
    let table = flags::table();
    let names: Vec<&str> =
        table.all_names().chain(["host", "port", "help", "help-all", "version"]).collect();
    for name in &names {
        let Some(beginning) = name.get(..name.len() - 1).filter(|it| !names.contains(it)) else {
            continue;
        };
        let args = format!("--{beginning}=1");
        let (settings, problems) = typed(&["muster", "serve", &args]).expect("nothing to print");
        assert!(settings.is_empty() && problems.len() == 1, "{args}: {settings:?} {problems:?}");
        // As Triton does, but for those without effect.
        let (settings, _) = typed(&["tritonserver", &args]).expect("nothing to print");
        let idle = settings.iter().find(|it| table.is_without_effect(it.name));
        assert_eq!(idle, None, "tritonserver {args}");
    }
    // The beginning of one that is taken without effect.
    let (settings, problems) = typed(&["tritonserver", "--host-pol=1"]).expect("nothing to print");
    assert!(settings.is_empty() && problems.len() == 1, "{settings:?}");
}

#[test]
fn tritons_abbreviations_work_behind_its_name() {
    assert_eq!(ports(&config("tritonserver --http-po 9000", &[]))[0], 9000);
    assert_eq!(ports(&config("tritonserver --http-po=9000", &[]))[0], 9000);
    let variable = "SAGEMAKER_TRITON_ADDITIONAL_ARGS=--http-po 9000";
    assert_eq!(ports(&config("", &[variable]))[0], 9000);
    check_refused("tritonserver --log-f json", &[], &["--log-f;", "--log-format, --log-file"]);
    check_refused("--http-po 9000", &[], &["--http-po;", "did you mean --http-port?"]);
}

#[test]
fn host_and_port_are_those_of_http() {
    let config = config("serve --host 127.0.0.1 --port 9000", &[]);
    assert_eq!(config.listeners.http, socket("127.0.0.1:9000"));
    assert_eq!(config.listeners.grpc, socket("127.0.0.1:8001"));
    assert_eq!(config.listeners.sagemaker, socket("127.0.0.1:8080"));
    let later = self::config("--http-port 1 --port 2", &[]);
    assert_eq!(ports(&later)[0], 2, "of two spellings the later counts");
    check_refused(
        "--host example.com",
        &[],
        &["--host 'example.com' (command line)", "expected an IP"],
    );
    assert_eq!(ports(&self::config("", &["MUSTER_PORT=9000"]))[0], 8000, "no variables");
}

#[test]
fn what_most_people_would_type_says_what_to_type_here() {
    for (typed, part) in [
        ("--bind=127.0.0.1:80", "--http-address"),
        ("--address=127.0.0.1", "--http-address"),
        ("--log-level debug", "--log-verbose=1"),
        ("--workers 4", "--http-thread-count"),
        ("--reload", "--model-control-mode=poll"),
        ("-v", "--version"),
        ("-p8080", "--http-port"),
        ("--model_name=m", "--model-name"),
    ] {
        check_refused(typed, &[], &["unknown option -", part]);
    }
}

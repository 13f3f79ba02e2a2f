//! The reference against the code: names of metrics, fields of a model's configuration, statuses of errors. Flags and
//! routes are compared where the code lists them, in `server/src/config/tests.rs` and `tests/tools/reference.rs`.

use std::{collections::BTreeSet, fs};

use super::sources::{files_in, read, root};

/// How names of metrics begin.
const METRICS: [&str; 4] = ["muster_", "nv_", "te_", "process_"];

/// The texts in backticks.
fn codes(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|it| !it.starts_with("```")).flat_map(|it| it.split('`').skip(1).step_by(2))
}

/// The cells of the table below a heading, by rows.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).expect("the heading");
    let section = rest.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|it| it.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|it| it.split(" | ").collect()).skip(1).collect()
}

#[test]
fn the_metrics_of_the_page_are_those_of_the_code() {
    let folder = "server/telemetry/src/metrics/exposition";
    let mut shown = BTreeSet::new();
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("a file");
        let texts = text.split('"').skip(1).step_by(2);
        let names = texts.filter(|it| METRICS.iter().any(|begin| it.starts_with(begin)));
        shown.extend(names.map(str::to_owned));
    }
    let page = read("docs/reference/metrics.md");
    let firsts = page.lines().filter_map(|it| it.strip_prefix("| ")?.split(" | ").next());
    let named =
        firsts.flat_map(codes).filter(|it| METRICS.iter().any(|begin| it.starts_with(begin)));
    let named: BTreeSet<String> = named.map(str::to_owned).collect();
    let lacking: Vec<&String> = shown.difference(&named).collect();
    let invented: Vec<&String> = named.difference(&shown).collect();
    assert!(lacking.is_empty(), "docs/reference/metrics.md lacks {lacking:?}");
    assert!(
        invented.is_empty(),
        "docs/reference/metrics.md names {invented:?}, which nothing shows"
    );
}

/// The fields of a message of Triton's configuration.
fn fields_of(message: &str) -> Vec<String> {
    let text = read("server/proto/model_config.proto");
    let (_, rest) = text.split_once(&format!("\nmessage {message} {{\n")).expect("the message");
    let body = rest.split("\n}\n").next().unwrap_or_default();
    let mut depth = 0;
    let mut fields = Vec::new();
    for line in body.lines().map(str::trim) {
        // The choices of a `oneof` are fields of the message around it.
        let opens = line.ends_with('{') && !line.starts_with("oneof");
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            _ if opens => depth += 1,
            ["}"] if 0 < depth => depth -= 1,
            [.., name, "=", number] if depth == 0 && number.ends_with(';') => {
                fields.push(name.to_owned());
            }
            _ => {}
        }
    }
    fields
}

#[test]
fn every_field_of_a_configuration_stands_in_the_reference() {
    let page = read("docs/reference/model-configuration.md");
    let said: BTreeSet<&str> = codes(&page)
        .flat_map(|it| it.split(|it: char| !it.is_alphanumeric() && it != '_'))
        .collect();
    let mut lacking = Vec::new();
    for message in ["ModelConfig", "ModelInstanceGroup", "ModelDynamicBatching", "ModelQueuePolicy"]
    {
        let fields = fields_of(message);
        assert!(3 < fields.len(), "{message}: {fields:?}");
        lacking.extend(fields.into_iter().filter(|it| !said.contains(&**it)));
    }
    assert!(lacking.is_empty(), "docs/reference/model-configuration.md lacks {lacking:?}");
}

/// The number of each status that the code names.
const STATUSES: &[(&str, &str)] = &[
    ("BAD_REQUEST", "400"),
    ("UNAUTHORIZED", "401"),
    ("FORBIDDEN", "403"),
    ("NOT_FOUND", "404"),
    ("METHOD_NOT_ALLOWED", "405"),
    ("NOT_ACCEPTABLE", "406"),
    ("REQUEST_TIMEOUT", "408"),
    ("CONFLICT", "409"),
    ("PAYLOAD_TOO_LARGE", "413"),
    ("URI_TOO_LONG", "414"),
    ("UNSUPPORTED_MEDIA_TYPE", "415"),
    ("FAILED_DEPENDENCY", "424"),
    ("UPGRADE_REQUIRED", "426"),
    ("REQUEST_HEADER_FIELDS_TOO_LARGE", "431"),
    ("INTERNAL_SERVER_ERROR", "500"),
    ("NOT_IMPLEMENTED", "501"),
    ("SERVICE_UNAVAILABLE", "503"),
    ("GATEWAY_TIMEOUT", "504"),
    ("INSUFFICIENT_STORAGE", "507"),
];

/// Of the tables of other servers, which the page on their protocols has, and of replies that are no errors.
const ELSEWHERE: &[&str] = &[
    "ACCEPTED",
    "NOT_MODIFIED",
    "NO_CONTENT",
    "OK",
    "SWITCHING_PROTOCOLS",
    "TOO_MANY_REQUESTS",
    "UNPROCESSABLE_ENTITY",
];

#[test]
fn the_statuses_of_the_page_are_those_of_the_code() {
    let files = ["server/frontend/src", "server/protocols"];
    let texts = files.iter().flat_map(|it| files_in(it, "rs")).map(|it| read(&it));
    let mut answered = BTreeSet::new();
    for text in texts {
        for rest in text.split("StatusCode::").skip(1) {
            let name = rest.split(|it: char| !it.is_ascii_uppercase() && it != '_').next();
            let name = name.filter(|it| !it.is_empty() && !ELSEWHERE.contains(it));
            let Some(name) = name else { continue };
            let number = STATUSES.iter().find(|it| it.0 == name).map(|it| it.1);
            answered.insert(number.unwrap_or_else(|| panic!("which page has {name}?")));
        }
    }
    let page = read("docs/reference/routes.md");
    let listed: Vec<&str> =
        table(&page, "## Errors").iter().flat_map(|it| it[0].split(", ")).collect();
    let sorted: BTreeSet<&str> =
        listed.iter().copied().filter(|it| it.parse::<u16>().is_ok()).collect();
    assert_eq!(sorted, answered, "the statuses of docs/reference/routes.md, and of the code");
}

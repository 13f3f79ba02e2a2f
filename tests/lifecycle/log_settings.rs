//! The log's settings, as clients read and change them while the server runs, and what they do to its lines.

use std::collections::BTreeMap;

use frontend::grpc::proto::{
    LogSettingsRequest, LogSettingsResponse, log_settings_request, log_settings_response,
};
use tonic::Code;

use crate::support::{
    Process, Repository,
    grpc::{Client, refused},
    infer,
};
use log_settings_request::{SettingValue, setting_value::ParameterChoice};
use log_settings_response::setting_value::ParameterChoice as Shown;

fn set(
    client: &mut Client,
    changes: &[(&str, ParameterChoice)],
) -> Result<BTreeMap<String, Shown>, tonic::Status> {
    let setting = |(name, choice): &(&str, ParameterChoice)| {
        let parameter_choice = Some(choice.clone());
        ((*name).to_owned(), SettingValue { parameter_choice })
    };
    let settings = changes.iter().map(setting).collect();
    let answer: LogSettingsResponse =
        client.call("LogSettings", LogSettingsRequest { settings })?;
    Ok(answer.settings.into_iter().filter_map(|(k, v)| Some((k, v.parameter_choice?))).collect())
}

fn text(text: &str) -> ParameterChoice {
    ParameterChoice::StringParam(text.to_owned())
}

#[test]
fn the_lines_that_come_after_a_change_are_as_it_says() {
    let repository = Repository::identity("m", &[]);
    let mut process = Process::start(&repository, &[], &[]);
    process.wait_ready();
    let mut client = Client::connect(process.address("grpc"));
    let mut http = process.client();
    let expect = BTreeMap::from([
        ("log_file".to_owned(), Shown::StringParam(String::new())),
        ("log_info".to_owned(), Shown::BoolParam(true)),
        ("log_warning".to_owned(), Shown::BoolParam(true)),
        ("log_error".to_owned(), Shown::BoolParam(true)),
        ("log_verbose_level".to_owned(), Shown::Uint32Param(0)),
        ("log_format".to_owned(), Shown::StringParam("text".to_owned())),
    ]);
    assert_eq!(set(&mut client, &[]).unwrap(), expect);
    let changes = [("log_format", text("json")), ("log_info", ParameterChoice::BoolParam(false))];
    let now = set(&mut client, &changes).unwrap();
    assert_eq!(now["log_format"], Shown::StringParam("json".to_owned()));
    // Rejected, which is information.
    http.post(&infer("unheard"), &[], "{}").expect(404);
    let changes = [
        ("log_info", ParameterChoice::BoolParam(true)),
        ("log_verbose_level", ParameterChoice::Uint32Param(1)),
    ];
    set(&mut client, &changes).unwrap();
    http.post(&infer("heard"), &[], "{}").expect(404);
    let line = process.wait_for_line("heard");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["message"], "request rejected");
    assert_eq!(line["path"], "/v2/models/heard/infer");
    assert!(process.log().iter().all(|it| !it.contains("unheard")));
    set(&mut client, &[("log_format", text("default"))]).unwrap();
    http.post(&infer("last"), &[], "{}").expect(404);
    let line = process.wait_for_line("] \"request rejected");
    assert!(line.starts_with('I') && line.contains(&format!(" {} ", process.id())), "{line}");
}

#[test]
fn a_broken_client_gets_ten_lines_a_second_and_the_others_are_counted() {
    let repository = Repository::identity("m", &[]);
    let mut process = Process::start(&repository, &[], &[]);
    process.wait_ready();
    let mut http = process.client();
    let began = std::time::Instant::now();
    const REQUESTS: usize = 200;
    for _ in 0..REQUESTS {
        http.post(&infer("absent"), &[], "{}").expect(404);
    }
    let seconds = began.elapsed().as_secs() + 2;
    http.post(&infer("m"), &[], "no JSON").expect(400);
    process.wait_for_line("/v2/models/m/infer");
    let told = |line: &str| -> usize {
        let count = line.split_once("and ").and_then(|it| it.1.split_once(" more requests"));
        count.map_or(0, |it| it.0.replace(',', "").parse().unwrap())
    };
    let count = |log: &[String]| {
        let of_their_own = log.iter().filter(|it| it.contains("/v2/models/absent/infer")).count();
        (of_their_own, of_their_own + log.iter().map(|it| told(it)).sum::<usize>())
    };
    let all = crate::support::wait_for("every failure to have a line or to be counted", || {
        let log = process.log();
        let (of_their_own, all) = count(&log);
        (REQUESTS <= all).then_some((of_their_own, all))
    });
    assert_eq!(all.1, REQUESTS);
    assert!(all.0 as u64 <= 10 * seconds, "{all:?} in {seconds} s");
}

#[test]
fn what_cannot_be_changed_is_named_and_nothing_is() {
    let server = crate::support::Server::start(&Repository::identity("m", &[]), &[]);
    let mut client = Client::new(&server);
    let before = set(&mut client, &[]).unwrap();
    let bad = [
        ("log_info", text("yes"), "true or false"),
        ("log_verbose_level", ParameterChoice::BoolParam(true), "a whole number"),
        ("log_format", text("xml"), "default, ISO8601, text or json"),
        ("log_colour", text("red"), "there is no log setting 'log_colour'"),
    ];
    for (name, value, part) in bad {
        let changes = [("log_error", ParameterChoice::BoolParam(false)), (name, value)];
        let said = refused(set(&mut client, &changes), Code::InvalidArgument);
        assert!(said.contains(part), "{said}");
    }
    let file = [("log_file", text("/etc/passwd"))];
    let said = refused(set(&mut client, &file), Code::Unimplemented);
    assert!(said.contains("--log-file"), "{said}");
    assert_eq!(set(&mut client, &[]).unwrap(), before);
}

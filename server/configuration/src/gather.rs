//! Everything that was given: on the command line, in variables of muster, in those of the containers that it replaces.

use inference::signature::nearest;

use crate::{
    command_line,
    compat::sagemaker,
    environment::{Environment, variable_text},
    flags::{Flag, FlagTable, Takes, variable_of},
    given::{Given, Origin, Typed},
    report::Notice,
    sources::Sources,
};

/// Collects what was given, everywhere.
pub fn gather<'a>(
    typed: &[Typed],
    flags: &'a FlagTable,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Sources<'a> {
    let mut sources = Sources::new(flags);
    let mut from_command_line = Vec::new();
    for Typed { name, value, spelled } in typed {
        let origin = spelled.clone().map_or(Origin::CommandLine, Origin::Other);
        match value.to_str() {
            Some(text) => from_command_line.push(Given::new(name, text.to_owned(), origin)),
            None => problems.push(format!("--{name} (command line): expected UTF-8 text")),
        }
    }
    sources.offer(from_command_line);
    let own = own_variables(flags, environment, &mut sources.notices, problems);
    sources.offer(own);
    let parse =
        |words, problems: &mut Vec<String>| command_line::parse_words(words, flags, problems);
    sagemaker::offer(environment, &parse, &mut sources, problems);
    sources.set_aside_without_effect();
    sources.notices.extend(unknown_own(flags, environment));
    sagemaker::write_notices(environment, &mut sources);
    sources
}

/// Texts of `MUSTER_*`.
fn own_variables(
    flags: &FlagTable,
    environment: &dyn Environment,
    notices: &mut Vec<Notice>,
    problems: &mut Vec<String>,
) -> Vec<Given> {
    let mut given = Vec::new();
    for name in flags.all_names() {
        let variable = variable_of(name);
        let Some(text) = variable_text(environment, &variable, problems) else { continue };
        if is_service_link(&text) {
            notices.push(Notice::debug(format!(
                "{variable}={text} is Kubernetes's link to a service and no setting"
            )));
            continue;
        }
        let name = flags.full_name(name);
        if flags.flag(name).is_some_and(|it| it.keeps_blanks) {
            let whole = environment.variable(&variable).and_then(|it| it.into_string().ok());
            given.push(Given::new(name, whole.unwrap_or(text), Origin::Own(variable)));
            continue;
        }
        let many = flags.flag(name).is_some_and(|it: &Flag| it.takes == Takes::Many);
        let texts = if many { text.split(';').collect() } else { vec![&*text] };
        given.extend(
            texts
                .into_iter()
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .map(|text| Given::new(name, text.to_owned(), Origin::Own(variable.clone()))),
        );
    }
    given
}

/// In a pod, a service named `muster-http` becomes `MUSTER_HTTP_PORT=tcp://10.0.0.7:80`.
fn is_service_link(text: &str) -> bool {
    ["tcp://", "udp://", "sctp://"].iter().any(|it| text.starts_with(it))
}

/// A warning for each `MUSTER_*` that is no setting. No error: Kubernetes makes such names too.
fn unknown_own(flags: &FlagTable, environment: &dyn Environment) -> Vec<Notice> {
    let mut names = environment.names();
    names.sort_unstable();
    let known: Vec<String> = flags.all_names().map(variable_of).collect();
    let is_link = |it: &str| {
        it == "MUSTER_PORT" || ["_SERVICE_", "_TCP", "_UDP"].iter().any(|part| it.contains(part))
    };
    names
        .iter()
        .filter(|it| it.starts_with("MUSTER_") && !known.contains(it) && !is_link(it))
        .map(|name| {
            let near = nearest(name, known.iter().map(|it| &**it));
            let hint = near.map_or(String::new(), |it| format!("; did you mean {it}?"));
            Notice::warning(format!("unknown variable {name} is ignored{hint}"))
        })
        .collect()
}

//! Variables of the containers that muster replaces, and the settings that they mean.

use super::{
    container,
    families::{FAMILIES, READ_ELSEWHERE},
    mapping::Means,
    spelling::words,
    variables::FURTHER_OPTIONS,
};
use crate::{
    environment::{Environment, variable_text},
    flags::FlagTable,
    given::{Given, Origin, Typed},
    report::Notice,
    sources::Sources,
};

/// Further ones begin like this, and do nothing.
const PREFIXES_WITHOUT_EFFECT: &[&str] = &["SAGEMAKER_TRANSFORMS_"];

/// Variables without the effect that their name suggests: each gets a warning with a reason.
const WARNED: &[(&str, &str)] = &[
    ("SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET", SHARED_SCRIPTS),
    ("SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX", SHARED_SCRIPTS),
];
const SHARED_SCRIPTS: &str = "scripts that models share are not run";

/// What becomes of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableState {
    /// It means a setting, or something else is done with it.
    Works,
    /// What it says does nothing; that it is set tells whose container is meant.
    Tells,
    /// It is taken, and does nothing.
    WithoutEffect,
}

/// Every variable of SageMaker's containers that is known, and what becomes of it; `*` at the end of a name stands for
/// any letters.
pub fn known_variables(flags: &FlagTable) -> Vec<(String, VariableState)> {
    let families = || FAMILIES.split_last().map_or(&[][..], |it| it.1).iter();
    let idle = |name: &str| match container::is_telling(name, flags) {
        true => VariableState::Tells,
        false => VariableState::WithoutEffect,
    };
    let state = |name: &str, means: &Means| match means.has_effect(flags) {
        true => VariableState::Works,
        false => idle(name),
    };
    let meant = families().flat_map(|it| it.means).map(|it| (it.0, state(it.0, &it.1)));
    let listed = families().flat_map(|it| it.without_effect).chain(WARNED.iter().map(|it| &it.0));
    let listed = listed.map(|it| (*it, idle(it)));
    let elsewhere = READ_ELSEWHERE.iter().map(|it| (*it, VariableState::Works));
    let named = meant.chain(listed).chain(elsewhere);
    let prefixes = PREFIXES_WITHOUT_EFFECT.iter();
    named
        .map(|(name, state)| (name.to_owned(), state))
        .chain(prefixes.map(|it| (format!("{it}*"), VariableState::WithoutEffect)))
        .collect()
}

/// Reads options out of words. What is wrong with them goes to the problems.
pub(crate) type ParseWords<'a> = &'a dyn Fn(Vec<String>, &mut Vec<String>) -> Vec<Typed>;

/// Offers the texts of foreign variables, best first.
pub(crate) fn offer(
    environment: &dyn Environment,
    parse_words: ParseWords<'_>,
    sources: &mut Sources<'_>,
    problems: &mut Vec<String>,
) {
    sources.offer(further_options(environment, parse_words, problems));
    for &(variable, means) in FAMILIES.iter().flat_map(|it| it.means) {
        let Some(text) = variable_text(environment, variable, problems) else { continue };
        // What is wrong with the other one is said where it has its own row.
        let other = |name: &str| variable_text(environment, name, &mut Vec::new());
        let origin = || Origin::Foreign(variable, text.clone());
        match means.settings(&text, &other) {
            Ok(settings) => {
                let given = settings.into_iter().map(|(name, it)| Given::new(name, it, origin()));
                sources.offer(given.collect());
            }
            Err(allowed) => {
                problems.push(format!("{variable}='{text}' (environment): expected {allowed}"));
            }
        }
    }
}

fn further_options(
    environment: &dyn Environment,
    parse_words: ParseWords<'_>,
    problems: &mut Vec<String>,
) -> Vec<Given> {
    let text = variable_text(environment, FURTHER_OPTIONS, problems);
    let Some(text) = text else { return Vec::new() };
    let mut inner = Vec::new();
    let typed = parse_words(words(&text), &mut inner);
    problems.extend(inner.into_iter().map(|it| format!("{FURTHER_OPTIONS} (environment): {it}")));
    let given = typed.into_iter().filter_map(|it| {
        let value = it.value.into_string().ok()?;
        let origin = Origin::Foreign(FURTHER_OPTIONS, value.clone());
        Some(Given::new(it.name, value, origin))
    });
    given.collect()
}

/// The variables that are set and mean no setting, by what becomes of them; sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// What they say is only written into the log, as `SAGEMAKER_REGION=eu-central-1`.
    pub noted: Vec<String>,
    /// Those that are taken and do nothing.
    pub without_effect: Vec<String>,
    /// Without effect of their own, but they tell whose container is meant.
    pub telling: Vec<String>,
    /// Without effect, with the reason.
    pub warned: Vec<(String, &'static str)>,
    /// Unknown variables that begin with `SAGEMAKER_`.
    pub unknown: Vec<String>,
}

impl Others {
    /// Looks for them.
    pub fn of(environment: &dyn Environment, flags: &FlagTable) -> Others {
        let mut names = environment.names();
        names.sort_unstable();
        let mut others = Others::default();
        for name in names {
            let is_meant = |it: &&(&str, Means)| it.0 == name;
            let means = FAMILIES.iter().find_map(|it| it.means.iter().find(is_meant));
            let without_effect = FAMILIES.iter().any(|it| it.without_effect.contains(&&*name))
                || PREFIXES_WITHOUT_EFFECT.iter().any(|it| name.starts_with(it));
            let is_known = READ_ELSEWHERE.contains(&&*name);
            if let Some((name, Means::Noted)) = means {
                // A value that is no UTF-8 is an error where all variables are read.
                let text = variable_text(environment, name, &mut Vec::new());
                others.noted.extend(text.map(|it| format!("{name}={it}")));
            } else if let Some((_, why)) = WARNED.iter().find(|it| it.0 == name) {
                others.warned.push((name, why));
            } else if without_effect && container::is_telling(&name, flags) {
                others.telling.push(name);
            } else if without_effect {
                others.without_effect.push(name);
            } else if name.starts_with("SAGEMAKER_") && means.is_none() && !is_known {
                others.unknown.push(name);
            }
        }
        others
    }
}

/// What stands before variables that say nothing else.
pub const TELLING: &str =
    "variables with no setting of their own, which tell whose container is meant";

/// What became of foreign variables: a line each for those that were applied, are only noted, have no effect, tell
/// whose container is meant, or are unknown.
pub(crate) fn write_notices(environment: &dyn Environment, sources: &mut Sources<'_>) {
    let given = sources.given();
    let mut applied: Vec<String> = given
        .iter()
        .flat_map(|it| it.1)
        .filter_map(|it| match &it.origin {
            Origin::Foreign(variable, _) => {
                Some(format!("{variable}: --{} {}", it.name, it.shown()))
            }
            Origin::CommandLine | Origin::Own(_) | Origin::Other(_) | Origin::Triton => None,
        })
        .collect();
    applied.sort_unstable();
    let Others { noted, without_effect, telling, warned, unknown } =
        Others::of(environment, sources.flags());
    let notices = &mut sources.notices;
    let mut say = |make: fn(String) -> Notice, what: &str, all: &[String], between: &str| {
        if !all.is_empty() {
            notices.push(make(format!("{what}: {}", all.join(between))));
        }
    };
    say(Notice::info, "applied from the environment", &applied, "; ");
    say(Notice::info, "noted from the environment", &noted, "; ");
    say(Notice::info, "variables without effect", &without_effect, ", ");
    say(Notice::info, TELLING, &telling, ", ");
    say(Notice::debug, "unknown variables", &unknown, ", ");
    let warning = |(name, why)| Notice::warning(format!("{name} is without effect: {why}"));
    notices.extend(warned.into_iter().map(warning));
}

/// Every variable, and the settings that it may be about: for a test that there are such flags.
pub fn meant_settings() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    FAMILIES.iter().flat_map(|it| it.means).map(|(variable, means)| (*variable, means.names()))
}

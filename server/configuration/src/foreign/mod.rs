//! Variables of the containers that muster replaces, and the settings that they mean. Within a setting
//! the more specific family wins: Triton, TensorFlow Serving, TorchServe, toolkits, anybody's.

mod anybody;
mod means;
mod tensorflow;
mod toolkits;
mod torchserve;
mod triton;
mod vendors;
mod words;

use std::collections::HashMap;

use super::{
    command_line,
    environment::Environment,
    flags,
    report::Notice,
    sources::{Given, Origin, variable_text},
};
use means::Means;
pub(super) use vendors::vendor;
use words::words;

/// The variables of one family of containers.
struct Family {
    /// For one setting the first row that says something counts.
    means: &'static [(&'static str, Means)],
    /// Known, and they do nothing; set, they get one line together.
    without_effect: &'static [&'static str],
}

/// The most specific first.
const FAMILIES: &[Family] = &[
    triton::FAMILY,
    tensorflow::FAMILY,
    torchserve::FAMILY,
    toolkits::FAMILY,
    anybody::FAMILY,
    anybody::NOT_SAGEMAKER,
];

/// Holds further options, separated as a shell does.
const FURTHER_OPTIONS: &str = "SAGEMAKER_TRITON_ADDITIONAL_ARGS";

/// Where the platform puts models, by two variables: the folder itself, or the one above `model`.
pub(super) const MODEL_PATH: &str = "SAGEMAKER_MODEL_PATH";
pub(super) const BASE_DIR: &str = "SAGEMAKER_BASE_DIR";
/// The port that the platform chose; with it the process is surely hosted.
pub(super) const BIND_TO_PORT: &str = "SAGEMAKER_BIND_TO_PORT";
/// What a user's script is called, and the folder that it lies in.
pub(super) const PROGRAM: &str = "SAGEMAKER_PROGRAM";
pub(super) const SUBMIT_DIRECTORY: &str = "SAGEMAKER_SUBMIT_DIRECTORY";
/// A model that is to be fetched from a hub, which this server does not do.
pub(super) const HUB_MODEL: &str = "HF_MODEL_ID";
/// Every variable of the container of TensorFlow Serving that is about models begins so.
pub(super) const TENSORFLOW: &str = "SAGEMAKER_TFS_";

/// Those that are not texts for one setting, and are read where they are needed.
const READ_ELSEWHERE: &[&str] =
    &[FURTHER_OPTIONS, MODEL_PATH, BASE_DIR, PROGRAM, SUBMIT_DIRECTORY, HF_TASK, MLFLOW_FLAVOR];

/// These say only that Hugging Face's container, and MLflow's, is meant; see `vendors.rs`.
const HF_TASK: &str = "HF_TASK";
const MLFLOW_FLAVOR: &str = "MLFLOW_DEPLOYMENT_FLAVOR_NAME";

/// Further ones begin like this, and do nothing.
const PREFIXES_WITHOUT_EFFECT: &[&str] = &["SAGEMAKER_TRANSFORMS_"];

/// Without effect, where somebody would wait for one: each gets a warning and its reason.
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
pub fn sagemaker_variables() -> Vec<(String, VariableState)> {
    let families = || FAMILIES.split_last().map_or(&[][..], |it| it.1).iter();
    let idle = |name: &str| match vendors::tells(name) {
        true => VariableState::Tells,
        false => VariableState::WithoutEffect,
    };
    let state = |name: &str, means: &Means| match means.has_effect() {
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

/// Does what this variable says change anything?
fn means_something(name: &str) -> bool {
    let mut meant = FAMILIES.iter().flat_map(|it| it.means);
    READ_ELSEWHERE.contains(&name) || meant.any(|it| it.0 == name && it.1.has_effect())
}

/// Offers the texts of foreign variables, best first.
pub(super) fn offer(
    environment: &dyn Environment,
    problems: &mut Vec<String>,
    offer: &mut dyn FnMut(Vec<Given>),
) {
    further_options(environment, problems, offer);
    for &(variable, means) in FAMILIES.iter().flat_map(|it| it.means) {
        let Some(text) = variable_text(environment, variable, problems) else { continue };
        // What is wrong with the other one is said where it has its own row.
        let other = |name: &str| variable_text(environment, name, &mut Vec::new());
        match means.settings(&text, &other) {
            Ok(settings) => offer(Vec::from_iter(settings.into_iter().map(|(name, value)| {
                Given { name, text: value, origin: Origin::Foreign(variable, text.clone()) }
            }))),
            Err(allowed) => {
                problems.push(format!("{variable}='{text}' (environment): expected {allowed}"));
            }
        }
    }
}

fn further_options(
    environment: &dyn Environment,
    problems: &mut Vec<String>,
    offer: &mut dyn FnMut(Vec<Given>),
) {
    let Some(text) = variable_text(environment, FURTHER_OPTIONS, problems) else { return };
    let mut inner = Vec::new();
    let typed = command_line::parse_words(words(&text), &mut inner);
    problems.extend(inner.into_iter().map(|it| format!("{FURTHER_OPTIONS} (environment): {it}")));
    let given = typed.into_iter().filter_map(|it| {
        let value = it.value.into_string().ok()?;
        let origin = Origin::Foreign(FURTHER_OPTIONS, value.clone());
        Some(Given { name: it.name, text: value, origin })
    });
    offer(given.collect());
}

/// The variables that are set and mean no setting, by what becomes of them; sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// What they say is only written into the log, as `SAGEMAKER_REGION=eu-central-1`.
    pub(super) noted: Vec<String>,
    pub(super) without_effect: Vec<String>,
    /// Without effect of their own, but they tell whose container is meant.
    pub(super) telling: Vec<String>,
    /// Without effect, with the reason.
    pub(super) warned: Vec<(String, &'static str)>,
    /// `SAGEMAKER_*` that nobody knows.
    pub(super) unknown: Vec<String>,
}

impl Others {
    /// Looks for them.
    pub(super) fn of(environment: &dyn Environment) -> Others {
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
                // That it is no text is told where all of them are read.
                let text = variable_text(environment, name, &mut Vec::new());
                others.noted.extend(text.map(|it| format!("{name}={it}")));
            } else if let Some((_, why)) = WARNED.iter().find(|it| it.0 == name) {
                others.warned.push((name, why));
            } else if without_effect && vendors::tells(&name) {
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
pub(super) const TELLING: &str =
    "variables with no setting of their own, which tell whose container is meant";

/// What became of foreign variables: a line for those that were applied, one for those that are only noted,
/// one for those without effect, one for those that tell whose container is meant, one for those that nobody knows.
pub(super) fn notices(
    environment: &dyn Environment,
    given: &HashMap<&'static str, Vec<Given>>,
    notices: &mut Vec<Notice>,
) {
    let mut applied: Vec<String> = given
        .values()
        .flatten()
        .filter_map(|it| match &it.origin {
            Origin::Foreign(variable, _) => {
                Some(format!("{variable}: --{} {}", it.name, flags::shown(it.name, &it.text)))
            }
            Origin::CommandLine | Origin::Own(_) | Origin::Other(_) | Origin::Triton => None,
        })
        .collect();
    applied.sort_unstable();
    let Others { noted, without_effect, telling, warned, unknown } = Others::of(environment);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_means_a_setting_that_exists() {
        for (variable, means) in FAMILIES.iter().flat_map(|it| it.means) {
            for name in means.names() {
                assert!(flags::all_names().any(|it| it == name), "{variable}: --{name}");
            }
        }
    }

    #[test]
    fn every_variable_is_in_one_place() {
        let mut names: Vec<String> = sagemaker_variables().into_iter().map(|it| it.0).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

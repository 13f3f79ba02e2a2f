//! Models that are named one by one, each with its directory, as TensorFlow Serving does: what a model config file or a
//! request to reload says, checked as far as it can be without a look at the disk. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use crate::{
    config::engines::Engines,
    repository::local::{FoundModel, is_model_name},
};
use message::{
    file_system_storage_path_source_config::servable_version_policy::PolicyChoice,
    model_server_config::Config,
};
use serving::{
    config::{
        model::VersionPolicy,
        raw::{self, ModelVersionPolicy, model_version_policy},
    },
    label_table::VersionLabels,
};
use textproto::tensorflow::raw as message;

/// One model.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedModel {
    /// What clients call it.
    pub name: String,
    /// The directory of its versions.
    pub base_path: PathBuf,
    /// Which of them are served; `None` for what the model's own configuration says, or the highest.
    pub policy: Option<VersionPolicy>,
    /// Names of versions.
    pub labels: VersionLabels,
    /// The name of its format; empty where none is given. The model's file decides.
    pub platform: String,
    /// What is configured besides and has no effect.
    pub ignored: Vec<String>,
}

impl ListedModel {
    /// A model of which nothing but its name and its place is said.
    pub fn new(name: &str, base_path: PathBuf) -> ListedModel {
        ListedModel {
            name: name.to_owned(),
            base_path,
            policy: None,
            labels: VersionLabels::new(),
            platform: String::new(),
            ignored: Vec::new(),
        }
    }

    /// Everything that is configured and has no effect, one sentence each.
    pub(crate) fn without_effect(&self, engines: &Engines) -> Vec<String> {
        let platform = &self.platform;
        let is_unknown = !platform.is_empty() && !engines.serve_platform(platform);
        let unknown = is_unknown
            .then(|| format!("model_platform '{platform}': the model's file says what it is"));
        unknown.into_iter().chain(self.ignored.iter().cloned()).collect()
    }
}

/// The models that a message names; `None` where it says nothing at all, which TensorFlow Serving takes and does
/// nothing for.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub fn listed_models(
    config: &message::ModelServerConfig,
) -> Result<Option<Vec<ListedModel>>, Vec<String>> {
    let list = match &config.config {
        None => return Ok(None),
        Some(Config::CustomModelConfig(_)) => {
            return Err(vec![
                "custom_model_config is not supported; expected model_config_list".to_owned(),
            ]);
        }
        Some(Config::ModelConfigList(list)) => list,
    };
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    let models = list.config.iter().enumerate().map(|(i, it)| {
        let place = format!("model_config_list.config[{i}]");
        if !names.insert(&*it.name) {
            problems.push(format!("{place}.name: '{}' is used twice", it.name));
        }
        model(it, &place, &mut problems)
    });
    let models: Vec<ListedModel> = models.collect();
    if problems.is_empty() { Ok(Some(models)) } else { Err(problems) }
}

fn model(config: &message::ModelConfig, place: &str, problems: &mut Vec<String>) -> ListedModel {
    let name = &config.name;
    if name.is_empty() || name.contains(['/', '\0']) || !is_model_name(name) {
        let shown: String = name.chars().take(100).collect();
        problems.push(format!(
            "{place}.name: expected a name without '/' that does not begin with '.', got '{}'",
            shown.escape_debug()
        ));
    }
    let path = config.base_path.as_str();
    if path.is_empty() {
        problems.push(format!(
            "{place}.base_path: expected the directory of the versions of '{name}', got none"
        ));
    }
    if let Some((scheme, _)) = path.split_once("://") {
        problems.push(format!(
            "{place}.base_path: expected a directory, got '{path}': a model in a store ({scheme}) is served with \
             --model-repository"
        ));
    }
    let mut number = |field: &str, version: i64| match u64::try_from(version) {
        Ok(version) if 0 < version => version,
        _ => {
            problems.push(format!("{place}.{field}: expected a version from 1, got {version}"));
            0
        }
    };
    let choice = config.model_version_policy.as_ref().and_then(|it| it.policy_choice.as_ref());
    let policy = choice.map(|it| match it {
        PolicyChoice::Latest(latest) => {
            VersionPolicy::Latest(usize::try_from(latest.num_versions.max(1)).unwrap_or(usize::MAX))
        }
        PolicyChoice::All(_) => VersionPolicy::All,
        PolicyChoice::Specific(specific) => {
            let versions = specific.versions.iter();
            let versions: BTreeSet<u64> =
                versions.map(|it| number("model_version_policy.specific.versions", *it)).collect();
            VersionPolicy::Specific(versions.into_iter().collect())
        }
    });
    let labels = config.version_labels.iter();
    let labels = labels
        .map(|(label, version)| {
            (label.clone(), number(&format!("version_labels '{label}'"), *version))
        })
        .collect();
    if policy == Some(VersionPolicy::Specific(Vec::new())) {
        problems.push(format!(
            "{place}.model_version_policy.specific.versions: expected at least one number, got none"
        ));
    }
    let (platform, ignored) = (config.model_platform.clone(), ignored(config));
    ListedModel { name: name.clone(), base_path: path.into(), policy, labels, platform, ignored }
}

fn ignored(config: &message::ModelConfig) -> Vec<String> {
    let mut ignored = Vec::new();
    if config.model_type != 0 {
        ignored.push("model_type: the model's file says what it is".to_owned());
    }
    if config.logging_config.is_some() {
        ignored.push("logging_config: requests are logged with --log-requests".to_owned());
    }
    ignored
}

/// The model's own configuration with the policy that it was configured with, and with versions that are to go on
/// serving for as long as they are there.
pub(crate) fn with_policy(
    raw: Option<raw::ModelConfig>,
    policy: Option<&VersionPolicy>,
    keep: &BTreeSet<u64>,
    found: &FoundModel,
) -> Option<raw::ModelConfig> {
    let keep: BTreeSet<u64> =
        keep.iter().copied().filter(|it| found.versions.contains_key(it)).collect();
    let own = raw
        .as_ref()
        .map(|it| crate::config::check::settings::version_policy(it, &mut Default::default()));
    let policy = match policy {
        None if keep.is_empty() => return raw,
        None => own.unwrap_or(VersionPolicy::Latest(1)),
        Some(policy) => policy.clone(),
    };
    let choice = match policy {
        VersionPolicy::All => model_version_policy::PolicyChoice::All(Default::default()),
        VersionPolicy::Latest(count) if keep.is_empty() => {
            let num_versions = u32::try_from(count).unwrap_or(u32::MAX);
            model_version_policy::PolicyChoice::Latest(model_version_policy::Latest {
                num_versions,
            })
        }
        policy => {
            let versions = wanted(&policy, &found.versions).chain(keep);
            let versions: BTreeSet<u64> = versions.collect();
            let versions = versions.into_iter().map(u64::cast_signed).collect();
            model_version_policy::PolicyChoice::Specific(model_version_policy::Specific {
                versions,
            })
        }
    };
    let version_policy = Some(ModelVersionPolicy { policy_choice: Some(choice) });
    Some(raw::ModelConfig { version_policy, ..raw.unwrap_or_default() })
}

/// The versions that a policy asks for, of those that there are; by number also those that are not there.
pub(crate) fn wanted<'a>(
    policy: &'a VersionPolicy,
    here: &'a BTreeMap<u64, PathBuf>,
) -> Box<dyn Iterator<Item = u64> + 'a> {
    match policy {
        VersionPolicy::Latest(count) => Box::new(here.keys().copied().rev().take(*count)),
        VersionPolicy::All => Box::new(here.keys().copied()),
        VersionPolicy::Specific(numbers) => Box::new(numbers.iter().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::engines::usual;
    use textproto::tensorflow::model_server_config;

    fn read(text: &str) -> Result<Option<Vec<ListedModel>>, Vec<String>> {
        listed_models(&model_server_config("models.config", text).unwrap())
    }

    fn one(text: &str) -> ListedModel {
        let text = format!("model_config_list {{ config {{ name: 'm' base_path: '/m' {text} }} }}");
        read(&text).unwrap().unwrap().remove(0)
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let problems = read(&format!("model_config_list {{ {text} }}")).unwrap_err();
        assert_eq!(problems, [expected]);
    }

    #[test]
    fn policies_and_labels_are_taken_as_they_are_written() {
        let policy = |text: &str| one(&format!("model_version_policy {{ {text} }}")).policy;
        assert_eq!(one("").policy, None);
        assert_eq!(policy("latest { }"), Some(VersionPolicy::Latest(1)));
        assert_eq!(policy("latest { num_versions: 2 }"), Some(VersionPolicy::Latest(2)));
        assert_eq!(policy("all { }"), Some(VersionPolicy::All));
        let specific = policy("specific { versions: 7 versions: 3 }");
        assert_eq!(specific, Some(VersionPolicy::Specific(vec![3, 7])));
        let labels = one("version_labels { key: 'stable' value: 3 }").labels;
        assert_eq!(labels, VersionLabels::from([("stable".to_owned(), 3)]));
    }

    #[test]
    fn nothing_at_all_is_no_list_and_an_empty_list_is_one() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("model_config_list { }"), Ok(Some(vec![])));
    }

    #[test]
    fn what_has_no_effect_is_named_unless_it_says_what_the_file_says() {
        let ignored = |text: &str| one(text).without_effect(&usual());
        for platform in ["onnxruntime_onnx", "onnx", "pytorch_libtorch", "pytorch", "tensorflow"] {
            assert_eq!(ignored(&format!("model_platform: '{platform}'")), [""; 0]);
        }
        let ignored = ignored("model_platform: 'caffe' logging_config { }");
        assert_eq!(ignored.len(), 2);
        assert!(ignored[0].starts_with("model_platform 'caffe'"), "{ignored:?}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        check_refused(
            "config { name: 'a' base_path: '/a' } config { name: 'a' base_path: '/b' }",
            "model_config_list.config[1].name: 'a' is used twice",
        );
        check_refused(
            "config { name: 'a' }",
            "model_config_list.config[0].base_path: expected the directory of the versions of 'a', got none",
        );
        check_refused(
            "config { name: '../a' base_path: '/a' }",
            "model_config_list.config[0].name: expected a name without '/' that does not begin with '.', got '../a'",
        );
        check_refused(
            "config { name: 'a' base_path: 'gs://b/a' }",
            "model_config_list.config[0].base_path: expected a directory, got 'gs://b/a': a model in a store (gs) is \
             served with --model-repository",
        );
        check_refused(
            "config { name: 'a' base_path: '/a' model_version_policy { specific { versions: -1 } } }",
            "model_config_list.config[0].model_version_policy.specific.versions: expected a version from 1, got -1",
        );
        check_refused(
            "config { name: 'a' base_path: '/a' version_labels { key: 'x' value: 0 } }",
            "model_config_list.config[0].version_labels 'x': expected a version from 1, got 0",
        );
        assert!(
            read("custom_model_config { }").unwrap_err()[0].starts_with("custom_model_config is")
        );
    }

    #[track_caller]
    fn check_versions(policy: Option<VersionPolicy>, keep: &[u64], expected: &str) {
        let found = FoundModel {
            name: "m".into(),
            namespace: Default::default(),
            config: None,
            dir: "m".into(),
            versions: (1..=3).map(|it| (it, PathBuf::new())).collect(),
            renamed: true,
            label: None,
            is_of_request: false,
            others: Default::default(),
            script: None,
            contents: Default::default(),
        };
        let keep = keep.iter().copied().collect();
        let raw = with_policy(None, policy.as_ref(), &keep, &found);
        let choice = raw.and_then(|it| it.version_policy?.policy_choice);
        assert_eq!(format!("{choice:?}"), expected);
    }

    #[test]
    fn versions_that_are_to_be_kept_are_added_to_those_of_the_policy() {
        check_versions(None, &[], "None");
        check_versions(None, &[1], "Some(Specific(Specific { versions: [1, 3] }))");
        let latest = VersionPolicy::Latest(2);
        check_versions(Some(latest.clone()), &[], "Some(Latest(Latest { num_versions: 2 }))");
        check_versions(Some(latest), &[1, 9], "Some(Specific(Specific { versions: [1, 2, 3] }))");
        let specific = VersionPolicy::Specific(vec![2, 8]);
        check_versions(Some(specific), &[3], "Some(Specific(Specific { versions: [2, 3, 8] }))");
        check_versions(Some(VersionPolicy::All), &[3], "Some(All(All))");
    }
}

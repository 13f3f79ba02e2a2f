//! Which of the versions that were found are to be served. Pure.

use std::path::Path;

use crate::{
    config::check::{report::Report, settings::version_policy},
    repository::local::FoundModel,
};
use inference::error::Error;
use serving::config::{model::VersionPolicy, raw};

/// The versions that the policy asks for.
#[derive(Debug)]
pub(crate) struct WantedVersions<'a> {
    /// Where they lie; at least one.
    pub(crate) here: Vec<(u64, &'a Path)>,
    /// Asked for by number, and not there.
    pub(crate) missing: Vec<u64>,
}

/// Picks them.
///
/// # Errors
/// When the policy is not valid, or there is nothing that it asks for.
pub(crate) fn wanted_versions<'a>(
    raw: Option<&raw::ModelConfig>,
    found: &'a FoundModel,
) -> Result<WantedVersions<'a>, Error> {
    let mut report = Report::default();
    let policy = raw.map_or(VersionPolicy::Latest(1), |it| version_policy(it, &mut report));
    let policy = report.into_result(&found.name, policy);
    let (policy, _) = policy.map_err(|it| Error::InvalidRequest(it.to_string()))?;
    let all = found.versions.iter().map(|(number, path)| (*number, path.as_path()));
    let (here, missing): (Vec<(u64, &Path)>, Vec<u64>) = match policy {
        VersionPolicy::Latest(count) => (all.rev().take(count).collect(), Vec::new()),
        VersionPolicy::All => (all.collect(), Vec::new()),
        VersionPolicy::Specific(numbers) => (
            all.filter(|(number, _)| numbers.contains(number)).collect(),
            numbers.iter().copied().filter(|it| !found.versions.contains_key(it)).collect(),
        ),
    };
    if here.is_empty() {
        let list = |it: &[u64]| it.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        if !missing.is_empty() && !found.versions.is_empty() {
            return Err(Error::InvalidRequest(format!(
                "no version to load: version_policy asks for {}, and {} has versions: {numbers}; write one of these \
                 in version_policy.specific, or leave version_policy out for the highest",
                list(&missing),
                found.dir.display(),
                numbers = list(&found.versions.keys().copied().collect::<Vec<_>>()),
            )));
        }
        let numbers: Vec<String> = found.versions.keys().map(u64::to_string).collect();
        let have = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
        return Err(Error::InvalidRequest(format!(
            "no version to load: {} has versions: {have}; a version is a directory such as {}",
            found.dir.display(),
            found.dir.join("1").display()
        )));
    }
    Ok(WantedVersions { here, missing })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::pbtxt::ConfigReader;

    /// Versions of a model that has 1, 2 and 3, by the policy in this text.
    fn wanted(text: &str) -> Result<(Vec<u64>, Vec<u64>), Error> {
        let raw = ConfigReader::default().parse_text("config.pbtxt", text).unwrap();
        let versions = (1..=3).map(|it| (it, PathBuf::from(it.to_string()))).collect();
        let found = FoundModel {
            name: "m".into(),
            namespace: Default::default(),
            config: None,
            dir: "m".into(),
            versions,
            renamed: false,
            label: None,
            is_of_request: false,
            others: Default::default(),
            script: None,
            contents: Default::default(),
        };
        let wanted = wanted_versions(Some(&raw), &found)?;
        Ok((wanted.here.iter().map(|(number, _)| *number).collect(), wanted.missing))
    }

    #[test]
    fn the_latest_version_is_served_unless_the_policy_says_otherwise() {
        assert_eq!(wanted(""), Ok((vec![3], vec![])));
        assert_eq!(
            wanted("version_policy { latest { num_versions: 2 } }"),
            Ok((vec![3, 2], vec![]))
        );
        assert_eq!(wanted("version_policy { all { } }"), Ok((vec![1, 2, 3], vec![])));
    }

    #[test]
    fn a_missing_version_is_reported_and_the_others_are_served() {
        let policy = "version_policy { specific { versions: [ 7, 1 ] } }";
        assert_eq!(wanted(policy), Ok((vec![1], vec![7])));
        let error = wanted("version_policy { specific { versions: 7 } }").unwrap_err().to_string();
        let said =
            "no version to load: version_policy asks for 7, and m has versions: 1, 2, 3; write one";
        assert!(error.starts_with(said), "{error}");
        let error = wanted("version_policy { specific { versions: -1 } }").unwrap_err().to_string();
        assert!(error.contains("versions[0] is -1; expected at least 1"), "{error}");
    }
}

//! A profile of Amazon's two files, `~/.aws/credentials` and `~/.aws/config`. Pure.

use std::collections::BTreeMap;

/// Keys of a profile that say how to get credentials by ways that are not here.
const OTHER_WAYS: [&str; 4] =
    ["credential_process", "sso_session", "sso_start_url", "source_profile"];

/// The keys and values of a profile by both files, of which that of credentials goes first. `None` where
/// neither has it.
pub(super) fn profile(
    name: &str,
    credentials: &str,
    config: &str,
) -> Option<BTreeMap<String, String>> {
    let in_config = if name == "default" { name.to_owned() } else { format!("profile {name}") };
    let found = [section(config, &in_config), section(credentials, name)];
    let found: Vec<BTreeMap<String, String>> = found.into_iter().flatten().collect();
    (!found.is_empty()).then(|| found.into_iter().flatten().collect())
}

/// The way of getting credentials that a profile asks for and that is not here.
pub(super) fn other_way(profile: &BTreeMap<String, String>) -> Option<&'static str> {
    OTHER_WAYS.into_iter().find(|it| profile.contains_key(*it))
}

/// The pairs below a heading `[name]`; `None` where there is no such heading.
fn section(text: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let mut found: Option<BTreeMap<String, String>> = None;
    let mut inside = false;
    for line in text.lines() {
        let nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[').and_then(|it| it.split(']').next()) {
            inside = heading.split_whitespace().eq(name.split_whitespace());
            if inside {
                found.get_or_insert_default();
            }
        } else if let (true, false, Some((key, value))) = (inside, nested, line.split_once('=')) {
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().to_owned());
            found.get_or_insert_default().insert(key, value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "[default]\naws_access_key_id = A\naws_secret_access_key=s=1\n\n\
                               # comment\n[ml]\naws_access_key_id=B\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n\
                          [profile ml]\nregion=us-west-2\n[profile sso]\nsso_start_url=x\n";

    fn get(name: &str, key: &str) -> Option<String> {
        profile(name, CREDENTIALS, CONFIG)?.get(key).cloned()
    }

    #[test]
    fn a_profile_is_what_both_files_say() {
        assert_eq!(get("default", "aws_secret_access_key").as_deref(), Some("s=1"));
        assert_eq!(get("default", "region").as_deref(), Some("eu-west-1"));
        assert_eq!(get("default", "addressing_style"), None);
        assert_eq!(get("ml", "aws_access_key_id").as_deref(), Some("B"));
        assert_eq!(get("ml", "region").as_deref(), Some("us-west-2"));
        assert_eq!(profile("other", CREDENTIALS, CONFIG), None);
    }

    #[test]
    fn a_way_that_is_not_here_is_named() {
        let sso = profile("sso", CREDENTIALS, CONFIG).unwrap();
        assert_eq!(other_way(&sso), Some("sso_start_url"));
        assert_eq!(other_way(&profile("ml", CREDENTIALS, CONFIG).unwrap()), None);
    }
}

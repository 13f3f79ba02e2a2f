//! Ensembles that are made of each other: found before any of them waits for another to be loaded.

use std::collections::BTreeSet;

use super::{
    super::{ModelId, ensemble::members, raw},
    Control,
};

impl Control {
    /// A way from a model along members back to itself, as the repository has it: `'a' -> 'b' -> 'a'`. Blocking.
    pub(super) fn circle(&self, id: &ModelId, raw: &raw::ModelConfig) -> Option<String> {
        circle(&id.name, members(raw), |name| {
            let member = ModelId { name: name.into(), namespace: id.namespace.clone() };
            let found = self.find_in(&member).ok();
            let raw = found.and_then(|it| self.loader.read_config(&it).ok().flatten());
            raw.map(|it| members(&it)).unwrap_or_default()
        })
    }
}

/// The same, where `first` are the members of `name`, and `members_of` knows those of others.
fn circle(
    name: &str,
    first: Vec<String>,
    members_of: impl Fn(&str) -> Vec<String>,
) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<Vec<String>> =
        first.into_iter().map(|it| vec![name.to_owned(), it]).collect();
    while let Some(path) = open.pop() {
        let Some(last) = path.last() else { continue };
        if last == name {
            return Some(format!("'{}'", path.join("' -> '")));
        }
        if seen.insert(last.clone()) {
            let next = members_of(last).into_iter();
            open.extend(next.map(|it| path.iter().cloned().chain([it]).collect()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, models: &[(&str, &[&str])]) -> Option<String> {
        let members_of = |name: &str| {
            let model = models.iter().find(|it| it.0 == name);
            model.map_or(&[][..], |it| it.1).iter().map(|it| (*it).to_owned()).collect()
        };
        circle(name, members_of(name), members_of)
    }

    #[test]
    fn a_circle_is_shown_to_those_that_are_on_it_and_to_nobody_else() {
        let models: &[(&str, &[&str])] =
            &[("a", &["b"]), ("b", &["c"]), ("c", &["d", "b"]), ("d", &[])];
        assert_eq!(found("a", models), None);
        assert_eq!(found("b", models).unwrap(), "'b' -> 'c' -> 'b'");
        assert_eq!(found("c", models).unwrap(), "'c' -> 'b' -> 'c'");
        assert_eq!(found("d", models), None);
    }

    #[test]
    fn who_is_not_there_leads_nowhere_and_one_may_be_its_own_member() {
        assert_eq!(found("a", &[("a", &["gone"])]), None);
        assert_eq!(found("a", &[("a", &["a"])]).unwrap(), "'a' -> 'a'");
    }
}

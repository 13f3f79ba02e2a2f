//! Requests that would wait for themselves: a model asks another one, and that one, sooner or later, the first. Its
//! instance is taken for as long as it waits, so nobody would ever answer.

use std::sync::Arc;

use crate::served::{Dispatch, Resolved, ServedModel};
use inference::error::Error;

/// Models may ask each other so deep.
const DEEPEST: usize = 32;

/// May a request of these models, each of which has asked the next, go to that one?
pub(super) fn check_name(lineage: &[Arc<str>], model: &str) -> Result<(), Error> {
    if lineage.iter().any(|it| **it == *model) {
        return Err(circle(lineage, &[model]));
    }
    if DEEPEST <= lineage.len() {
        return Err(Error::InvalidRequest(format!(
            "the request to model '{model}' is one of a model's code, which answers one of another model's code, and \
             so on: {} times, at most {DEEPEST} are taken ({})",
            lineage.len(),
            chain(lineage, &[])
        )));
    }
    Ok(())
}

/// The same for the members of an ensemble, and theirs.
pub(super) fn check_members(lineage: &[Arc<str>], model: &ServedModel) -> Result<(), Error> {
    let Dispatch::Ensemble(ensemble) = &model.dispatch else { return Ok(()) };
    // What does not fit is said by its own run.
    let Ok(resolved) = ensemble.resolve() else { return Ok(()) };
    let mut path = vec![model.signature.model.clone()];
    match find(lineage, &resolved, &mut path) {
        true => {
            let path: Vec<&str> = path.iter().map(|it| &**it).collect();
            Err(circle(lineage, &path))
        }
        false => Ok(()),
    }
}

/// Is one of the models among the members? Its path is what `path` has then.
fn find(lineage: &[Arc<str>], resolved: &Resolved, path: &mut Vec<Arc<str>>) -> bool {
    resolved.members.iter().any(|member| {
        let name = &member.model.signature.model;
        path.push(name.clone());
        let is_found = lineage.contains(name)
            || member.nested.as_ref().is_some_and(|it| find(lineage, it, path));
        if !is_found {
            path.pop();
        }
        is_found
    })
}

fn circle(lineage: &[Arc<str>], to: &[&str]) -> Error {
    let model = to.first().copied().unwrap_or_default();
    Error::InvalidRequest(format!(
        "the request to model '{model}' would wait for itself, as models call each other in a circle: {}",
        chain(lineage, to)
    ))
}

fn chain(lineage: &[Arc<str>], to: &[&str]) -> String {
    let names = lineage.iter().map(|it| &**it).chain(to.iter().copied());
    let names: Vec<String> = names.map(|it| format!("'{it}'")).collect();
    names.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lineage: &[&str], model: &str, refused: Option<&str>) {
        let lineage: Vec<Arc<str>> = lineage.iter().map(|it| (*it).into()).collect();
        let outcome = check_name(&lineage, model).map_err(|it| it.to_string());
        match refused {
            None => assert_eq!(outcome, Ok(())),
            Some(part) => assert!(outcome.clone().unwrap_err().contains(part), "{outcome:?}"),
        }
    }

    #[test]
    fn a_model_that_waits_for_the_request_is_not_asked_and_the_chain_is_named() {
        check(&["a"], "b", None);
        check(&["a"], "a", Some("'a' -> 'a'"));
        check(&["a", "b", "c"], "a", Some("in a circle: 'a' -> 'b' -> 'c' -> 'a'"));
        check(&["a", "b", "c"], "b", Some("'a' -> 'b' -> 'c' -> 'b'"));
    }

    #[test]
    fn chains_end() {
        let names: Vec<String> = (0..DEEPEST).map(|it| it.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        check(&names[1..], "x", None);
        check(&names, "x", Some("32 times, at most 32"));
    }
}

//! Which column is which, by the names of columns, and what is wrong with them. Pure.

use std::collections::HashMap;

use crate::{inputs::names_of, number::Excerpt};
use inference::{
    error::Error,
    signature::{Port, Signature, nearest},
};

/// Names of columns that an error lists.
const MOST_SHOWN: usize = 20;

/// Which element of the only input each column is, by its name; `None` where no column has a name of that input's.
///
/// # Errors
/// When one has none and others do, or one of the input's is not there.
pub(super) fn places(port: &Port, names: &[String]) -> Result<Option<Vec<usize>>, Error> {
    if port.labels.is_empty() {
        return Ok(None);
    }
    let given: HashMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    let mut places: Vec<Option<usize>> = vec![None; names.len()];
    let (mut found, mut missing) = (0, Vec::new());
    for (place, name) in port.labels.iter().enumerate() {
        match given.get(&**name) {
            Some(&at) => {
                places[at] = Some(place);
                found += 1;
            }
            None if missing.len() <= MOST_SHOWN => missing.push(&**name),
            None => {}
        }
    }
    if found == 0 {
        return Ok(None);
    }
    let unknown = || names.iter().zip(&places).filter(|it| it.1.is_none()).map(|it| &**it.0);
    let known = || list(port.labels.iter().map(String::as_str));
    if let Some(first) = unknown().next() {
        let meant = nearest(first, missing.iter().copied());
        let hint =
            meant.map(|it| format!("; is '{}' meant for '{}'?", Excerpt(first), Excerpt(it)));
        let problem = format!(
            "the model has no columns {}; its columns are {}{}",
            list(unknown()),
            known(),
            hint.unwrap_or_default()
        );
        return Err(Error::input(&*port.name, problem));
    }
    if !missing.is_empty() {
        let problem = format!(
            "the columns {} are not there; the model's are {}: send null, in CSV an empty field, for what is missing",
            list(missing.iter().copied()),
            known()
        );
        return Err(Error::input(&*port.name, problem));
    }
    Ok(places.into_iter().collect())
}

/// The first of these names, for an error.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut shown: Vec<String> =
        names.take(MOST_SHOWN + 1).map(|it| format!("'{}'", Excerpt(it))).collect();
    if MOST_SHOWN < shown.len() {
        shown.truncate(MOST_SHOWN);
        shown.push("..".to_owned());
    }
    shown.join(", ")
}

/// That columns are not the inputs of a model of several.
pub(super) fn lacking(signature: &Signature, names: &[String]) -> Error {
    let mut missing = signature.inputs.iter().filter(|it| !it.optional);
    let missing = missing.find(|it| !names.iter().any(|name| *name == *it.name));
    let hint = missing.and_then(|it| {
        let nearest = nearest(&it.name, names.iter().map(String::as_str))?;
        Some(format!("; is '{}' meant for '{}'?", Excerpt(nearest), it.name))
    });
    Error::InvalidRequest(format!(
        "expected columns with the names of the model's inputs ({}), found {}{}",
        names_of(signature),
        list(names.iter().map(String::as_str)),
        hint.unwrap_or_default()
    ))
}

/// A name that occurs more than once.
pub(super) fn twice(names: &[String]) -> Option<&str> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.windows(2).find_map(|it| match it {
        [one, other] if one == other => Some(*one),
        _ => None,
    })
}

//! Objects of Python as files of any kind tell them.

use std::borrow::Cow;

use crate::{error::FormatError, limits, ndarray::Array};

/// Objects, which are looked at one by one. Nothing goes through all of them.
pub(super) trait Objects {
    /// One of them.
    type Ref: Copy;

    /// The outermost.
    fn root(&self) -> Self::Ref;

    /// Bytes of the file as it is read: arrays of all trees together are not larger.
    fn bytes(&self) -> usize;

    /// Module and name of an object's class.
    fn class(&self, of: Self::Ref) -> Option<(&str, &str)>;

    /// An object's attribute, or a dictionary's entry.
    fn attribute(&self, of: Self::Ref, name: &str) -> Option<Self::Ref>;

    /// Members of a list, a tuple, or an array of objects.
    fn members(&self, of: Self::Ref) -> Option<Vec<Self::Ref>>;

    /// A text.
    fn text(&self, of: Self::Ref) -> Option<String>;

    /// A number, a truth, or an array of one of them.
    fn number(&self, of: Self::Ref) -> Option<f64>;

    /// Is it `None`?
    fn is_none(&self, of: Self::Ref) -> bool;

    /// Bytes, or those of a text.
    fn bytes_of(&self, of: Self::Ref) -> Option<Cow<'_, [u8]>>;

    /// An array that is not of objects.
    fn array(&self, of: Self::Ref) -> Result<Option<Array<'_>>, FormatError>;
}

/// An attribute that an object of that class always has.
pub(super) fn needed<O: Objects>(
    objects: &O,
    of: O::Ref,
    name: &str,
) -> Result<O::Ref, FormatError> {
    objects.attribute(of, name).ok_or_else(|| {
        let class = objects.class(of).map_or("the object", |it| it.1);
        FormatError::new(format!(
            "{class} has no {name}: it was not fitted, or is not what it says; fit it and save it again"
        ))
    })
}

/// An attribute that is a number.
pub(super) fn number<O: Objects>(objects: &O, of: O::Ref, name: &str) -> Result<f64, FormatError> {
    let found = needed(objects, of, name)?;
    objects.number(found).ok_or_else(|| FormatError::new(format!("{name} is no number")))
}

/// An attribute that is a count of at most that.
pub(super) fn count<O: Objects>(
    objects: &O,
    of: O::Ref,
    name: &str,
    most: usize,
) -> Result<usize, FormatError> {
    let found = number(objects, of, name)?;
    match 0.0 <= found && found <= most as f64 && found.fract() == 0.0 {
        true => Ok(found as usize),
        false => Err(FormatError::new(format!("{name} is {found}, expected at most {most}"))),
    }
}

/// An attribute that is an array of numbers, as floats.
pub(super) fn floats<O: Objects>(
    objects: &O,
    of: O::Ref,
    name: &str,
) -> Result<Vec<f64>, FormatError> {
    let found = needed(objects, of, name)?;
    let floats = match objects.array(found)? {
        Some(array) if limits::FEATURES < array.elements() => None,
        Some(array) => array.floats(),
        // An array of objects that are numbers.
        None => {
            let members = objects.members(found);
            let numbers = members.and_then(|it| it.iter().map(|it| objects.number(*it)).collect());
            // Before 0.24 a lone number was no array.
            numbers.or_else(|| objects.number(found).map(|it| vec![it]))
        }
    };
    floats.ok_or_else(|| FormatError::new(format!("{name} is no array of numbers")))
}

/// Whole numbers below this are themselves as floats, too.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Classes of a fitted classifier where they are whole numbers, also as floats, or truths; else none.
pub(super) fn class_numbers<O: Objects>(
    objects: &O,
    classes: O::Ref,
) -> Result<Vec<i64>, FormatError> {
    let Some(array) = objects.array(classes)? else {
        return Ok(Vec::new());
    };
    let column = array.column().filter(|it| it.len() <= limits::OUTPUTS);
    let whole = |it: f64| (it.fract() == 0.0 && it.abs() < EXACT).then_some(it as i64);
    let numbers = column.and_then(|it| {
        let number = |at| it.integer(at).or_else(|| whole(it.float(at)?));
        (0..it.len()).map(number).collect()
    });
    Ok(numbers.unwrap_or_default())
}

/// Classes of a fitted classifier where they are texts; else none.
pub(super) fn class_names<O: Objects>(
    objects: &O,
    classes: O::Ref,
) -> Result<Vec<String>, FormatError> {
    let names: Option<Vec<String>> = match objects.array(classes)? {
        Some(array) => {
            let column = array.column().filter(|it| it.len() <= limits::OUTPUTS);
            column.and_then(|it| (0..it.len()).map(|at| it.text(at)).collect())
        }
        None => {
            let members = objects.members(classes).filter(|it| it.len() <= limits::OUTPUTS);
            members.and_then(|it| texts(objects, &it))
        }
    };
    Ok(names.unwrap_or_default())
}

/// What members are where all are texts, which together are no longer than the file: many cannot be the same one.
pub(super) fn texts<O: Objects>(objects: &O, members: &[O::Ref]) -> Option<Vec<String>> {
    let mut left = objects.bytes();
    let text = |it: &O::Ref| {
        let text = objects.text(*it)?;
        left = left.checked_sub(text.len())?;
        Some(text)
    };
    members.iter().map(text).collect()
}

/// How many classes a fitted classifier tells apart.
pub(super) fn classes<O: Objects>(objects: &O, of: O::Ref) -> Result<usize, FormatError> {
    let found = needed(objects, of, "classes_")?;
    let count = match objects.array(found)? {
        Some(array) => array.elements(),
        None => objects.members(found).map_or(0, |it| it.len()),
    };
    match count {
        0 => Err(FormatError::new("classes_ is no list of classes")),
        _ => Ok(count),
    }
}

/// The shares of the classes in training, none of them 0 or 1.
pub(super) fn prior<O: Objects>(objects: &O, init: O::Ref) -> Result<Vec<f64>, FormatError> {
    let clip = |it: f64| it.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
    Ok(floats(objects, init, "class_prior_")?.into_iter().map(clip).collect())
}

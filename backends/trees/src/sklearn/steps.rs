//! Scalers and imputers before a forest. Pure.
//!
//! Each keeps the order of the numbers of a column. So a row need not go through them: the conditions of the trees
//! become those of rows as they are sent, to the last bit.

use crate::{
    error::FormatError,
    forest::document::{Comparison, Document, Rounding, Tree},
    sklearn::objects::{Objects, floats, needed, number},
};

/// Numbers of steps, besides one for eight bytes of the file: many steps cannot be the same array.
const ALLOWANCE: usize = 1 << 16;

/// What happens to each column.
#[derive(Debug)]
pub(super) struct Steps {
    columns: Vec<Vec<Step>>,
    /// Numbers that steps may still have.
    left: usize,
}

/// One thing that happens to a number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// What is missing becomes this.
    Fill(f64),
    Subtract(f64),
    Divide(f64),
    Multiply(f64),
    Add(f64),
    Clip(f64, f64),
}

impl Step {
    fn apply(self, value: f64) -> f64 {
        match self {
            Step::Fill(with) if value.is_nan() => with,
            Step::Fill(_) => value,
            Step::Subtract(it) => value - it,
            Step::Divide(it) => value / it,
            Step::Multiply(it) => value * it,
            Step::Add(it) => value + it,
            Step::Clip(low, high) if !value.is_nan() => value.clamp(low, high),
            Step::Clip(..) => value,
        }
    }
}

impl Steps {
    /// `bytes` is how many the file has.
    pub(super) fn new(features: usize, bytes: usize) -> Result<Steps, FormatError> {
        let left = bytes / size_of::<f64>() + ALLOWANCE;
        match features <= left {
            true => Ok(Steps { columns: vec![Vec::new(); features], left }),
            false => Err(FormatError::new(format!(
                "a pipeline for {features} columns in a file of {bytes} bytes"
            ))),
        }
    }

    /// Adds an estimator of the pipeline.
    pub(super) fn push<O: Objects>(&mut self, objects: &O, of: O::Ref) -> Result<(), FormatError> {
        let (module, class) = objects.class(of).unwrap_or(("", "something unknown"));
        let flag = |name: &str| {
            objects
                .attribute(of, name)
                .and_then(|it| objects.number(it))
                .is_some_and(|it| it != 0.0)
        };
        let refuse = |problem: &str| {
            Err(FormatError::new(format!(
                "the pipeline has a {module}.{class} {problem}: convert it to ONNX, with skl2onnx"
            )))
        };
        match class {
            "StandardScaler" => {
                if flag("with_mean") {
                    self.each(floats(objects, of, "mean_")?, Step::Subtract)?;
                }
                if flag("with_std") {
                    self.positive(floats(objects, of, "scale_")?, Step::Divide)?;
                }
                Ok(())
            }
            "MinMaxScaler" => {
                self.positive(floats(objects, of, "scale_")?, Step::Multiply)?;
                self.each(floats(objects, of, "min_")?, Step::Add)?;
                if !flag("clip") {
                    return Ok(());
                }
                let range =
                    objects.members(needed(objects, of, "feature_range")?).unwrap_or_default();
                let ends: Option<Vec<f64>> = range.iter().map(|it| objects.number(*it)).collect();
                match ends.as_deref() {
                    Some([low, high]) if low <= high => {
                        self.each(vec![*low; self.columns.len()], |low| Step::Clip(low, *high))
                    }
                    _ => refuse("whose range is none"),
                }
            }
            "RobustScaler" => {
                if flag("with_centering") {
                    self.each(floats(objects, of, "center_")?, Step::Subtract)?;
                }
                if flag("with_scaling") {
                    self.positive(floats(objects, of, "scale_")?, Step::Divide)?;
                }
                Ok(())
            }
            "MaxAbsScaler" => {
                self.positive(floats(objects, of, "scale_")?, Step::Divide)?;
                match flag("clip") {
                    true => self.each(vec![-1.0; self.columns.len()], |it| Step::Clip(it, 1.0)),
                    false => Ok(()),
                }
            }
            "SimpleImputer" => {
                if !number(objects, of, "missing_values")?.is_nan() {
                    return refuse("for something else than NaN");
                }
                if flag("add_indicator") {
                    return refuse("that adds columns");
                }
                self.each(floats(objects, of, "statistics_")?, Step::Fill)
            }
            "FunctionTransformer" => {
                match objects.attribute(of, "func").is_none_or(|it| objects.is_none(it)) {
                    true => Ok(()),
                    false => refuse("with a function"),
                }
            }
            _ => refuse("before its last step, which is not served"),
        }
    }

    fn positive(
        &mut self,
        numbers: Vec<f64>,
        step: impl Fn(f64) -> Step,
    ) -> Result<(), FormatError> {
        match numbers.iter().all(|it| 0.0 < *it) {
            true => self.each(numbers, step),
            false => Err(FormatError::new(
                "a scale of the pipeline is not above zero: convert it to ONNX, with skl2onnx",
            )),
        }
    }

    fn each(&mut self, numbers: Vec<f64>, step: impl Fn(f64) -> Step) -> Result<(), FormatError> {
        let columns = self.columns.len();
        if numbers.len() != columns || numbers.iter().any(|it| !it.is_finite()) {
            let given = numbers.len();
            return Err(FormatError::new(format!(
                "a step of the pipeline has {given} numbers for {columns} columns, or some that are not finite, as of \
                 a column without values: leave such columns out, or convert it to ONNX, with skl2onnx"
            )));
        }
        let Some(left) = self.left.checked_sub(columns) else {
            return Err(FormatError::new(
                "the steps of the pipeline have more numbers than the file has bytes for",
            ));
        };
        self.left = left;
        for (column, number) in self.columns.iter_mut().zip(numbers) {
            column.push(step(number));
        }
        Ok(())
    }

    /// Makes the conditions of a document those of rows before these steps.
    ///
    /// # Errors
    /// It has more than conditions that numbers pass in their order.
    pub(super) fn fold_into(&self, document: &mut Document) -> Result<(), FormatError> {
        let is_plain = |tree: &Tree| {
            tree.linear.is_empty() && tree.zero_is_missing.iter().all(|it| !it) && {
                let mut splits = tree.categorical.iter().map(|it| tree.feature.get(it.node));
                splits.all(|it| it.is_none_or(|it| self.leaves(*it)))
            }
        };
        if document.missing.is_some()
            || document.linear.is_some()
            || !document.categories.is_empty()
            || !document.trees.iter().all(is_plain)
        {
            return Err(FormatError::new(
                "behind steps of a pipeline are served trees whose splits compare numbers, and whose missing value is \
                 NaN: convert it to ONNX, with skl2onnx and onnxmltools",
            ));
        }
        let comparison = document.comparison;
        let holds = move |value: f64, condition: f64| match comparison {
            Comparison::Less => value < condition,
            Comparison::LessOrEqual => value <= condition,
        };
        let rounded = |value: f64| match document.rounding {
            Rounding::Single => f64::from(value as f32),
            Rounding::Double => value,
        };
        for tree in &mut document.trees {
            for node in 0..tree.nodes() {
                let steps = self.columns.get(tree.feature[node] as usize);
                let is_number = tree.categorical.binary_search_by_key(&node, |it| it.node).is_err();
                let is_split = is_number && 0 <= tree.left[node];
                let Some(steps) = steps.filter(|_| is_split) else { continue };
                let through = |value| rounded(steps.iter().fold(value, |it, step| step.apply(it)));
                let condition = tree.condition[node];
                let filled = through(f64::NAN);
                if !filled.is_nan() {
                    tree.default_left[node] = holds(filled, condition);
                }
                tree.condition[node] = last(|value| holds(through(value), condition));
            }
        }
        document.rounding = Rounding::Double;
        document.comparison = Comparison::LessOrEqual;
        Ok(())
    }

    /// Does it leave the numbers of a column as they are?
    fn leaves(&self, column: u32) -> bool {
        self.columns.get(column as usize).is_none_or(Vec::is_empty)
    }
}

/// The largest number for which a condition holds that holds for all below it, too. NaN where it holds for none.
fn last(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (ordinal(f64::NEG_INFINITY), ordinal(f64::INFINITY));
    if !holds(f64::NEG_INFINITY) {
        return f64::NAN;
    }
    if holds(f64::INFINITY) {
        return f64::INFINITY;
    }
    // It holds for `low`, and does not for `high`.
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match holds(of_ordinal(middle)) {
            true => low = middle,
            false => high = middle,
        }
    }
    of_ordinal(low)
}

/// The place of a number among all numbers.
fn ordinal(value: f64) -> i128 {
    let bits = value.to_bits();
    match bits >> 63 {
        0 => i128::from(bits),
        _ => -i128::from(bits & !(1 << 63)) - 1,
    }
}

fn of_ordinal(ordinal: i128) -> f64 {
    match ordinal {
        0.. => f64::from_bits(ordinal as u64),
        _ => f64::from_bits((-(ordinal + 1)) as u64 | 1 << 63),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_exact() {
        for limit in [0.1, -3.5, 1e300, -1e-310, 0.0, 5e-324, f64::MAX] {
            let found = last(|it| it <= limit);
            assert_eq!(found, limit);
            assert!(limit < found.next_up());
        }
        assert!(last(|_| false).is_nan());
        assert_eq!(last(|_| true), f64::INFINITY);
        // Rounding to 32 bits takes numbers above the condition down to it.
        let condition = f64::from(0.1f32);
        let found = last(|it| f64::from(it as f32) <= condition);
        assert!(condition < found && f64::from(found.next_up() as f32) > condition);
    }

    #[test]
    fn zeros_are_next_to_each_other() {
        assert_eq!(ordinal(-0.0) + 1, ordinal(0.0));
        for value in [1.5, -1.5, 0.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(of_ordinal(ordinal(value)).to_bits(), value.to_bits());
        }
    }
}

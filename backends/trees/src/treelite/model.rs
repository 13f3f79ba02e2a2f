//! What the trees of a checkpoint add to: targets, classes of each, and one sum for each of these.

use crate::{
    error::FormatError,
    limits,
    treelite::header::{Header, Task},
};

/// Targets, and as many classes of each as the one with the most has.
#[derive(Debug)]
pub(super) struct Outputs {
    /// Classes of each target.
    classes: Vec<usize>,
    most: usize,
    /// Have all targets as many classes?
    are_equal: bool,
}

/// Where a tree's leaves add: to one sum, or the part of them that a leaf has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafTarget {
    /// One sum.
    One(usize),
    /// As many as there are sums.
    All,
    /// One for each target, of this class.
    Class(usize),
    /// One for each class, of this target.
    Target(usize),
}

impl Outputs {
    pub(super) fn of(header: &Header) -> Result<Outputs, FormatError> {
        let classes = header.classes.clone();
        let most = classes.iter().copied().max().unwrap_or(1);
        let sums = most * classes.len();
        if limits::OUTPUTS < sums {
            let most = limits::OUTPUTS;
            return Err(FormatError::new(format!("{sums} outputs; at most {most} are served")));
        }
        let are_equal = classes.iter().all(|it| *it == most);
        Ok(Outputs { classes, most, are_equal })
    }

    pub(super) fn targets(&self) -> usize {
        self.classes.len()
    }

    pub(super) fn sums(&self) -> usize {
        self.most * self.targets()
    }

    /// Is there one class of each target?
    pub(super) fn are_numbers(&self) -> bool {
        self.most == 1
    }

    pub(super) fn classes(&self, task: Task) -> Option<usize> {
        match task {
            Task::BinaryClasses => Some(2),
            Task::Classes => Some(self.most),
            Task::Other => None,
        }
    }

    /// Has this sum a class? The others are zero.
    pub(super) fn is_used(&self, sum: usize) -> bool {
        sum % self.most < self.classes[sum / self.most]
    }

    /// The sum of a target's class.
    fn sum(&self, target: usize, class: usize) -> usize {
        target * self.most + class
    }

    /// Where the leaves of a tree add.
    pub(super) fn place(&self, header: &Header, tree: usize) -> Result<LeafTarget, FormatError> {
        let refuse = |problem: String| Err(FormatError::of_tree(tree, problem));
        let (target, class) = (header.target_of_tree[tree], header.class_of_tree[tree]);
        let (target, class) = (target.map(|it| it as usize), class.map(|it| it as usize));
        let targets = self.targets();
        if target.is_some_and(|it| targets <= it) {
            return refuse(format!("target {}, there are {targets}", target.unwrap_or_default()));
        }
        let most = target.map_or(self.most, |it| self.classes[it]);
        if class.is_some_and(|it| most <= it) {
            return refuse(format!("class {}, there are {most}", class.unwrap_or_default()));
        }
        let (place, shape) = match (target, class) {
            (Some(target), Some(class)) => (LeafTarget::One(self.sum(target, class)), [1, 1]),
            (None, None) => (LeafTarget::All, [targets, self.most]),
            (None, Some(class)) => (LeafTarget::Class(class), [targets, 1]),
            (Some(target), None) => (LeafTarget::Target(target), [1, self.most]),
        };
        if shape != header.leaf_shape {
            let [given, of] = header.leaf_shape;
            let [expected, by] = shape;
            return refuse(format!(
                "leaves of {given} by {of} values, expected {expected} by {by}"
            ));
        }
        match place {
            // One sum is all there is.
            _ if shape == [1, 1] => {
                Ok(LeafTarget::One(self.sum(target.unwrap_or(0), class.unwrap_or(0))))
            }
            LeafTarget::Class(_) | LeafTarget::Target(_) if !self.are_equal => refuse(
                "its leaves have a part of the classes, of which targets have different numbers"
                    .to_owned(),
            ),
            _ => Ok(place),
        }
    }

    /// The sums that a place has, one after the other as a leaf has them.
    pub(super) fn sums_of(&self, place: LeafTarget) -> impl Iterator<Item = usize> {
        let (start, step, count) = match place {
            LeafTarget::One(sum) => (sum, 1, 1),
            LeafTarget::All => (0, 1, self.sums()),
            LeafTarget::Class(class) => (class, self.most, self.targets()),
            LeafTarget::Target(target) => (target * self.most, 1, self.most),
        };
        (0..count).map(move |it| start + step * it)
    }

    /// What is added to each sum at the end.
    pub(super) fn base_scores(&self, header: &Header) -> Result<Vec<f64>, FormatError> {
        let (given, sums) = (header.base_scores.len(), self.sums());
        // Files of version 3 have one for all.
        let is_of_all = header.version[0] == 3;
        if !is_of_all && given != sums {
            return Err(FormatError::new(format!(
                "{given} base scores, the model has {sums} outputs"
            )));
        }
        let score = |it: usize| header.base_scores[if is_of_all { 0 } else { it }];
        Ok((0..sums).map(|it| if self.is_used(it) { score(it) } else { 0.0 }).collect())
    }

    /// By what the sums are divided: as many as there are trees that add to each.
    pub(super) fn average(&self, header: &Header) -> Result<Option<f64>, FormatError> {
        if !header.is_average {
            return Ok(None);
        }
        // Trees by their places, as one tree may add to 2^16 sums.
        let mut of_all = 0_u32;
        let mut of_sum = vec![0_u32; self.sums()];
        let mut of_target = vec![0_u32; self.targets()];
        let mut of_class = vec![0_u32; self.most];
        for tree in 0..header.trees {
            match self.place(header, tree)? {
                LeafTarget::One(sum) => of_sum[sum] += 1,
                LeafTarget::All => of_all += 1,
                LeafTarget::Class(class) => of_class[class] += 1,
                LeafTarget::Target(target) => of_target[target] += 1,
            }
        }
        let count =
            |it: usize| of_all + of_sum[it] + of_target[it / self.most] + of_class[it % self.most];
        let mut used = (0..of_sum.len()).filter(|it| self.is_used(*it)).map(count);
        let first = used.next().unwrap_or(0);
        match first != 0 && used.all(|it| it == first) {
            true => Ok(Some(f64::from(first))),
            false => Err(FormatError::new(
                "it averages over trees that are not shared out evenly among its outputs",
            )),
        }
    }
}

//! What stands before the trees of a checkpoint: its version, and what the trees add to.

use crate::{
    error::FormatError,
    limits,
    treelite::bytes::{Bytes, text},
};

/// Bytes of the version, and of the types behind it.
const VERSION_BYTES: usize = 14;
/// Numbers of the types of thresholds and leaves.
const WORD: u8 = 1;
const SINGLE: u8 = 2;
const DOUBLE: u8 = 3;
/// Bytes of the name of the post-processor, up to version 3.
const NAME_BYTES: usize = 256;
/// The fewest bytes of a tree with one node.
const TREE_BYTES_3: usize = 141;
const TREE_BYTES_4: usize = 200;

/// What a model does, by its number in version 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    BinaryClasses,
    Classes,
    Other,
}

/// What stands before the trees.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: [i32; 3],
    /// Are thresholds and leaves of 64 bits, not of 32?
    pub(super) is_double: bool,
    pub(super) trees: usize,
    pub(super) features: usize,
    pub(super) task: Task,
    pub(super) is_average: bool,
    /// Classes of each target.
    pub(super) classes: Vec<usize>,
    /// Targets and classes of a leaf.
    pub(super) leaf_shape: [usize; 2],
    /// For each tree its target, or `None` where its leaves have all.
    pub(super) target_of_tree: Vec<Option<u32>>,
    /// The same for classes.
    pub(super) class_of_tree: Vec<Option<u32>>,
    pub(super) post_processor: String,
    pub(super) sigmoid_alpha: f32,
    pub(super) ratio_c: f32,
    /// One for each target and class, or one for all of them.
    pub(super) base_scores: Vec<f64>,
}

/// The version with which a file begins, if it may be a checkpoint.
pub(super) fn version(begin: &[u8]) -> Option<[i32; 3]> {
    let begin = begin.get(..VERSION_BYTES)?;
    let word = |at: usize| i32::from_le_bytes([0, 1, 2, 3].map(|it| begin[4 * at + it]));
    let [major, minor, patch] = [word(0), word(1), word(2)];
    let is_version =
        (1..10).contains(&major) && (0..100).contains(&minor) && (0..100).contains(&patch);
    let are_types = matches!(begin[12], SINGLE | DOUBLE) && matches!(begin[13], WORD..=DOUBLE);
    (is_version && are_types).then_some([major, minor, patch])
}

impl Header {
    pub(super) fn read(bytes: &mut Bytes) -> Result<Header, FormatError> {
        let first = bytes.take("the version", VERSION_BYTES)?;
        let unknown = || FormatError::new("it is no checkpoint of treelite by its first bytes");
        let version = version(first).ok_or_else(unknown)?;
        let [major, minor, patch] = version;
        if (major, minor) < (3, 9) || 4 < major {
            return Err(FormatError::new(format!(
                "it is a checkpoint of treelite {major}.{minor}.{patch}; those of 3.9 and 4 are read: convert the model \
                 once more with one of these versions"
            )));
        }
        let is_double = match (first[12], first[13]) {
            (SINGLE, SINGLE) => false,
            (DOUBLE, DOUBLE) => true,
            (_, WORD) => {
                return Err(FormatError::new("its leaves are integers, which nothing evaluates"));
            }
            _ => return Err(FormatError::new("its thresholds and leaves are of different types")),
        };
        let trees = bytes.u64("the number of trees")?;
        let tree_bytes = if major == 3 { TREE_BYTES_3 } else { TREE_BYTES_4 };
        if (limits::TREES as u64) < trees {
            let most = limits::TREES;
            return Err(FormatError::new(format!("{trees} trees; at most {most} are served")));
        }
        // It fits: there are not more than 2^20.
        let trees = trees as usize;
        if bytes.left() / tree_bytes < trees {
            return Err(FormatError::new(format!(
                "{trees} trees, for which the file is too short"
            )));
        }
        let header = Header {
            version,
            is_double,
            trees,
            features: count(bytes, "the number of features", limits::FEATURES)?,
            task: Task::Other,
            is_average: false,
            classes: Vec::new(),
            leaf_shape: [1, 1],
            target_of_tree: Vec::new(),
            class_of_tree: Vec::new(),
            post_processor: String::new(),
            sigmoid_alpha: 1.0,
            ratio_c: 1.0,
            base_scores: Vec::new(),
        };
        match major {
            3 => header.third(bytes),
            _ => header.fourth(bytes),
        }
    }

    /// The rest in version 4.
    fn fourth(mut self, bytes: &mut Bytes) -> Result<Header, FormatError> {
        self.task = match bytes.byte("the task")? {
            0 => Task::BinaryClasses,
            2 => Task::Classes,
            _ => Task::Other,
        };
        self.is_average = bytes.byte("the averaging")? != 0;
        let targets = count(bytes, "the number of targets", limits::OUTPUTS)?;
        let classes = bytes.array("the classes", 4)?;
        if targets == 0 || classes.len() != targets {
            let given = classes.len();
            return Err(FormatError::new(format!(
                "classes of {given} targets, there are {targets}"
            )));
        }
        for target in 0..targets {
            self.classes.push(within(
                classes.i32(target),
                1,
                limits::OUTPUTS,
                "classes of a target",
            )?);
        }
        let shape = bytes.array("the shape of leaves", 4)?;
        if shape.len() != 2 {
            return Err(FormatError::new(format!(
                "leaves of {} dimensions, expected 2",
                shape.len()
            )));
        }
        for (at, size) in self.leaf_shape.iter_mut().enumerate() {
            *size = within(shape.i32(at), 1, limits::OUTPUTS, "the shape of leaves")?;
        }
        for of_tree in [&mut self.target_of_tree, &mut self.class_of_tree] {
            let ids = bytes.array("the targets and classes of trees", 4)?;
            if ids.len() != self.trees {
                let (given, trees) = (ids.len(), self.trees);
                return Err(FormatError::new(format!(
                    "targets or classes of {given} trees, there are {trees}"
                )));
            }
            of_tree.extend((0..ids.len()).map(|it| u32::try_from(ids.i32(it)).ok()));
        }
        self.post_processor = bytes.text("the post-processor")?;
        self.sigmoid_alpha = bytes.f32("sigmoid_alpha")?;
        self.ratio_c = bytes.f32("ratio_c")?;
        let scores = bytes.array("the base scores", 8)?;
        self.base_scores = (0..scores.len()).map(|it| scores.f64(it)).collect();
        bytes.array("the attributes", 1)?;
        bytes.skip_additions("an addition to the model")?;
        Ok(self)
    }

    /// The rest in version 3, whose models have one target.
    fn third(mut self, bytes: &mut Bytes) -> Result<Header, FormatError> {
        let task = bytes.byte("the task")?;
        self.is_average = bytes.byte("the averaging")? != 0;
        let is_integer = bytes.byte("the type of outputs")? != 0;
        bytes.take("the parameters of the task", 3)?;
        let classes = count(bytes, "the number of classes", limits::OUTPUTS)?.max(1);
        let width = count(bytes, "the size of leaves", limits::OUTPUTS)?;
        let name = bytes.take("the post-processor", NAME_BYTES)?;
        let name = name.split(|it| *it == 0).next().and_then(text).unwrap_or_default();
        // Version 4 makes probabilities of these files, too.
        self.post_processor = if name == "max_index" { "softmax".to_owned() } else { name };
        self.sigmoid_alpha = bytes.f32("sigmoid_alpha")?;
        self.ratio_c = bytes.f32("ratio_c")?;
        self.base_scores = vec![f64::from(bytes.f32("the global bias")?)];
        bytes.skip_additions("an addition to the model")?;
        self.classes = vec![classes];
        self.target_of_tree = vec![Some(0); self.trees];
        let is_binary = self.post_processor == "sigmoid";
        (self.task, self.class_of_tree, self.leaf_shape) = match task {
            _ if is_integer => {
                return Err(FormatError::new("its leaves are integers, which nothing evaluates"));
            }
            0 => {
                let task = if is_binary { Task::BinaryClasses } else { Task::Other };
                (task, vec![Some(0); self.trees], [1, 1])
            }
            1 => {
                // Both are below 2^31.
                let class = |it: usize| Some((it % classes) as u32);
                (Task::Classes, (0..self.trees).map(class).collect(), [1, 1])
            }
            2 => (Task::Classes, vec![None; self.trees], [1, classes]),
            _ => {
                return Err(FormatError::new(format!(
                    "its task {task} is not one that is evaluated"
                )));
            }
        };
        match width == self.leaf_shape[1] {
            true => Ok(self),
            false => Err(FormatError::new(format!(
                "leaves of {width} values, expected {}",
                self.leaf_shape[1]
            ))),
        }
    }
}

fn count(bytes: &mut Bytes, what: &str, most: usize) -> Result<usize, FormatError> {
    within(bytes.i32(what)?, 0, most, what)
}

fn within(number: i32, least: usize, most: usize, what: &str) -> Result<usize, FormatError> {
    let found = usize::try_from(number).ok().filter(|it| (least..=most).contains(it));
    found.ok_or_else(|| {
        FormatError::new(format!("{what} is {number}, expected a number from {least} to {most}"))
    })
}

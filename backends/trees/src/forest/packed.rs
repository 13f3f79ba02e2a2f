//! A forest as it is walked: nodes of 8 or 16 bytes, siblings side by side.

use crate::forest::{
    calibration::Calibration,
    category::CategorySets,
    document::{Comparison, Linear, NegativeFraction, Rounding, Transform},
    explained::Explained,
};

/// A forest that was checked. Immutable, and shared by all instances of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    /// Columns of a row.
    pub features: usize,
    /// The type to which features are rounded before they are compared.
    pub rounding: Rounding,
    /// What sends a feature left.
    pub comparison: Comparison,
    /// What a category between -1 and 0 is.
    pub negative_fraction: NegativeFraction,
    /// Do all splits compare numbers?
    pub has_only_numbers: bool,
    /// The nodes of all trees, one tree behind the other.
    pub nodes: Nodes,
    /// In the order in which they are added.
    pub trees: Vec<PackedTree>,
    /// The sets of splits by categories.
    pub sets: CategorySets,
    /// Values of the leaves that add to all sums, rows of as many as there are sums.
    pub vectors: Vec<f64>,
    /// The leaves that are linear models.
    pub linear_leaves: Vec<PackedLinearLeaf>,
    /// The linear model that is added before the trees.
    pub linear: Option<Linear>,
    /// With what each sum begins.
    pub base: Vec<f64>,
    /// By what the sums are divided.
    pub average_over: Option<f64>,
    /// What is added to each sum at the end; empty for nothing.
    pub added_last: Vec<f64>,
    /// From sums to predictions.
    pub transform: Transform,
    /// From these to what is answered, where it is not they.
    pub calibration: Option<Calibration>,
    /// What each node is called in the file; empty where nobody asks for leaves.
    pub names: Vec<u32>,
    /// What contributions are computed from; `None` where nobody asks for them.
    pub explained: Option<Explained>,
}

/// Nodes of one size.
#[derive(Debug, Clone, PartialEq)]
pub enum Nodes {
    /// All splits compare numbers of 32 bits.
    Narrow(Vec<Narrow>),
    /// Any forest.
    Wide(Vec<Wide>),
}

/// One tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedTree {
    /// Its root among the nodes.
    pub root: u32,
    /// Splits on the longest way to a leaf.
    pub depth: u16,
    /// The sum that it adds to.
    pub output: u16,
    /// What its leaves are.
    pub leaves: Leaves,
}

/// What the leaves of a tree are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// Values.
    Values,
    /// Rows of [`Forest::vectors`].
    Vectors,
    /// Entries of [`Forest::linear_leaves`].
    Linear,
}

/// A leaf that is a linear model.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedLinearLeaf {
    /// What it adds where a feature is missing.
    pub value: f64,
    /// With what the sum begins.
    pub constant: f64,
    /// Features and their coefficients.
    pub terms: Box<[(u32, f64)]>,
}

/// A node of 8 bytes: a condition, or the value of a leaf, of 32 bits; a feature of 15 bits, the default direction and
/// the distance to the child on the left of 16 bits. The distance of a leaf is 0. The feature comes first, as it is
/// needed first, and is there after a shift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Narrow {
    condition: f32,
    bits: u32,
}

impl Narrow {
    /// Features of such nodes are below this.
    pub const FEATURES: usize = 1 << 15;

    /// A leaf.
    pub fn leaf(value: f32) -> Narrow {
        Narrow { condition: value, bits: 0 }
    }

    /// A split; `None` where the feature or the distance is too large.
    pub fn split(
        condition: f32,
        default_left: bool,
        feature: usize,
        distance: usize,
    ) -> Option<Narrow> {
        if Narrow::FEATURES <= feature || usize::from(u16::MAX) < distance {
            return None;
        }
        let bits = (feature as u32) << 17 | u32::from(default_left) << 16 | distance as u32;
        Some(Narrow { condition, bits })
    }

    /// The condition, or the value of a leaf.
    pub fn condition(self) -> f32 {
        self.condition
    }

    /// Where a missing value goes.
    pub fn default_left(self) -> bool {
        self.bits & 1 << 16 != 0
    }

    /// The feature; 0 for a leaf.
    pub fn feature(self) -> usize {
        (self.bits >> 17) as usize
    }

    /// How far away the child on the left is; 0 for a leaf.
    pub fn distance(self) -> usize {
        (self.bits & 0xFFFF) as usize
    }
}

/// A node of 16 bytes: what [`Narrow`] has, with larger fields, and kinds of splits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wide {
    condition: f64,
    feature: u32,
    bits: u32,
}

/// What a split asks of its feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// How it compares with the condition.
    Number,
    /// The same, where zero is missing.
    NumberNotZero,
    /// Whether it is in a set, whose number is the condition.
    Category,
}

impl Wide {
    const DEFAULT_LEFT: u32 = 1 << 31;
    const NOT_ZERO: u32 = 1 << 30;
    const CATEGORY: u32 = 1 << 29;
    const DISTANCE: u32 = Wide::CATEGORY - 1;

    /// A leaf: its value, or the number of its vector or linear model.
    pub fn leaf(value: f64) -> Wide {
        Wide { condition: value, feature: 0, bits: 0 }
    }

    /// A split. `distance` is that of nodes of one tree, which are fewer than 2^29.
    pub fn split(
        condition: f64,
        question: Question,
        default_left: bool,
        feature: u32,
        distance: usize,
    ) -> Wide {
        let kind = match question {
            Question::Number => 0,
            Question::NumberNotZero => Wide::NOT_ZERO,
            Question::Category => Wide::CATEGORY,
        };
        let default_left = if default_left { Wide::DEFAULT_LEFT } else { 0 };
        Wide { condition, feature, bits: default_left | kind | distance as u32 }
    }

    /// The condition, the number of a set, or what a leaf has.
    pub fn condition(self) -> f64 {
        self.condition
    }

    /// Where a missing value goes.
    pub fn default_left(self) -> bool {
        self.bits & Wide::DEFAULT_LEFT != 0
    }

    /// What the split asks.
    pub fn question(self) -> Question {
        match self.bits & (Wide::NOT_ZERO | Wide::CATEGORY) {
            0 => Question::Number,
            Wide::NOT_ZERO => Question::NumberNotZero,
            _ => Question::Category,
        }
    }

    /// The feature; 0 for a leaf.
    pub fn feature(self) -> usize {
        self.feature as usize
    }

    /// How far away the child on the left is; 0 for a leaf.
    pub fn distance(self) -> usize {
        (self.bits & Wide::DISTANCE) as usize
    }
}

impl Nodes {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Nodes::Narrow(nodes) => nodes.len(),
            Nodes::Wide(nodes) => nodes.len(),
        }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of each.
    pub fn bytes_each(&self) -> usize {
        match self {
            Nodes::Narrow(_) => size_of::<Narrow>(),
            Nodes::Wide(_) => size_of::<Wide>(),
        }
    }
}

impl Forest {
    /// Sums of a row.
    pub fn sums(&self) -> usize {
        self.base.len()
    }

    /// Predictions of a row, or probabilities that are made of them.
    pub fn width(&self) -> usize {
        self.calibration.as_ref().map_or_else(|| self.transformed(), Calibration::classes)
    }

    /// What the transform makes of the sums of a row.
    pub fn transformed(&self) -> usize {
        match self.transform {
            Transform::Single(transform) => transform.width(self.sums()),
            Transform::Double(transform) => transform.width(self.sums()),
        }
    }

    /// Splits on the longest way from a root to a leaf.
    pub fn depth(&self) -> usize {
        self.trees.iter().map(|it| usize::from(it.depth)).max().unwrap_or(0)
    }
}

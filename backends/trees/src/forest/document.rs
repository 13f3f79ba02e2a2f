//! A model as its file tells it: what every reader produces. Nothing in it is checked.

use crate::{
    categories::NamedCategories,
    forest::{calibration::Calibration, double, single},
};

/// A model as its file tells it.
///
/// A row's sums begin with `base`. Each tree then adds the value of the leaf that the row reaches, in the order of
/// `trees`. The sums are divided by `average_over`, `added_last` is added, and `transform` makes predictions of them.
/// All of it is done in the precision of `transform`.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What wrote the file.
    pub origin: Origin,
    /// Is it a `Booster` of XGBoost in a pickle?
    pub is_pickled_booster: bool,
    /// The objective by the library's name, for the log and for clients. Empty where there is none.
    pub objective: String,
    /// Is it an estimator as scikit-learn knows them, whose classifiers answer classes and the probability of each?
    pub is_estimator: bool,
    /// Classes, where the model tells classes apart: 2 for a binary one.
    pub classes: Option<usize>,
    /// The classes themselves, in their order, where the file has them and they are whole numbers; else empty.
    pub class_numbers: Vec<i64>,
    /// The same where they are texts; else empty.
    pub class_names: Vec<String>,
    /// Columns of a row.
    pub features: usize,
    /// Names of the columns; empty where the file has none.
    pub feature_names: Vec<String>,
    /// The features whose categories have names.
    pub categories: Vec<NamedCategories>,
    /// A value of a feature that means that it is missing, as NaN does.
    pub missing: Option<f64>,
    /// The type to which features are rounded before they are compared.
    pub rounding: Rounding,
    /// What sends a feature left at its condition.
    pub comparison: Comparison,
    /// What a negative fraction is among categories.
    pub negative_fraction: NegativeFraction,
    /// With what each sum begins. Its length is the number of sums.
    pub base: Vec<f64>,
    /// In the order in which they are added.
    pub trees: Vec<Tree>,
    /// Where the rounds of training begin in `trees`, and where the last one ends. Empty where that is not known.
    pub rounds: Vec<usize>,
    /// The trees that are used, where training stopped early and the library heeds that: the first so many.
    pub best_trees: Option<usize>,
    /// The last round before training got worse, counted from zero.
    pub best_round: Option<usize>,
    /// A linear model, added to the sums before the trees.
    pub linear: Option<Linear>,
    /// By what the sums are divided.
    pub average_over: Option<f64>,
    /// What is added to each sum at the end; empty for nothing.
    pub added_last: Vec<f64>,
    /// From sums to predictions.
    pub transform: Transform,
    /// From sums or predictions to probabilities of classes, in 64 bits; the model then answers these.
    pub calibration: Option<Calibration>,
    /// Lines for the log: what in the file has no effect here.
    pub remarks: Vec<String>,
}

/// What wrote a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The library.
    pub library: Library,
    /// Its version; empty where the file does not say.
    pub version: String,
    /// The format as it is shown: `UBJ`.
    pub format: &'static str,
}

/// A library that trains models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// XGBoost.
    Xgboost,
    /// LightGBM.
    Lightgbm,
    /// scikit-learn.
    ScikitLearn,
    /// treelite, which takes models of the others.
    Treelite,
}

/// The type to which features are rounded before they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

/// What sends a feature left at its condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `x < condition`
    Less,
    /// `x <= condition`
    LessOrEqual,
}

/// What a category between -1 and 0 is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NegativeFraction {
    /// A negative number, which is in no set.
    Negative,
    /// The category 0.
    Zero,
}

/// From a row's sums to its predictions; also the precision of the sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transform {
    /// With sums of 32 bits.
    Single(single::Transform),
    /// With sums of 64 bits.
    Double(double::Transform),
}

/// One tree, whose root is node 0. `left`, `right`, `feature`, `condition` and `default_left` have an entry for each
/// node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    /// The child on the left; negative for a leaf.
    pub left: Vec<i32>,
    /// The child on the right; negative for a leaf.
    pub right: Vec<i32>,
    /// The feature of a split.
    pub feature: Vec<u32>,
    /// What the feature of a split is compared with, and the value of a leaf. Of no meaning in splits of `categorical`
    /// and leaves of `vectors`.
    pub condition: Vec<f64>,
    /// Where a missing value goes; for a library that takes it for zero, where zero goes.
    pub default_left: Vec<bool>,
    /// The splits where zero, and what lies within 1e-35 of it, is missing; empty where there are none, else an entry
    /// for each node.
    pub zero_is_missing: Vec<bool>,
    /// The splits by categories, in ascending order of their nodes.
    pub categorical: Vec<CategorySplit>,
    /// Members of the sets of `categorical`, one set behind the other.
    pub categories: Vec<u32>,
    /// Leaves that add to all sums at once.
    pub vectors: Option<LeafVectors>,
    /// Leaves that are linear models, in ascending order of their nodes.
    pub linear: Vec<LinearLeaf>,
    /// How many rows of training each node had, or the sum of their Hessians; empty where the file does not say.
    pub covers: Vec<f32>,
    /// The sum that its leaves add to.
    pub output: usize,
    /// By what a leaf's value is multiplied before it is added.
    pub weight: f64,
}

/// A split that asks whether a category is in a set.
///
/// What is no category (negative, or 2^24 and above) is in no set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CategorySplit {
    /// The node.
    pub node: usize,
    /// Where the set begins in [`Tree::categories`].
    pub start: usize,
    /// How many members it has.
    pub length: usize,
    /// Do members go left? What is not in the set goes the other way.
    pub members_go_left: bool,
}

/// Values of leaves, one for each sum.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeafVectors {
    /// For each node the row of `values` that a leaf has; of no meaning for splits.
    pub row: Vec<u32>,
    /// Rows of as many values as there are sums.
    pub values: Vec<f64>,
}

/// A leaf that is a linear model: `constant` and each coefficient times its feature, in their order, or the value of
/// the leaf in [`Tree::condition`] where one of the features is missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinearLeaf {
    /// The node.
    pub node: usize,
    /// With what the sum begins.
    pub constant: f64,
    /// Features.
    pub features: Vec<u32>,
    /// A coefficient for each of them.
    pub coefficients: Vec<f64>,
}

/// A model without trees: biases, then each feature times its weight. A missing feature adds nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Linear {
    /// For each feature a weight for each sum.
    pub weights: Vec<f64>,
    /// A bias for each sum.
    pub biases: Vec<f64>,
}

impl Library {
    /// Its name as its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Library::Xgboost => "XGBoost",
            Library::Lightgbm => "LightGBM",
            Library::ScikitLearn => "scikit-learn",
            Library::Treelite => "treelite",
        }
    }
}

impl Document {
    /// A model of XGBoost without trees and outputs.
    pub fn new(origin: Origin, transform: Transform) -> Document {
        Document {
            origin,
            is_pickled_booster: false,
            objective: String::new(),
            is_estimator: false,
            classes: None,
            class_numbers: Vec::new(),
            class_names: Vec::new(),
            features: 0,
            feature_names: Vec::new(),
            categories: Vec::new(),
            missing: None,
            rounding: Rounding::Single,
            comparison: Comparison::Less,
            negative_fraction: NegativeFraction::Negative,
            base: Vec::new(),
            trees: Vec::new(),
            rounds: Vec::new(),
            best_trees: None,
            best_round: None,
            linear: None,
            average_over: None,
            added_last: Vec::new(),
            transform,
            calibration: None,
            remarks: Vec::new(),
        }
    }

    /// Sums of a row.
    pub fn sums(&self) -> usize {
        self.base.len()
    }
}

impl Tree {
    /// Nodes, those included that no row reaches.
    pub fn nodes(&self) -> usize {
        self.left.len()
    }
}

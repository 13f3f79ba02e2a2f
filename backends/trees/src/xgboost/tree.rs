//! One tree of XGBoost's JSON and UBJSON.

use crate::{
    error::FormatError,
    forest::document::{CategorySplit, LeafVectors, Tree},
    limits,
    xgboost::source::Source,
};

/// The arrays of a tree as the file has them.
#[derive(Default)]
struct Columns {
    tree: Tree,
    split_type: Vec<bool>,
    nodes_of_sets: Vec<u32>,
    starts_of_sets: Vec<u32>,
    lengths_of_sets: Vec<u32>,
    leaf_weights: Vec<f64>,
    /// What the tree says of its own size.
    declared_nodes: Option<usize>,
    leaf_width: usize,
}

/// Reads the tree of that number. Its output and weight are not in it.
pub(super) fn read(source: &mut impl Source, number: usize) -> Result<Tree, FormatError> {
    let mut columns = Columns::default();
    source.object(|source, key| columns.field(source, key, number))?;
    columns.finish(number)
}

impl Columns {
    fn field<S: Source>(
        &mut self,
        source: &mut S,
        key: &str,
        number: usize,
    ) -> Result<(), FormatError> {
        match key {
            "left_children" => self.tree.left = source.numbers()?,
            "right_children" => self.tree.right = source.numbers()?,
            "split_indices" => self.tree.feature = source.numbers()?,
            "split_conditions" => self.tree.condition = source.numbers()?,
            "default_left" => self.tree.default_left = source.numbers()?,
            "split_type" => self.split_type = source.numbers()?,
            "categories" => self.tree.categories = source.numbers()?,
            "categories_nodes" => self.nodes_of_sets = source.numbers()?,
            "categories_segments" => self.starts_of_sets = source.numbers()?,
            "categories_sizes" => self.lengths_of_sets = source.numbers()?,
            "sum_hessian" => self.tree.covers = source.numbers()?,
            "leaf_weights" => self.leaf_weights = source.numbers()?,
            "tree_param" => source.object(|source, key| match key {
                "num_nodes" => {
                    self.declared_nodes = Some(count(source, limits::NODES_OF_TREE, number)?);
                    Ok(())
                }
                "size_leaf_vector" => {
                    self.leaf_width = count(source, limits::OUTPUTS, number)?;
                    Ok(())
                }
                _ => source.skip(),
            })?,
            _ => source.skip()?,
        }
        Ok(())
    }

    fn finish(mut self, number: usize) -> Result<Tree, FormatError> {
        let refuse = |problem: String| Err(FormatError::of_tree(number, problem));
        let nodes = self.tree.nodes();
        // Before there are many of them: without nodes a tree takes more memory than its text.
        if nodes == 0 {
            return refuse("it has no nodes".to_owned());
        }
        if let Some(declared) = self.declared_nodes.filter(|it| *it != nodes) {
            return refuse(format!("{nodes} left children, num_nodes is {declared}"));
        }
        self.tree.weight = 1.0;
        self.sets(number)?;
        match (1 < self.leaf_width, self.leaf_weights.is_empty()) {
            (true, false) => self.vectors(),
            (true, true) => {
                let wanted = "leaf_weights, which XGBoost 3.1 and later write: load the model there and save it again";
                return refuse(format!("its leaves are vectors, and it has no {wanted}"));
            }
            (false, _) => {}
        }
        Ok(self.tree)
    }

    /// The splits by categories. Where a set is, members go right.
    fn sets(&mut self, number: usize) -> Result<(), FormatError> {
        let refuse = |problem: String| Err(FormatError::of_tree(number, problem));
        let nodes = self.tree.nodes();
        let sets = self.nodes_of_sets.len();
        let (starts, lengths) = (self.starts_of_sets.len(), self.lengths_of_sets.len());
        if starts != sets || lengths != sets {
            return refuse(format!(
                "{sets} nodes with categories, {starts} categories_segments and {lengths} categories_sizes"
            ));
        }
        let types = self.split_type.len();
        if types != nodes && (types != 0 || sets != 0) {
            return refuse(format!("{types} types of splits, the tree has {nodes} nodes"));
        }
        let sets = self.nodes_of_sets.iter().zip(&self.starts_of_sets).zip(&self.lengths_of_sets);
        let mut splits: Vec<CategorySplit> = sets
            .map(|((node, start), length)| CategorySplit {
                node: *node as usize,
                start: *start as usize,
                length: *length as usize,
                members_go_left: false,
            })
            .filter(|it| self.split_type.get(it.node).copied().unwrap_or(true))
            .collect();
        splits.sort_by_key(|it| it.node);
        let is_split = |node: usize| self.tree.left[node] >= 0;
        let without = self.split_type.iter().enumerate().find(|(node, is_categorical)| {
            **is_categorical
                && is_split(*node)
                && splits.binary_search_by_key(node, |it| it.node).is_err()
        });
        if let Some((node, _)) = without {
            return Err(FormatError::of_node(number, node, "a split by categories without any"));
        }
        self.tree.categorical = splits;
        Ok(())
    }

    /// The child on the right of a leaf is the number of its vector.
    fn vectors(&mut self) {
        let tree = &mut self.tree;
        let mut row = vec![0; tree.nodes()];
        for ((row, left), right) in row.iter_mut().zip(&tree.left).zip(&mut tree.right) {
            if *left < 0 {
                // A negative number becomes one that no vector has.
                *row = *right as u32;
                *right = -1;
            }
        }
        tree.vectors = Some(LeafVectors { row, values: std::mem::take(&mut self.leaf_weights) });
    }
}

/// A number from 0 in text, as parameters are written.
pub(super) fn count<S: Source>(
    source: &mut S,
    most: usize,
    tree: usize,
) -> Result<usize, FormatError> {
    let text = source.text()?;
    let count = text.parse().ok().filter(|it| *it <= most);
    count.ok_or_else(|| {
        FormatError::of_tree(tree, format!("{text:?}, expected a number of at most {most}"))
    })
}

//! Is a document sound? Every number that a walk relies on is looked at, once, before a forest is made of it. Pure.
//!
//! A walk then needs no bound of its own: each step goes to a child that exists, and no node is a child twice. So it
//! ends after as many steps as the tree is deep.

use crate::{
    error::FormatError,
    forest::document::{Document, Linear, Tree},
    limits,
};

/// What a walk through a sound tree needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeShape {
    /// Nodes that a row may reach.
    pub nodes: usize,
    /// Splits on the longest way from the root to a leaf.
    pub depth: usize,
}

/// The shape of each tree.
///
/// # Errors
/// The first thing that is wrong, with its tree and node.
pub fn check(document: &Document) -> Result<Vec<TreeShape>, FormatError> {
    numbers(document)?;
    if let Some(linear) = &document.linear {
        linear_model(linear, document)?;
    }
    let mut nodes = 0;
    let mut shapes = Vec::with_capacity(document.trees.len());
    let mut seen = Vec::new();
    for (number, tree) in document.trees.iter().enumerate() {
        nodes += tree.nodes();
        if limits::NODES < nodes {
            let most = limits::NODES;
            return Err(FormatError::of_tree(
                number,
                format!("the model has more than {most} nodes"),
            ));
        }
        shapes.push(TreeCheck { document, tree, number }.shape(&mut seen)?);
    }
    Ok(shapes)
}

fn numbers(document: &Document) -> Result<(), FormatError> {
    let refuse = |problem: String| Err(FormatError::new(problem));
    let (features, sums) = (document.features, document.sums());
    if limits::FEATURES < features {
        return refuse(format!("{features} features; at most {} are served", limits::FEATURES));
    }
    if features == 0 {
        return refuse("the model takes no features".to_owned());
    }
    if limits::OUTPUTS < sums {
        return refuse(format!("{sums} outputs; at most {} are served", limits::OUTPUTS));
    }
    if sums == 0 {
        return refuse("the model has no outputs".to_owned());
    }
    if let Some(base) = document.base.iter().find(|it| !it.is_finite()) {
        return refuse(format!("the base score is {base}, which is no finite number"));
    }
    let added = &document.added_last;
    if !added.is_empty() && added.len() != sums {
        return refuse(format!(
            "{} numbers are added last, the model has {sums} outputs",
            added.len()
        ));
    }
    if let Some(added) = added.iter().find(|it| !it.is_finite()) {
        return refuse(format!("the base score is {added}, which is no finite number"));
    }
    let names = document.feature_names.len();
    if names != 0 && names != features {
        return refuse(format!("{names} names of features, the model has {features} features"));
    }
    let trees = document.trees.len();
    if limits::TREES < trees {
        return refuse(format!("{trees} trees; at most {} are served", limits::TREES));
    }
    if !document.rounds.is_sorted() || document.rounds.last().is_some_and(|it| trees < *it) {
        return refuse(format!("its rounds of training do not divide its {trees} trees"));
    }
    Ok(())
}

fn linear_model(linear: &Linear, document: &Document) -> Result<(), FormatError> {
    let expected = document.features * document.sums();
    let (weights, biases) = (linear.weights.len(), linear.biases.len());
    if weights != expected || biases != document.sums() {
        return Err(FormatError::new(format!(
            "the linear model has {weights} weights and {biases} biases, expected {expected} and {}",
            document.sums()
        )));
    }
    Ok(())
}

struct TreeCheck<'a> {
    document: &'a Document,
    tree: &'a Tree,
    number: usize,
}

impl TreeCheck<'_> {
    fn shape(&self, seen: &mut Vec<bool>) -> Result<TreeShape, FormatError> {
        self.sizes()?;
        self.categories()?;
        self.leaves()?;
        self.walk(seen)
    }

    fn refuse<T>(&self, problem: String) -> Result<T, FormatError> {
        Err(FormatError::of_tree(self.number, problem))
    }

    fn refuse_node<T>(&self, node: usize, problem: String) -> Result<T, FormatError> {
        Err(FormatError::of_node(self.number, node, problem))
    }

    /// The arrays have an entry for each node, and the tree adds to a sum that there is.
    fn sizes(&self) -> Result<(), FormatError> {
        let tree = self.tree;
        let nodes = tree.nodes();
        if nodes == 0 {
            return self.refuse("it has no nodes".to_owned());
        }
        if limits::NODES_OF_TREE < nodes {
            return self
                .refuse(format!("{nodes} nodes; at most {} are served", limits::NODES_OF_TREE));
        }
        let optional = |length: usize| if length == 0 { nodes } else { length };
        for (name, length) in [
            ("right children", tree.right.len()),
            ("features", tree.feature.len()),
            ("conditions", tree.condition.len()),
            ("default directions", tree.default_left.len()),
            ("kinds of missing values", optional(tree.zero_is_missing.len())),
            ("leaf vectors", tree.vectors.as_ref().map_or(nodes, |it| it.row.len())),
        ] {
            if length != nodes {
                return self.refuse(format!("{length} {name}, the tree has {nodes} nodes"));
            }
        }
        let sums = self.document.sums();
        if sums <= tree.output {
            return self.refuse(format!("it adds to output {}, the model has {sums}", tree.output));
        }
        Ok(())
    }

    fn categories(&self) -> Result<(), FormatError> {
        let (nodes, members) = (self.tree.nodes(), &self.tree.categories);
        let mut before = None;
        let mut used = 0;
        for split in &self.tree.categorical {
            if nodes <= split.node || before.is_some_and(|it| split.node <= it) {
                let problem =
                    format!("it lists the split by categories {} out of order", split.node);
                return self.refuse(format!("{problem}; the tree has {nodes} nodes"));
            }
            before = Some(split.node);
            let end = split.start.checked_add(split.length);
            if end.is_none_or(|it| members.len() < it) {
                let problem = format!(
                    "{} categories from {}, the tree has {}",
                    split.length,
                    split.start,
                    members.len()
                );
                return self.refuse_node(split.node, problem);
            }
            // Each set is laid out by itself: sets that share members would take more memory than the file has bytes.
            used += split.length;
            if members.len() < used {
                let problem = "its set of categories shares members with those of other nodes";
                return self.refuse_node(split.node, problem.to_owned());
            }
        }
        for split in &self.tree.categorical {
            let set = &members[split.start..split.start + split.length];
            if let Some(category) = set.iter().find(|it| limits::CATEGORIES <= **it) {
                let most = limits::CATEGORIES;
                return self.refuse_node(
                    split.node,
                    format!("category {category}, expected less than {most}"),
                );
            }
        }
        Ok(())
    }

    /// Vectors and linear models of leaves.
    fn leaves(&self) -> Result<(), FormatError> {
        let (nodes, features) = (self.tree.nodes(), self.document.features);
        let mut before = None;
        for leaf in &self.tree.linear {
            if nodes <= leaf.node || before.is_some_and(|it| leaf.node <= it) {
                let problem = format!("it lists the linear leaf {} out of order", leaf.node);
                return self.refuse(format!("{problem}; the tree has {nodes} nodes"));
            }
            before = Some(leaf.node);
            let (of, coefficients) = (leaf.features.len(), leaf.coefficients.len());
            if of != coefficients {
                return self.refuse_node(
                    leaf.node,
                    format!("{coefficients} coefficients of {of} features"),
                );
            }
            if let Some(feature) = leaf.features.iter().find(|it| features <= **it as usize) {
                let problem = format!("feature {feature}, the model has {features}");
                return self.refuse_node(leaf.node, problem);
            }
        }
        Ok(())
    }

    /// Goes through the tree from its root, level by level.
    fn walk(&self, seen: &mut Vec<bool>) -> Result<TreeShape, FormatError> {
        let tree = self.tree;
        let nodes = tree.nodes();
        seen.clear();
        seen.resize(nodes, false);
        seen[0] = true;
        let mut shape = TreeShape { nodes: 1, depth: 0 };
        let mut leaves = 0;
        let mut level = vec![0];
        while !level.is_empty() {
            let mut next = Vec::new();
            for node in level {
                let (left, right) = (tree.left[node], tree.right[node]);
                if left < 0 && right < 0 {
                    leaves += 1;
                    self.leaf(node, leaves)?;
                    continue;
                }
                self.split(node)?;
                for (side, child) in [("left", left), ("right", right)] {
                    let Some(child) = usize::try_from(child).ok().filter(|it| *it < nodes) else {
                        let problem = match child {
                            0.. => format!("{side} child {child}, the tree has {nodes} nodes"),
                            _ => format!("it has no {side} child, but one on the other side"),
                        };
                        return self.refuse_node(node, problem);
                    };
                    if std::mem::replace(&mut seen[child], true) {
                        let problem = format!("{side} child {child} is in the tree already");
                        return self.refuse_node(node, problem);
                    }
                    next.push(child);
                }
            }
            shape.nodes += next.len();
            shape.depth += usize::from(!next.is_empty());
            if limits::DEPTH < shape.depth {
                return self.refuse(format!("it is deeper than {} splits", limits::DEPTH));
            }
            level = next;
        }
        Ok(shape)
    }

    fn split(&self, node: usize) -> Result<(), FormatError> {
        let (feature, features) = (self.tree.feature[node], self.document.features);
        match (feature as usize) < features {
            true => Ok(()),
            false => self.refuse_node(node, format!("feature {feature}, the model has {features}")),
        }
    }

    /// `leaves` is how many have been seen, this one included.
    fn leaf(&self, node: usize, leaves: usize) -> Result<(), FormatError> {
        let Some(vectors) = &self.tree.vectors else { return Ok(()) };
        let (row, rows) = (vectors.row[node] as usize, vectors.values.len() / self.document.sums());
        if rows <= row {
            return self.refuse_node(node, format!("leaf vector {row}, the tree has {rows}"));
        }
        // Each leaf has a copy of its vector.
        match leaves <= rows {
            true => Ok(()),
            false => {
                self.refuse_node(node, format!("leaf {leaves}, the tree has {rows} leaf vectors"))
            }
        }
    }
}

#[cfg(test)]
mod tests;

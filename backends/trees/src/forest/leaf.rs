//! Which leaves rows reach. Pure.

use crate::forest::{
    document::Comparison,
    packed::{Forest, Nodes},
    sum::Rows,
    walk::{LANES, NarrowSplits, Splits, WideNumbers, WideSplits, one_row},
};

impl Forest {
    /// For each row, and each tree, what the leaf that the row reaches is called in the file. `rows` are of the type
    /// that [`takes_single`](Forest::takes_single) says, whole, and as many as there is room for in `leaves`. The
    /// forest was laid out with the names of its leaves.
    pub fn leaves_of(&self, rows: Rows<'_>, leaves: &mut [i32]) {
        match (&self.nodes, rows) {
            (Nodes::Narrow(nodes), Rows::Single(rows)) => match self.comparison {
                Comparison::Less => self.leaves_by(&NarrowSplits::<false>, nodes, rows, leaves),
                Comparison::LessOrEqual => {
                    self.leaves_by(&NarrowSplits::<true>, nodes, rows, leaves);
                }
            },
            (Nodes::Wide(nodes), Rows::Double(rows)) if self.has_only_numbers => {
                match self.comparison {
                    Comparison::Less => self.leaves_by(&WideNumbers::<false>, nodes, rows, leaves),
                    Comparison::LessOrEqual => {
                        self.leaves_by(&WideNumbers::<true>, nodes, rows, leaves);
                    }
                }
            }
            (Nodes::Wide(nodes), Rows::Double(rows)) => {
                let splits = WideSplits {
                    sets: &self.sets,
                    comparison: self.comparison,
                    negative_fraction: self.negative_fraction,
                };
                self.leaves_by(&splits, nodes, rows, leaves);
            }
            (Nodes::Narrow(_), Rows::Double(_)) | (Nodes::Wide(_), Rows::Single(_)) => {
                unreachable!("the caller has asked which type of rows the forest takes")
            }
        }
    }

    fn leaves_by<S: Splits>(
        &self,
        splits: &S,
        nodes: &[S::Node],
        rows: &[S::Feature],
        leaves: &mut [i32],
    ) {
        if self.trees.is_empty() {
            return;
        }
        let of_rows = leaves.chunks_mut(self.trees.len());
        for (row, leaves) in rows.chunks(self.features).zip(of_rows) {
            for (trees, leaves) in self.trees.chunks(LANES).zip(leaves.chunks_mut(LANES)) {
                // Where there are fewer, the last one is walked again.
                let tree = |i: usize| trees[i.min(trees.len() - 1)];
                let roots = std::array::from_fn(|i| tree(i).root as usize);
                let depth = trees.iter().map(|it| it.depth).max().unwrap_or(0);
                let ends = one_row(splits, nodes, roots, usize::from(depth), row);
                for (leaf, end) in leaves.iter_mut().zip(ends) {
                    // A tree has fewer nodes than 2^31.
                    *leaf = self.names[end] as i32;
                }
            }
        }
    }
}

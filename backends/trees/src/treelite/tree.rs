//! One tree of a checkpoint. Version 3 has a record for each node, version 4 an array for each property.

use crate::{
    error::FormatError,
    forest::document::{CategorySplit, Comparison, LeafVectors, Tree},
    limits,
    treelite::{
        bytes::{Bytes, Column},
        header::Header,
        model::{LeafTarget, Outputs},
    },
};

/// Values of leaves that a file may have beside those that it has bytes for.
const VALUES: usize = 1 << 17;

/// Numbers of comparisons in the file.
const LESS: u8 = 2;
const LESS_OR_EQUAL: u8 = 3;
const GREATER: u8 = 4;
const GREATER_OR_EQUAL: u8 = 5;

/// Reads trees one by one.
pub(super) struct TreeliteReader<'a> {
    header: &'a Header,
    outputs: &'a Outputs,
    /// That of the first split. The others are brought into its form.
    comparison: Option<Comparison>,
    /// Values that leaves may still have.
    values_left: usize,
}

/// The nodes of a tree as the file has them.
struct Nodes<'a> {
    count: usize,
    left: Column<'a>,
    right: Column<'a>,
    feature: Column<'a>,
    /// In version 3 it is the highest bit of the feature.
    default_left: Option<Column<'a>>,
    leaf: Column<'a>,
    threshold: Column<'a>,
    comparison: Column<'a>,
    /// 2 for a split by categories.
    kind: Column<'a>,
    members_go_right: Column<'a>,
    vectors: Column<'a>,
    vector_begin: Column<'a>,
    vector_end: Column<'a>,
    members: Column<'a>,
    members_begin: Column<'a>,
    members_end: Column<'a>,
    counts: Counts<'a>,
    hessians: Counts<'a>,
}

/// A number of each node, and whether it is there.
#[derive(Clone, Copy)]
struct Counts<'a> {
    numbers: Column<'a>,
    are_there: Column<'a>,
}

impl Counts<'_> {
    fn has_all(self, nodes: usize) -> bool {
        nodes <= self.numbers.len()
            && nodes <= self.are_there.len()
            && (0..nodes).all(|it| self.are_there.byte(it) != 0)
    }
}

impl<'a> TreeliteReader<'a> {
    /// `length` is that of the file.
    pub(super) fn new(
        header: &'a Header,
        outputs: &'a Outputs,
        length: usize,
    ) -> TreeliteReader<'a> {
        TreeliteReader { header, outputs, comparison: None, values_left: length / 4 + VALUES }
    }

    /// What sends a feature left in all trees that were read.
    pub(super) fn comparison(&self) -> Comparison {
        self.comparison.unwrap_or(Comparison::Less)
    }

    /// The next tree, which has that number.
    pub(super) fn tree(&mut self, bytes: &mut Bytes, number: usize) -> Result<Tree, FormatError> {
        let place = self.outputs.place(self.header, number)?;
        let nodes = match self.header.version[0] {
            3 => third(bytes, number, self.header.is_double)?,
            _ => fourth(bytes, number, self.header.is_double)?,
        };
        let count = nodes.count;
        let mut tree = Tree { weight: 1.0, ..Tree::default() };
        if let LeafTarget::One(sum) = place {
            tree.output = sum;
        }
        for it in [&mut tree.left, &mut tree.right] {
            it.reserve_exact(count);
        }
        tree.feature.reserve_exact(count);
        tree.condition.reserve_exact(count);
        tree.default_left.reserve_exact(count);
        let mut vectors = LeafVectors::default();
        if !matches!(place, LeafTarget::One(_)) {
            let leaves = (0..count).filter(|it| nodes.left.i32(*it) < 0).count();
            vectors.values.reserve_exact((leaves * self.outputs.sums()).min(self.values_left));
            vectors.row.resize(count, 0);
        }
        for node in 0..count {
            tree.left.push(nodes.left.i32(node));
            tree.right.push(nodes.right.i32(node));
            let feature = nodes.feature.u32(node);
            let (feature, default_left) = match nodes.default_left {
                None => (feature & 0x7fff_ffff, feature >> 31 != 0),
                Some(column) => (feature, column.byte(node) != 0),
            };
            tree.feature.push(feature);
            tree.default_left.push(default_left);
            tree.condition.push(0.0);
            if nodes.left.i32(node) < 0 {
                self.leaf(&nodes, number, node, place, &mut tree, &mut vectors)?;
            } else if nodes.kind.byte(node) == 2 {
                categories(&nodes, number, node, &mut tree)?;
            } else {
                self.split(&nodes, number, node, &mut tree)?;
            }
        }
        if !matches!(place, LeafTarget::One(_)) {
            tree.vectors = Some(vectors);
        }
        // As in the library that explains such models for Triton.
        tree.covers = match () {
            () if nodes.hessians.has_all(count) => {
                (0..count).map(|it| nodes.hessians.numbers.f64(it) as f32).collect()
            }
            () if nodes.counts.has_all(count) => {
                (0..count).map(|it| nodes.counts.numbers.u64(it) as f32).collect()
            }
            () => Vec::new(),
        };
        Ok(tree)
    }

    fn leaf(
        &mut self,
        nodes: &Nodes,
        number: usize,
        node: usize,
        place: LeafTarget,
        tree: &mut Tree,
        vectors: &mut LeafVectors,
    ) -> Result<(), FormatError> {
        let is_double = self.header.is_double;
        let (begin, end) = (nodes.vector_begin, nodes.vector_end);
        let (begin, end) = match node < begin.len() && node < end.len() {
            true => (begin.u64(node), end.u64(node)),
            false => (0, 0),
        };
        let place_of = |it: u64| usize::try_from(it).ok().filter(|it| *it <= nodes.vectors.len());
        let (Some(begin), Some(end)) = (place_of(begin), place_of(end)) else {
            let problem = format!("values {begin} to {end}, the tree has {}", nodes.vectors.len());
            return Err(FormatError::of_node(number, node, problem));
        };
        let expected = self.outputs.sums_of(place).count();
        let given = end.saturating_sub(begin);
        match place {
            LeafTarget::One(_) if given == 0 => {
                tree.condition[node] = nodes.leaf.float(node, is_double)
            }
            LeafTarget::One(_) if given == 1 => {
                tree.condition[node] = nodes.vectors.float(begin, is_double);
            }
            _ if given != expected => {
                let problem = format!("a leaf of {given} values, expected {expected}");
                return Err(FormatError::of_node(number, node, problem));
            }
            _ => {
                let sums = self.outputs.sums();
                let Some(left) = self.values_left.checked_sub(sums) else {
                    let problem = "leaves have more values than the file has bytes for";
                    return Err(FormatError::of_node(number, node, problem));
                };
                self.values_left = left;
                let row = vectors.values.len();
                vectors.values.resize(row + sums, 0.0);
                for (at, sum) in self.outputs.sums_of(place).enumerate() {
                    if self.outputs.is_used(sum) {
                        vectors.values[row + sum] = nodes.vectors.float(begin + at, is_double);
                    }
                }
                // It fits: values are fewer than a quarter of the bytes of a file of 2 GiB.
                vectors.row[node] = (row / sums) as u32;
            }
        }
        Ok(())
    }

    /// A split that compares numbers, in the form of the first one.
    fn split(
        &mut self,
        nodes: &Nodes,
        number: usize,
        node: usize,
        tree: &mut Tree,
    ) -> Result<(), FormatError> {
        let is_double = self.header.is_double;
        let mut threshold = nodes.threshold.float(node, is_double);
        let (comparison, is_turned) = match nodes.comparison.byte(node) {
            LESS => (Comparison::Less, false),
            LESS_OR_EQUAL => (Comparison::LessOrEqual, false),
            // Nothing is greater than what is no number, and nothing less.
            GREATER => (Comparison::LessOrEqual, !threshold.is_nan()),
            GREATER_OR_EQUAL => (Comparison::Less, !threshold.is_nan()),
            other => {
                let problem = format!("comparison {other} is not one of <, <=, > and >=");
                return Err(FormatError::of_node(number, node, problem));
            }
        };
        let mut is_turned = is_turned;
        match (*self.comparison.get_or_insert(comparison), comparison) {
            (Comparison::Less, Comparison::LessOrEqual) if threshold == f64::INFINITY => {
                // Always: the other way round, never.
                (threshold, is_turned) = (f64::NAN, !is_turned);
            }
            (Comparison::Less, Comparison::LessOrEqual) => {
                threshold = next_up(threshold, is_double)
            }
            (Comparison::LessOrEqual, Comparison::Less) if threshold == f64::NEG_INFINITY => {
                threshold = f64::NAN;
            }
            (Comparison::LessOrEqual, Comparison::Less) => {
                threshold = -next_up(-threshold, is_double);
            }
            _ => {}
        }
        tree.condition[node] = threshold;
        if is_turned {
            std::mem::swap(&mut tree.left[node], &mut tree.right[node]);
            tree.default_left[node] = !tree.default_left[node];
        }
        Ok(())
    }
}

/// The next larger number of 64 bits, or of 32.
fn next_up(number: f64, is_double: bool) -> f64 {
    match is_double {
        true => number.next_up(),
        false => f64::from((number as f32).next_up()),
    }
}

/// A split by categories: the members of its set go to one side, and all else to the other.
fn categories(
    nodes: &Nodes,
    number: usize,
    node: usize,
    tree: &mut Tree,
) -> Result<(), FormatError> {
    let members = nodes.members.len();
    let place = |column: Column| match node < column.len() {
        true => usize::try_from(column.u64(node)).ok().filter(|it| *it <= members),
        false => None,
    };
    let (Some(begin), Some(end)) = (place(nodes.members_begin), place(nodes.members_end)) else {
        let problem = format!("its categories are not among the {members} of the tree");
        return Err(FormatError::of_node(number, node, problem));
    };
    let length = end.saturating_sub(begin);
    // Each set is copied: sets that share members would take more memory than the file has bytes.
    if members - tree.categories.len() < length {
        let problem = "its set of categories shares members with those of other nodes";
        return Err(FormatError::of_node(number, node, problem));
    }
    let start = tree.categories.len();
    tree.categories.extend((begin..begin + length).map(|it| nodes.members.u32(it)));
    let members_go_left = nodes.members_go_right.byte(node) == 0;
    tree.categorical.push(CategorySplit { node, start, length, members_go_left });
    Ok(())
}

/// The number of nodes, and whether there are splits by categories.
fn begin(bytes: &mut Bytes, number: usize) -> Result<usize, FormatError> {
    let count = bytes.i32("a tree")?;
    bytes.byte("a tree")?;
    let nodes = usize::try_from(count).ok().filter(|it| (1..=limits::NODES_OF_TREE).contains(it));
    nodes.ok_or_else(|| {
        let most = limits::NODES_OF_TREE;
        FormatError::of_tree(number, format!("{count} nodes, expected 1 to {most}"))
    })
}

/// The nodes of a tree of version 3.
fn third<'a>(
    bytes: &mut Bytes<'a>,
    number: usize,
    is_double: bool,
) -> Result<Nodes<'a>, FormatError> {
    let what = format!("tree {number}");
    let count = begin(bytes, number)?;
    // Records of C: a threshold of 64 bits begins at a multiple of 8.
    let (size, threshold, flags) = if is_double { (56, 16, 48) } else { (48, 12, 40) };
    let records = bytes.array(&what, size)?;
    if records.len() != count {
        let given = records.len();
        return Err(FormatError::of_tree(number, format!("{given} records, it has {count} nodes")));
    }
    let value = if is_double { 8 } else { 4 };
    let vectors = bytes.array(&what, value)?;
    let (vector_begin, vector_end) = (bytes.array(&what, 8)?, bytes.array(&what, 8)?);
    let members = bytes.array(&what, 4)?;
    let offsets = bytes.array(&what, 8)?;
    let nodes = Nodes {
        count,
        left: records,
        right: records.at(4),
        feature: records.at(8),
        default_left: None,
        leaf: records.at(threshold),
        threshold: records.at(threshold),
        kind: records.at(flags),
        comparison: records.at(flags + 1),
        members_go_right: records.at(flags + 5),
        vectors,
        vector_begin,
        vector_end,
        members,
        members_begin: offsets,
        members_end: offsets.after(1),
        counts: Counts { numbers: records.at(threshold + value), are_there: records.at(flags + 2) },
        hessians: Counts {
            numbers: records.at(threshold + value + 8),
            are_there: records.at(flags + 3),
        },
    };
    bytes.skip_additions(&what)?;
    bytes.skip_additions(&what)?;
    Ok(nodes)
}

/// The nodes of a tree of version 4.
fn fourth<'a>(
    bytes: &mut Bytes<'a>,
    number: usize,
    is_double: bool,
) -> Result<Nodes<'a>, FormatError> {
    let what = format!("tree {number}");
    let count = begin(bytes, number)?;
    let value = if is_double { 8 } else { 4 };
    let mut of_nodes = |size: usize| {
        let column = bytes.array(&what, size)?;
        match column.len() == count {
            true => Ok(column),
            false => {
                let given = column.len();
                let problem = format!("an array of {given} elements, it has {count} nodes");
                Err(FormatError::of_tree(number, problem))
            }
        }
    };
    let kind = of_nodes(1)?;
    let (left, right, feature) = (of_nodes(4)?, of_nodes(4)?, of_nodes(4)?);
    let default_left = Some(of_nodes(1)?);
    let (leaf, threshold) = (of_nodes(value)?, of_nodes(value)?);
    let (comparison, members_go_right) = (of_nodes(1)?, of_nodes(1)?);
    let vectors = bytes.array(&what, value)?;
    let (vector_begin, vector_end) = (bytes.array(&what, 8)?, bytes.array(&what, 8)?);
    let members = bytes.array(&what, 4)?;
    let (members_begin, members_end) = (bytes.array(&what, 8)?, bytes.array(&what, 8)?);
    let mut counts =
        || Ok(Counts { numbers: bytes.array(&what, 8)?, are_there: bytes.array(&what, 1)? });
    let (all_counts, hessians, _gains) = (counts()?, counts()?, counts()?);
    bytes.skip_additions(&what)?;
    bytes.skip_additions(&what)?;
    Ok(Nodes {
        count,
        left,
        right,
        feature,
        default_left,
        leaf,
        threshold,
        comparison,
        kind,
        members_go_right,
        vectors,
        vector_begin,
        vector_end,
        members,
        members_begin,
        members_end,
        counts: all_counts,
        hessians,
    })
}

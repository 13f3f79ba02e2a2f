//! XGBoost's binary format of versions up to 3.0: records of C structures, little-endian, one behind the other. Pure.
//!
//! It is also what is inside the snapshots of memory that versions 1.0 to 1.5 put into pickles.

use crate::{
    error::FormatError,
    forest::document::Tree,
    limits,
    xgboost::learner::{Booster, Learner},
};

/// With what some versions begin.
const MAGIC: &[u8] = b"binf";
/// With what a snapshot of memory begins. The length of the model follows.
const SNAPSHOT: &[u8] = b"CONFIG-offset:";

const HEADER_BYTES: usize = 136;
const TREES_HEADER_BYTES: usize = 160;
const TREE_HEADER_BYTES: usize = 148;
const NODE_BYTES: usize = 20;
const STATISTICS_BYTES: usize = 16;
const LINEAR_HEADER_BYTES: usize = 136;
/// Longest text in a file.
const TEXT_BYTES: usize = 1 << 20;

/// Could a file that begins so be one of these?
///
/// There is nothing to tell them by but that the numbers of the header make sense, and that the name of an objective
/// follows.
pub fn is_legacy(begin: &[u8]) -> bool {
    if begin.starts_with(SNAPSHOT) {
        return true;
    }
    let begin = begin.strip_prefix(MAGIC).unwrap_or(begin);
    let Some((header, rest)) = begin.split_at_checked(HEADER_BYTES) else { return false };
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|it| header[4 * at + it]));
    let Some((length, name)) = rest.split_first_chunk::<8>() else { return false };
    let name = usize::try_from(u64::from_le_bytes(*length)).ok().and_then(|it| name.get(..it));
    let is_name = |it: &[u8]| it.len() <= 64 && it.iter().all(|it| it.is_ascii_graphic());
    f32::from_bits(word(0)).is_finite()
        && word(1) as usize <= limits::FEATURES
        && word(2) as usize <= limits::OUTPUTS
        && word(3) <= 1
        && word(4) <= 1
        && word(5) <= 3
        && name.is_some_and(is_name)
}

/// Reads a file of that format, or a snapshot of memory with one in it.
///
/// # Errors
/// What is wrong, and at which byte, or in which tree.
pub fn read(bytes: &[u8]) -> Result<Learner, FormatError> {
    let bytes = match bytes.strip_prefix(SNAPSHOT) {
        Some(snapshot) => {
            let mut records = Records::new(snapshot);
            let length = records.length("the model of the snapshot", 1)?;
            records.take("the model of the snapshot", length)?
        }
        None => bytes,
    };
    let mut records = Records::new(bytes.strip_prefix(MAGIC).unwrap_or(bytes));
    let mut learner = Learner::new("legacy binary");
    let header = records.words::<{ HEADER_BYTES / 4 }>("the header")?;
    learner.base_score = vec![f32::from_bits(header[0])];
    learner.features = header[1] as usize;
    learner.classes = header[2] as usize;
    learner.version = [header[5], header[6], 0];
    learner.targets = header[7] as usize;
    learner.objective = records.text("the objective")?;
    learner.booster = match &*records.text("the booster")? {
        "gbtree" => trees(&mut records, &mut learner, false)?,
        "dart" => trees(&mut records, &mut learner, true)?,
        "gblinear" => {
            records.take("the linear model", LINEAR_HEADER_BYTES)?;
            Booster::Linear { weights: records.floats("the weights")? }
        }
        other => return Err(FormatError::new(format!("booster {other:?} is not known"))),
    };
    let has_attributes = header[3] != 0;
    if has_attributes {
        let count = records.length("the attributes", 16)?;
        if limits::ATTRIBUTES < count {
            return Err(FormatError::new(format!(
                "{count} attributes, at most {} are read",
                limits::ATTRIBUTES
            )));
        }
        for _ in 0..count {
            let (key, value) = (records.text("an attribute")?, records.text("an attribute")?);
            learner.attributes.insert(key, value);
        }
    }
    Ok(learner)
}

fn trees(
    records: &mut Records,
    learner: &mut Learner,
    has_weights: bool,
) -> Result<Booster, FormatError> {
    let header = records.words::<{ TREES_HEADER_BYTES / 4 }>("the header of the trees")?;
    let count = header[0] as usize;
    if limits::TREES < count {
        return Err(FormatError::new(format!(
            "{count} trees; at most {} are served",
            limits::TREES
        )));
    }
    learner.parallel_trees = header[1] as usize;
    let mut trees = Vec::new();
    for number in 0..count {
        trees.push(tree(records, number)?);
    }
    let mut outputs = Vec::new();
    if count != 0 {
        let groups = records.take("the groups of the trees", count * 4)?;
        outputs.extend(groups.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)));
    }
    let weights = match has_weights && count != 0 {
        true => records.floats("the weights of the trees")?,
        false => Vec::new(),
    };
    Ok(Booster::Trees { trees, outputs, weights })
}

fn tree(records: &mut Records, number: usize) -> Result<Tree, FormatError> {
    let what = format!("tree {number}");
    let header = records.words::<{ TREE_HEADER_BYTES / 4 }>(&what)?;
    let (nodes, leaf_vector) = (header[1] as usize, header[5]);
    if limits::NODES_OF_TREE < nodes {
        let most = limits::NODES_OF_TREE;
        return Err(FormatError::of_tree(
            number,
            format!("{nodes} nodes; at most {most} are served"),
        ));
    }
    if leaf_vector != 0 {
        return Err(FormatError::of_tree(
            number,
            "its leaves are vectors, which no version has used",
        ));
    }
    // The statistics are looked for first, so that no memory is taken for nodes that are not there.
    let records_of_nodes = records.take(&what, nodes * NODE_BYTES)?;
    let statistics = records.take(&what, nodes * STATISTICS_BYTES)?;
    let mut tree = Tree { weight: 1.0, ..Tree::default() };
    for it in [&mut tree.left, &mut tree.right] {
        it.reserve_exact(nodes);
    }
    tree.feature.reserve_exact(nodes);
    tree.condition.reserve_exact(nodes);
    tree.default_left.reserve_exact(nodes);
    for node in records_of_nodes.as_chunks::<NODE_BYTES>().0 {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|it| node[4 * at + it]));
        tree.left.push(word(1) as i32);
        tree.right.push(word(2) as i32);
        tree.feature.push(word(3) & 0x7fff_ffff);
        tree.default_left.push(word(3) >> 31 != 0);
        tree.condition.push(f64::from(f32::from_bits(word(4))));
    }
    // The change of the loss, and then the sum of Hessians.
    let cover = |it: &[u8; STATISTICS_BYTES]| f32::from_le_bytes([4, 5, 6, 7].map(|at| it[at]));
    tree.covers = statistics.as_chunks::<STATISTICS_BYTES>().0.iter().map(cover).collect();
    Ok(tree)
}

/// Bytes, and a place in them.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8]) -> Records<'a> {
        Records { bytes, at: 0 }
    }

    fn take(&mut self, what: &str, length: usize) -> Result<&'a [u8], FormatError> {
        match self.bytes[self.at..].get(..length) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(FormatError::past_the_end(what, self.at)),
        }
    }

    fn words<const N: usize>(&mut self, what: &str) -> Result<[u32; N], FormatError> {
        let (words, _) = self.take(what, 4 * N)?.as_chunks::<4>();
        let mut numbers = [0; N];
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = u32::from_le_bytes(*word);
        }
        Ok(numbers)
    }

    /// A number of elements. There are so many bytes left for each.
    fn length(&mut self, what: &str, bytes_each: usize) -> Result<usize, FormatError> {
        let start = self.at;
        let mut raw = [0; 8];
        raw.copy_from_slice(self.take(what, 8)?);
        let left = (self.bytes.len() - self.at) / bytes_each;
        let length = usize::try_from(u64::from_le_bytes(raw)).ok().filter(|it| *it <= left);
        length.ok_or_else(|| FormatError::past_the_end(what, start))
    }

    fn text(&mut self, what: &str) -> Result<String, FormatError> {
        let length = self.length(what, 1)?;
        let start = self.at;
        let bytes = self.take(what, length)?;
        let text = std::str::from_utf8(bytes).ok().filter(|it| it.len() <= TEXT_BYTES);
        let refuse = || FormatError::new(format!("{what} at offset {start} is no text"));
        text.map(str::to_owned).ok_or_else(refuse)
    }

    fn floats(&mut self, what: &str) -> Result<Vec<f64>, FormatError> {
        let count = self.length(what, 4)?;
        let (words, _) = self.take(what, 4 * count)?.as_chunks::<4>();
        Ok(words.iter().map(|it| f64::from(f32::from_le_bytes(*it))).collect())
    }
}

#[cfg(test)]
mod tests;

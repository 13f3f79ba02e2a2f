//! Text files of LightGBM, versions 2 to 4. Pure.
//!
//! A header of `key=value` lines, blocks that begin with `Tree=`, and the words `end of trees`. Of what lies behind
//! them names of categories are read. `tree_sizes` is a hint for threads of LightGBM, and is not believed.

mod categories;
mod lines;
mod objective;
mod tree;

use crate::{
    error::FormatError,
    forest::document::{
        Comparison, Document, Library, NegativeFraction, Origin, Rounding, Transform,
    },
    limits,
};

use lines::{Lines, text};

/// How each tree begins.
const TREE: &[u8] = b"\nTree=";
/// LightGBM writes more than so many bytes for any tree. In memory a tree takes several times as much, however few it
/// has in the file.
const TREE_BYTES: usize = 160;
const TREE_ALLOWANCE: usize = 1 << 20;
/// Memory for members of categories, besides twice the size of the file.
const CATEGORY_BYTES: usize = 8 << 20;

/// Reads a file whose first line is `tree`.
///
/// # Errors
/// What is wrong, with tree and node where it is in one.
pub fn read(bytes: &[u8]) -> Result<Document, FormatError> {
    let mut lines = Lines::new(bytes);
    if lines.next() != Some(b"tree".as_slice()) {
        return Err(FormatError::new("its first line is not 'tree', as in LightGBM's files"));
    }
    let header = Header::read(&mut lines)?;
    let objective = objective::read(&header.objective)?;
    let origin = Origin { library: Library::Lightgbm, version: header.version, format: "text" };
    let mut document = Document::new(origin, Transform::Double(objective.transform));
    document.objective = objective.name;
    document.classes = objective.is_binary.then_some(2);
    if 1 < header.classes {
        document.classes = Some(header.classes);
    }
    document.features = header.features;
    document.feature_names = header.feature_names;
    document.rounding = Rounding::Double;
    document.comparison = Comparison::LessOrEqual;
    document.negative_fraction = NegativeFraction::Zero;
    document.base = vec![0.0; header.outputs];
    let mut members_left = (2 * bytes.len() + CATEGORY_BYTES) / size_of::<u32>();
    let count = bytes.windows(TREE.len()).filter(|it| *it == TREE).count();
    if limits::TREES < count {
        return Err(FormatError::new(format!(
            "{count} trees; at most {} are served",
            limits::TREES
        )));
    }
    if bytes.len() + TREE_ALLOWANCE < count * TREE_BYTES {
        let problem = format!("more trees than a file of {} bytes has room for", bytes.len());
        return Err(FormatError::new(problem));
    }
    document.trees.reserve_exact(count);
    while next_tree(&mut lines)? {
        let number = document.trees.len();
        let mut tree = tree::read(&mut lines, number, &mut members_left)?;
        tree.output = number % header.outputs;
        document.trees.push(tree);
    }
    document.categories = categories::read(lines, &header.category_features);
    if !document.categories.is_empty() {
        let remark = "categories have names in this file: texts are looked up among them, numbers are taken for codes";
        document.remarks.push(remark.to_owned());
    }
    let trees = document.trees.len();
    document.rounds = (0..=trees).step_by(header.outputs).collect();
    document.average_over = header.is_average.then_some((trees / header.outputs) as f64);
    Ok(document)
}

/// Passes the next line `Tree=`. False where the trees end.
fn next_tree(lines: &mut Lines) -> Result<bool, FormatError> {
    for line in lines.by_ref() {
        match line {
            b"end of trees" | b"feature importances:" | b"feature_importances:" => {
                return Ok(false);
            }
            _ if line.starts_with(b"Tree=") => return Ok(true),
            b"" => {}
            _ => {
                let found = text(&line[..line.len().min(40)]);
                return Err(FormatError::new(format!("{found:?}, expected a tree or their end")));
            }
        }
    }
    Err(FormatError::new("the file ends before 'end of trees': a part of it is missing"))
}

/// What stands above the trees.
struct Header {
    version: String,
    classes: usize,
    outputs: usize,
    features: usize,
    objective: String,
    feature_names: Vec<String>,
    /// The features that are split by categories, as far as the header tells.
    category_features: Vec<usize>,
    is_average: bool,
}

impl Header {
    fn read(lines: &mut Lines) -> Result<Header, FormatError> {
        let mut header = Header {
            version: String::new(),
            classes: 1,
            outputs: 0,
            features: 0,
            objective: String::new(),
            feature_names: Vec::new(),
            category_features: Vec::new(),
            is_average: false,
        };
        for line in lines.by_ref().take_while(|it| !it.is_empty()) {
            let Some((key, value)) = lines::pair(line) else {
                header.is_average |= line == b"average_output";
                continue;
            };
            match key {
                b"version" => header.version = text(value).into_owned(),
                b"num_class" => header.classes = number(key, value, limits::OUTPUTS)?,
                b"num_tree_per_iteration" => header.outputs = number(key, value, limits::OUTPUTS)?,
                b"max_feature_idx" => {
                    header.features = number(key, value, limits::FEATURES - 1)? + 1;
                }
                b"objective" => header.objective = text(value).into_owned(),
                b"feature_infos" => {
                    header.category_features = categories::features(&text(value));
                }
                b"feature_names" => {
                    let names = text(value);
                    let names = names.split_whitespace();
                    header.feature_names = match names.clone().nth(limits::NAMES) {
                        Some(_) => Vec::new(),
                        None => names.map(str::to_owned).collect(),
                    };
                }
                _ => {}
            }
        }
        match header.outputs {
            0 => {
                Err(FormatError::new("num_tree_per_iteration is 0 or missing, expected at least 1"))
            }
            _ => Ok(header),
        }
    }
}

fn number(key: &[u8], value: &[u8], most: usize) -> Result<usize, FormatError> {
    let (key, value) = (text(key), text(value));
    value.parse().ok().filter(|it| *it <= most).ok_or_else(|| {
        FormatError::new(format!("{key} is {value:?}, expected a number of at most {most}"))
    })
}

#[cfg(test)]
mod tests;

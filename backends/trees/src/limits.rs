//! How large a model may be. A file that says more is refused before memory is taken for it.

/// Bytes of a file.
pub const FILE_BYTES: u64 = 2 << 30;

/// Trees of a model.
pub const TREES: usize = 1 << 20;

/// Nodes of one tree.
pub const NODES_OF_TREE: usize = 1 << 24;

/// Nodes of all trees of a model.
pub const NODES: usize = 1 << 28;

/// Splits on the way from a root to a leaf.
pub const DEPTH: usize = 4096;

/// Splits on the way from a root to a leaf of a model whose answers are explained.
pub const EXPLAINED_DEPTH: usize = 64;

/// Contributions of a row.
pub const EXPLAINED_COLUMNS: usize = 1 << 22;

/// Contributions of all rows of a run, or leaves: of no more than 512 MiB.
pub const EXPLAINED_NUMBERS: usize = 1 << 26;

/// Columns of a row.
pub const FEATURES: usize = 1 << 20;

/// Names of columns. Models with more of them are served without names.
pub const NAMES: usize = 1 << 16;

/// Attributes of a model of XGBoost.
pub const ATTRIBUTES: usize = 10_000;

/// Sums of a row.
pub const OUTPUTS: usize = 1 << 16;

/// Numbers of categories lie below this.
pub const CATEGORIES: u32 = 1 << 24;

/// Brackets within brackets in JSON and UBJSON.
pub const NESTING: usize = 32;

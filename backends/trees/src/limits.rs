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

/// Columns of a row.
pub const FEATURES: usize = 1 << 20;

/// Sums of a row.
pub const OUTPUTS: usize = 1 << 16;

/// Numbers of categories lie below this.
pub const CATEGORIES: u32 = 1 << 24;

/// Brackets within brackets in JSON and UBJSON.
pub const NESTING: usize = 32;

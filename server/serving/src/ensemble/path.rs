//! Ensembles inside each other.

/// The ensembles that are being resolved, the innermost first.
pub struct Path<'a> {
    /// The innermost one.
    pub name: &'a str,
    /// Those that it is in.
    pub outer: Option<&'a Path<'a>>,
}

impl Path<'_> {
    /// All of them, the outermost first.
    pub fn names(&self) -> Vec<&str> {
        let mut names = self.outer.map(Path::names).unwrap_or_default();
        names.push(self.name);
        names
    }
}

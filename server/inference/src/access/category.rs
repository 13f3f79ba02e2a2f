//! What requests are about, and what they need for it. Pure.

/// What a request is about. Triton's names, and one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u16)]
pub enum Category {
    Health,
    Metadata,
    Inference,
    SharedMemory,
    ModelConfig,
    ModelRepository,
    Statistics,
    Trace,
    Logging,
    /// Not in Triton, whose metrics have a port of their own.
    Metrics,
}

impl Category {
    /// All of them.
    pub const ALL: [Category; 10] = [
        Category::Health,
        Category::Metadata,
        Category::Inference,
        Category::SharedMemory,
        Category::ModelConfig,
        Category::ModelRepository,
        Category::Statistics,
        Category::Trace,
        Category::Logging,
        Category::Metrics,
    ];

    /// As settings and errors write it.
    pub fn name(self) -> &'static str {
        match self {
            Category::Health => "health",
            Category::Metadata => "metadata",
            Category::Inference => "inference",
            Category::SharedMemory => "shared-memory",
            Category::ModelConfig => "model-config",
            Category::ModelRepository => "model-repository",
            Category::Statistics => "statistics",
            Category::Trace => "trace",
            Category::Logging => "logging",
            Category::Metrics => "metrics",
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A name that no category has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "categories with commas between them; '{name}' is none of {}",
    Category::ALL.map(Category::name).join(", ")
)]
pub struct UnknownCategory {
    /// What was given.
    pub name: String,
}

/// A set of categories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Categories(u16);

impl Categories {
    /// These and no others.
    pub fn only(categories: &[Category]) -> Categories {
        Categories(categories.iter().fold(0, |all, it| all | it.bit()))
    }

    /// Reads names with commas between them.
    ///
    /// # Errors
    /// What is expected, where a name is none.
    pub fn parse(text: &str) -> Result<Categories, UnknownCategory> {
        let mut categories = Categories::default();
        for name in text.split(',').map(str::trim) {
            let found = Category::ALL.into_iter().find(|it| it.name() == name);
            let Some(category) = found else {
                return Err(UnknownCategory { name: name.to_owned() });
            };
            categories.0 |= category.bit();
        }
        Ok(categories)
    }

    /// Is that one among them?
    pub fn contains(self, category: Category) -> bool {
        self.0 & category.bit() != 0
    }

    /// The first that is in both.
    pub fn common(self, other: Categories) -> Option<Category> {
        Category::ALL.into_iter().find(|it| self.contains(*it) && other.contains(*it))
    }
}

/// What a token allows; a later one allows all that an earlier one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// To watch: health, metrics, statistics.
    Metrics,
    /// To ask: inference, and all that clients want to know for it.
    Inference,
    /// Everything.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Metrics, Scope::Inference, Scope::Admin];

    /// As the file of tokens writes it.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Metrics => "metrics",
            Scope::Inference => "inference",
            Scope::Admin => "admin",
        }
    }
}

/// What a route of HTTP needs, or a method of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    category: Category,
    changes: bool,
    is_public: bool,
}

impl Need {
    /// Of a request that leaves the server as it is.
    pub const fn reading(category: Category) -> Need {
        Need { category, changes: false, is_public: false }
    }

    /// Of a request that changes what the server does for others: loads a model, shares memory, sets what is
    /// traced or logged.
    pub const fn changing(category: Category) -> Need {
        Need { category, changes: true, is_public: false }
    }

    /// Of a request for what is the same in every server and holds nothing of this one: whoever reaches the port may
    /// make it, without a token and without the header of a restriction.
    pub const fn public(category: Category) -> Need {
        Need { category, changes: false, is_public: true }
    }

    /// What it is about.
    pub fn category(self) -> Category {
        self.category
    }

    /// Does the request change what the server does for others?
    pub fn changes(self) -> bool {
        self.changes
    }

    /// May whoever reaches the port make the request?
    pub fn is_public(self) -> bool {
        self.is_public
    }

    /// The least that a token must allow, where one is asked for.
    pub fn scope(self) -> Scope {
        match self.category {
            _ if self.changes => Scope::Admin,
            Category::Health | Category::Metrics | Category::Statistics => Scope::Metrics,
            Category::Metadata
            | Category::Inference
            | Category::SharedMemory
            | Category::ModelConfig
            | Category::ModelRepository => Scope::Inference,
            // They name files of the server.
            Category::Trace | Category::Logging => Scope::Admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_read_by_name() {
        let all = Category::ALL.map(Category::name).join(",");
        assert!(Category::ALL.iter().all(|it| Categories::parse(&all).unwrap().contains(*it)));
        let two = Categories::parse("health, trace").unwrap();
        assert_eq!(two, Categories::only(&[Category::Trace, Category::Health]));
        assert!(!two.contains(Category::Inference));
        for wrong in ["", "healthy", "health,,trace", "Health"] {
            let error = Categories::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("model-repository"), "{wrong}: {error}");
        }
    }

    #[test]
    fn whatever_changes_something_is_for_administrators() {
        for category in Category::ALL {
            assert_eq!(Need::changing(category).scope(), Scope::Admin);
        }
        assert_eq!(Need::reading(Category::Inference).scope(), Scope::Inference);
        assert_eq!(Need::reading(Category::Metrics).scope(), Scope::Metrics);
    }
}

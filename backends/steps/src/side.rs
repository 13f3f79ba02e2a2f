//! Left and right of a text.

/// Which end of a text goes first, or on which side of it padding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// At the beginning.
    Left,
    /// At the end.
    #[default]
    Right,
}

impl Side {
    /// The name in requests and files.
    pub fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }

    /// The side of that name; case does not matter.
    pub fn from_name(name: &str) -> Option<Side> {
        [Side::Left, Side::Right].into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }
}

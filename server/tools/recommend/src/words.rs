//! Texts that are counted and cut. Pure.

/// How many users there are.
pub fn users_in_words(users: usize) -> String {
    format!("{users} user{}", if users == 1 { "" } else { "s" })
}

/// The first characters of a text.
pub fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

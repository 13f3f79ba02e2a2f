//! Texts: words of a shell's line, and texts that are cut. Pure.

/// A word of a shell's line.
pub fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_=./:,@%+".contains(it);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// How many users there are.
pub fn users_in_words(users: usize) -> String {
    format!("{users} user{}", if users == 1 { "" } else { "s" })
}

/// The first characters of a text.
pub fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_a_shell_takes_them_for() {
        assert_eq!(quoted("A=1,2"), "A=1,2");
        assert_eq!(quoted("A=it's $HOME"), "'A=it'\\''s $HOME'");
    }
}

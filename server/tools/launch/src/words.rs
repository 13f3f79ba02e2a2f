//! Words of a shell's line. Pure.

/// A word of a shell's line.
pub fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_=./:,@%+".contains(it);
    match word.chars().all(is_plain) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
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

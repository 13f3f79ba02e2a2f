//! The words and signs of a source file, without comments and without what strings say.

/// The tokens of `text`: names and numbers, `::`, and single signs. A string is the token `"`.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if let Some(length) = comment(rest) {
            rest = &rest[length..];
            continue;
        } else if let Some(length) = literal(rest) {
            found.push("\"");
            rest = &rest[length..];
            continue;
        } else if is_name(first) {
            rest.find(|it| !is_name(it)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            found.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    found
}

/// Can the letter be part of a name?
pub(super) fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// How long the comment is with which `text` begins.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |it| it + 2))
}

/// How long the string or character is with which `text` begins. A lifetime is none.
fn literal(text: &str) -> Option<usize> {
    let marks = text.trim_start_matches(['b', 'c']);
    if text.len() - marks.len() <= 1
        && let Some(raw) = marks.strip_prefix('r')
    {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let begin = text.len() - raw.len() + hashes + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            return Some(text[begin..].find(&end).map_or(text.len(), |it| begin + it + end.len()));
        }
    }
    let begin = text.len() - text.strip_prefix('b').unwrap_or(text).len();
    let rest = &text[begin..];
    if rest.starts_with('"') {
        return Some(begin + closed(rest, '"'));
    }
    let mut letters = rest.chars();
    match (letters.next(), letters.next(), letters.next()) {
        (Some('\''), Some('\\'), _) => Some(begin + closed(rest, '\'')),
        (Some('\''), Some(letter), Some('\'')) => Some(begin + 2 + letter.len_utf8()),
        _ => None,
    }
}

/// Where the literal ends that opens and closes with `quote`.
fn closed(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            it if it == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Product code and test code: an item behind `#[cfg(test)]` is the latter.
pub(super) fn split_tests<'a>(tokens: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut product, mut tests) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].starts_with(&MARK) {
            product.push(tokens[at]);
            at += 1;
            continue;
        }
        let item = at + MARK.len();
        at = item + end_of_item(&tokens[item..]);
        tests.extend(&tokens[item..at]);
    }
    (product, tests)
}

/// The number of tokens of the item with which `tokens` begin: up to its `;` or `}`.
fn end_of_item(tokens: &[&str]) -> usize {
    const ITEMS: [&str; 9] =
        ["mod", "use", "fn", "impl", "struct", "enum", "trait", "const", "static"];
    let mut depth = 0_i32;
    let mut is_item = false;
    let mut brackets_of_attribute = 0;
    for (at, token) in tokens.iter().enumerate() {
        // A further attribute is no part of the decision.
        if *token == "#" && depth == 0 {
            brackets_of_attribute = 1;
        }
        is_item |= depth == 0 && ITEMS.contains(token);
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth < 0 {
                    return at; // the last field of a list without a comma behind it
                }
                if depth == 0 && *token == "]" && brackets_of_attribute == 1 {
                    brackets_of_attribute = 0;
                    continue;
                }
                if depth == 0 && *token == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            "," if depth == 0 && !is_item => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[test]
fn comments_and_strings_are_no_code() {
    let text =
        "use a::b; // use c::d\n/* e */ let x = \"f::g\"; r#\"h \" i\"# 'j' '\\'' &'k b\"l\"";
    let expected = [
        "use", "a", "::", "b", ";", "let", "x", "=", "\"", ";", "\"", "\"", "\"", "&", "'", "k",
        "\"",
    ];
    assert_eq!(tokens(text), expected);
}

#[test]
fn items_for_tests_stand_apart() {
    let check = |text: &str, expect: &str| {
        assert_eq!(split_tests(&tokens(text)).0.join(" "), expect, "{text}");
    };
    check("#[cfg(test)] mod tests; mod a;", "mod a ;");
    check("#[cfg(test)]\n#[allow(x)]\nmod tests { fn f() { g(); } }\nmod a;", "mod a ;");
    check("#[cfg(test)] use a::b; mod a;", "mod a ;");
    check("#[cfg(test)] fn f(x: A, y: B) -> [u8; 4] { } mod a;", "mod a ;");
    check("struct S { #[cfg(test)] a: A, b: B }", "struct S { b : B }");
    check("struct S { b: B, #[cfg(test)] a: A }", "struct S { b : B , }");
}

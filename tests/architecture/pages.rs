//! The pages: they and their sentences are short, and their links lead somewhere.

use std::{collections::BTreeMap, fs, path::Path};

use super::sources::{read, root, sources};

/// The longest sentence, in words.
const LONGEST: usize = 30;

/// Words of all pages in docs/, tables and code included, as `wc -w` counts them.
const MOST_WORDS: usize = 60_000;

/// The same of a guide.
const MOST_WORDS_OF_A_GUIDE: usize = 1_200;

/// Lines of the README.
const MOST_LINES_OF_README: usize = 100;

/// Every page of the repository by its path: those at the root, and those below the folders for readers.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let is_read = ["docs", "examples", "deploy", "model_repository"];
            let is_read = is_read.iter().any(|it| path.split('/').next() == Some(it));
            match root().join(&path).is_dir() {
                true if is_read => folders.push(path),
                false if path.ends_with(".md") => _ = pages.insert(path.clone(), read(&path)),
                _ => {}
            }
        }
    }
    pages
}

/// The lines outside of blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The sentences of a page. Headings and tables have none; a point of a list begins one.
fn sentences(page: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in prose(page) {
        let text = line.trim_start();
        let point = text.split_once(' ').filter(|(mark, _)| {
            let number = mark.trim_end_matches('.');
            ["-", "*"].contains(mark) || mark.ends_with('.') && number.parse::<u32>().is_ok()
        });
        let breaks = text.is_empty() || text.starts_with(['|', '#']) || point.is_some();
        if breaks {
            paragraphs.push(String::new());
        }
        if !text.starts_with(['|', '#'])
            && let Some(last) = paragraphs.last_mut()
        {
            *last += point.map_or(text, |it| it.1);
            last.push(' ');
        }
    }
    let mut sentences = Vec::new();
    for paragraph in &paragraphs {
        let mut sentence = String::new();
        for word in paragraph.split_whitespace() {
            sentence += word;
            sentence.push(' ');
            let end = word.trim_end_matches(['"', '\'', ')', '*', '`']);
            if end.ends_with(['.', '?', '!', ':', ';']) && !end.ends_with("..") {
                sentences.push(std::mem::take(&mut sentence));
            }
        }
        sentences.push(sentence);
    }
    sentences
}

/// The comments of a file of Rust, as a page has them: each is a paragraph or several.
fn comments(code: &str) -> String {
    let text = code.lines().map(|line| match line.trim_start().strip_prefix("//") {
        Some(text) => text.strip_prefix(['/', '!']).unwrap_or(text),
        None => "",
    });
    text.collect::<Vec<_>>().join("\n")
}

/// Words of a sentence; a link counts by its text.
fn words(sentence: &str) -> usize {
    let is_word = |it: &&str| it.contains(char::is_alphanumeric) && !it.starts_with("](");
    sentence.replace("](", " ](").split_whitespace().filter(is_word).count()
}

#[test]
fn no_sentence_of_a_page_is_longer_than_a_reader_can_hold() {
    let pages = pages();
    check_sentences(pages.into_iter().filter(|(path, _)| path != "CHANGELOG.md"));
}

#[test]
fn no_sentence_of_a_comment_is_longer_either() {
    check_sentences(sources().into_iter().map(|it| (it.path, comments(&it.text))));
}

/// Each is a path and its text.
fn check_sentences(pages: impl Iterator<Item = (String, String)>) {
    let mut long = Vec::new();
    for (path, page) in pages {
        for sentence in sentences(&page) {
            let count = words(&sentence);
            if LONGEST < count {
                long.push(format!("{path}: {count} words: {}", sentence.trim()));
            }
        }
    }
    assert!(long.is_empty(), "at most {LONGEST} words:\n{}", long.join("\n"));
}

/// The addresses that a page links to.
fn links(page: &str) -> Vec<String> {
    let text = prose(page).collect::<Vec<_>>().join("\n");
    let after = text.split("](").skip(1).filter_map(|it| it.split_once(')'));
    after.map(|(address, _)| address.replace('\n', "")).collect()
}

/// What a heading is called in addresses: as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

/// The headings of a page, as addresses have them.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page).filter(|it| it.starts_with('#'));
    headings.map(|it| anchor(it.trim_start_matches('#'))).collect()
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_to_a_heading_that_exist() {
    let pages = pages();
    let mut dead = Vec::new();
    for (path, page) in &pages {
        let folder = Path::new(path).parent().expect("a folder");
        for link in
            links(page).iter().filter(|it| !it.contains("://") && !it.starts_with("mailto:"))
        {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let mut target = folder.to_owned();
            for part in file.split('/') {
                match part {
                    ".." => _ = target.pop(),
                    "." | "" => {}
                    part => target.push(part),
                }
            }
            let target = if file.is_empty() { path.clone() } else { target.display().to_string() };
            let leads = match pages.get(&target) {
                _ if !root().join(&target).exists() => false,
                Some(page) => heading.is_empty() || anchors(page).iter().any(|it| it == heading),
                None => true,
            };
            if !leads {
                dead.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn all_of_docs_can_be_read() {
    let pages = pages();
    let docs = pages.iter().filter(|(path, _)| path.starts_with("docs/"));
    let mut counts: Vec<(usize, &str)> =
        docs.map(|(path, page)| (page.split_whitespace().count(), &**path)).collect();
    counts.sort_unstable();
    let all: usize = counts.iter().map(|it| it.0).sum();
    assert!(all <= MOST_WORDS, "docs/ has {all} words, {MOST_WORDS} at most; by page {counts:?}");
}

#[test]
fn a_guide_is_one_task() {
    let guides = pages().into_iter().filter(|(path, _)| path.starts_with("docs/guides/"));
    let counts = guides.map(|(path, page)| (page.split_whitespace().count(), path));
    let long: Vec<(usize, String)> = counts.filter(|it| MOST_WORDS_OF_A_GUIDE < it.0).collect();
    assert!(long.is_empty(), "guides of more than {MOST_WORDS_OF_A_GUIDE} words: {long:?}");
}

#[test]
fn the_readme_is_one_screen() {
    let lines = read("README.md").lines().count();
    assert!(lines <= MOST_LINES_OF_README, "README.md has {lines} lines");
}

#[test]
fn the_glossary_has_thirty_terms() {
    let page = read("docs/reference/glossary.md");
    let terms = page.lines().filter(|it| it.starts_with("| ") && !it.starts_with("| Term "));
    assert!(30 <= terms.count(), "docs/reference/glossary.md has fewer");
}

//! A reader of the text format that forgives nothing.

use std::collections::BTreeMap;

use crate::metrics::series::Labels;

/// Sample name and labels in the order of the text, as one key; and the value as it was written.
pub(super) type Samples = BTreeMap<(String, Labels), String>;

pub(super) struct Family {
    pub(super) kind: String,
    pub(super) samples: Samples,
}

/// Reads the text format 0.0.4. Panics at anything that the format does not allow, at series that are
/// given twice, and at histograms that do not add up.
pub(super) fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is not ended");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut lines = text.split_terminator('\n').peekable();
    while let Some(help) = lines.next() {
        let help = help.strip_prefix("# HELP ").expect("a family begins with its help");
        let (name, help) = help.split_once(' ').expect("a name and a help");
        assert!(!help.is_empty() && is_name(name), "{name}");
        let kind = lines.next().and_then(|it| it.strip_prefix("# TYPE ")).expect("then its type");
        let kind = kind.strip_prefix(name).expect("the same name").trim().to_owned();
        assert!(["counter", "gauge", "histogram", "summary"].contains(&&*kind), "{kind}");
        let mut samples = Samples::new();
        while let Some(line) = lines.next_if(|it| !it.starts_with('#')) {
            let (sample, labels, value) = parse_sample(line);
            let suffix = sample.strip_prefix(name).expect("a sample of this family").to_owned();
            let suffixes: &[&str] = match &*kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["", "_sum", "_count"],
                _ => &[""],
            };
            assert!(suffixes.contains(&&*suffix), "{line}");
            let before = samples.insert((sample, labels), value);
            assert!(before.is_none(), "given twice: {line}");
        }
        assert!(!samples.is_empty(), "{name} has no samples");
        if kind == "histogram" {
            check_histogram(name, &samples);
        }
        let before = families.insert(name.to_owned(), Family { kind, samples });
        assert!(before.is_none(), "{name} comes twice");
    }
    families
}

fn is_name(name: &str) -> bool {
    let allowed = |it: char| it.is_ascii_alphanumeric() || it == '_';
    name.chars().all(allowed)
        && !name.starts_with(|it: char| it.is_ascii_digit())
        && !name.is_empty()
}

fn parse_sample(line: &str) -> (String, Labels, String) {
    let end = line.find(['{', ' ']).expect("a value");
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label and its value");
            assert!(is_name(label), "{line}");
            let (value, after) = unescape(after);
            labels.push((label.to_owned(), value));
            if let Some(after) = after.strip_prefix('}') {
                rest = after;
                break;
            }
            rest = after.strip_prefix(',').expect("a comma between labels");
        }
    }
    let last = ["le", "quantile"];
    let sorted = labels.iter().map(|it| &*it.0).filter(|it| !last.contains(it));
    let sorted: Vec<&str> = sorted.collect();
    assert!(sorted.is_sorted_by(|a, b| a < b), "labels in alphabetical order, once each: {line}");
    let value = rest.strip_prefix(' ').expect("one space");
    assert!(value == "NaN" || value.parse::<f64>().is_ok_and(|it| it >= 0.0), "{line}");
    (name.to_owned(), labels, value.to_owned())
}

/// The value up to its closing quote, and what follows the quote.
fn unescape(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' => return (value, &text[i + 1..]),
            '\\' => value.push(match chars.next().expect("an escaped character").1 {
                'n' => '\n',
                same @ ('\\' | '"') => same,
                other => panic!("\\{other} is no escape"),
            }),
            c => value.push(c),
        }
    }
    panic!("a label's value does not end: {text}");
}

fn check_histogram(name: &str, samples: &Samples) {
    let mut by_series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((sample, labels), count) in samples.iter().filter(|it| it.0.0.ends_with("_bucket")) {
        let (le, rest) = labels.split_last().expect("le");
        assert_eq!(le.0, "le", "{sample}");
        let bound = le.1.replace("+Inf", "inf").parse().unwrap();
        by_series.entry(rest.to_vec()).or_default().push((bound, count.parse().unwrap()));
    }
    for (labels, mut buckets) in by_series {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {buckets:?}");
        let (bound, all) = buckets.pop().unwrap();
        assert!(bound.is_infinite(), "{name}");
        let count = &samples[&(format!("{name}_count"), labels.clone())];
        assert_eq!(count.parse::<f64>().unwrap(), all, "{name}");
        assert!(samples.contains_key(&(format!("{name}_sum"), labels)), "{name}");
    }
}

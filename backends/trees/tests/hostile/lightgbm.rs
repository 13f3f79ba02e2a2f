//! Texts of LightGBM that were made to do harm, on which the library crashes or never ends.

use crate::support::{bounded, fixture, refused};

fn text(name: &str) -> String {
    String::from_utf8(fixture(&format!("lightgbm-4.7.0/{name}.txt"))).expect("a text")
}

/// The first line of that key with other values.
#[track_caller]
fn line(file: &str, name: &str, values: impl Fn(&str) -> String, expect: &str) {
    let text = text(file);
    let key = format!("\n{name}=");
    let start = text.find(&key).unwrap_or_else(|| panic!("no {name}")) + key.len();
    let end = start + text[start..].find('\n').expect("an end of the line");
    let changed = [&text[..start], &values(&text[start..end]), &text[end..]].concat();
    refused(changed.into_bytes(), expect);
}

/// The list with another first entry.
fn first(with: &'static str) -> impl Fn(&str) -> String {
    move |list| match list.split_once(' ') {
        Some((_, rest)) => format!("{with} {rest}"),
        None => with.to_owned(),
    }
}

#[test]
fn hostile_lightgbm_children() {
    line("binary", "left_child", first("0"), "tree 0, node 0: left child 0 is in the tree already");
    line("binary", "left_child", first("2000000"), "tree 0, node 0: left child 2000000, the tree");
    line("binary", "right_child", first("-2000000"), "tree 0, node 0: right child -2000000");
    line("binary", "right_child", first("-2147483648"), "tree 0, node 0: right child -2147483648");
    // A cycle behind the root.
    let cycle = |list: &str| {
        let mut nodes: Vec<&str> = list.split(' ').collect();
        nodes[1] = "0";
        nodes.join(" ")
    };
    line("binary", "left_child", cycle, "left child 0 is in the tree already");
}

#[test]
fn hostile_lightgbm_numbers() {
    let to = |text: &'static str| move |_: &str| text.to_owned();
    line(
        "binary",
        "split_feature",
        first("16777216"),
        "tree 0, node 0: feature 16777216, the model",
    );
    line("binary", "num_leaves", to("2147483647"), "tree 0: num_leaves is 2147483647");
    line("binary", "num_leaves", to("0"), "tree 0: num_leaves is 0");
    line("binary", "num_tree_per_iteration", to("0"), "num_tree_per_iteration is 0");
    line("binary", "num_tree_per_iteration", to("1073741824"), "num_tree_per_iteration is");
    line("binary", "max_feature_idx", to("2147483647"), "max_feature_idx is");
    line("categories", "cat_boundaries", first("1000000000"), "categories from word 1000000000");
}

#[test]
fn hostile_lightgbm_texts_that_end_too_soon_or_lie_about_their_sizes() {
    let whole = text("binary");
    assert_eq!(bounded(whole.clone().into_bytes()), Ok(()));
    for part in [4, 16, 64] {
        let end = whole.find("end of trees").expect("an end");
        let cut = whole[..end - end / part].to_owned();
        assert!(bounded(cut.into_bytes()).is_err(), "{part}");
    }
    // They are hints, which are not believed.
    let start = whole.find("tree_sizes=").expect("sizes") + "tree_sizes=".len();
    let end = start + whole[start..].find('\n').expect("an end");
    for sizes in ["1 1 1 1 1", "2147483647 0 0 0 0", ""] {
        let lying = [&whole[..start], sizes, &whole[end..]].concat();
        assert_eq!(bounded(lying.into_bytes()), Ok(()), "{sizes}");
    }
    // A line as long as the file, and keys that are all the same.
    let long =
        whole.replacen("feature_infos=", &format!("feature_infos={}", "9".repeat(4 << 20)), 1);
    assert_eq!(bounded(long.into_bytes()), Ok(()));
    let many = whole.replacen("tree_sizes=", &format!("{}tree_sizes=", "x=1\n".repeat(1 << 20)), 1);
    assert_eq!(bounded(many.into_bytes()), Ok(()));
}

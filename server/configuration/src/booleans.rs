//! Booleans on the command line: `--name` and `--no-name` become `--name=true` and `--name=false`, so that each has a
//! value from here on.

use std::ffi::OsString;

use crate::flags::FlagTable;

/// Commands whose arguments belong to programs of their own.
pub(crate) const TOOLS: [&str; 3] = ["bench", "predict", "recommend"];

/// The words that are values of a boolean, where they follow its name.
const WORDS: [&str; 8] = ["true", "false", "1", "0", "yes", "no", "on", "off"];

/// Gives each boolean among the arguments, program name first, its value.
pub(crate) fn write_out(args: &mut Vec<OsString>, flags: &FlagTable, problems: &mut Vec<String>) {
    let mut written = Vec::with_capacity(args.len());
    let mut all = std::mem::take(args).into_iter().peekable();
    written.extend(all.next());
    let mut takes_value = false;
    while let Some(arg) = all.next() {
        let text = arg.to_string_lossy();
        if !takes_value && TOOLS.contains(&&*text) {
            written.push(arg);
            break;
        }
        let Some(bare) = text.strip_prefix("--") else {
            takes_value = false;
            written.push(arg);
            continue;
        };
        let (name, value) =
            bare.split_once('=').map_or((bare, None), |(it, value)| (it, Some(value)));
        takes_value = value.is_none() && !flags.is_boolean(name);
        let is_known = flags.all_names().any(|it| it == name);
        let opposite = name.strip_prefix("no-").filter(|it| !is_known && flags.is_boolean(it));
        match (opposite, value) {
            (Some(_), Some(_)) => problems.push(format!("option --{name} takes no value")),
            (Some(opposite), None) => {
                takes_value = false;
                written.push(format!("--{opposite}=false").into());
            }
            (None, None) if flags.is_boolean(name) => {
                let is_word = |it: &OsString| {
                    it.to_str().is_some_and(|it| WORDS.contains(&&*it.to_ascii_lowercase()))
                };
                let value = all.next_if(is_word).and_then(|it| it.into_string().ok());
                written.push(format!("--{name}={}", value.as_deref().unwrap_or("true")).into());
            }
            _ => written.push(arg),
        }
    }
    written.extend(all);
    *args = written;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flag;

    const FLAGS: &[Flag] = &[
        Flag::boolean("emf", "false", ""),
        Flag::boolean("no-color", "false", ""),
        Flag::value("id", "", ""),
    ];

    #[track_caller]
    fn check(args: &str, expect: &str) {
        let flags = FlagTable::new(&[FLAGS], &[("", &["emf", "no-color", "id"])], &[], &[], &[]);
        let mut problems = Vec::new();
        let mut all: Vec<OsString> = args.split(' ').map(OsString::from).collect();
        write_out(&mut all, &flags, &mut problems);
        let all: Vec<String> = all.into_iter().map(|it| it.into_string().unwrap()).collect();
        let told =
            if problems.is_empty() { String::new() } else { format!(" | {}", problems.join(", ")) };
        assert_eq!(all.join(" ") + &told, expect);
    }

    #[test]
    fn a_boolean_alone_is_true_and_its_opposite_false() {
        check("muster --emf", "muster --emf=true");
        check("muster --no-emf serve", "muster --emf=false serve");
        check("muster serve --emf model.onnx", "muster serve --emf=true model.onnx");
        check("muster --emf --id x", "muster --emf=true --id x");
    }

    #[test]
    fn a_value_may_follow() {
        check("muster --emf false", "muster --emf=false");
        check("muster --emf OFF x", "muster --emf=OFF x");
        check("muster --emf=maybe", "muster --emf=maybe");
    }

    #[test]
    fn a_name_that_begins_with_no_is_its_own_and_only_booleans_have_an_opposite() {
        check("muster --no-color", "muster --no-color=true");
        check("muster --no-no-color", "muster --no-color=false");
        check("muster --no-id", "muster --no-id");
        check("muster --no-emf=true", "muster | option --no-emf takes no value");
    }

    #[test]
    fn what_belongs_to_a_tool_is_left_alone() {
        check("muster --emf bench --emf", "muster --emf=true bench --emf");
        check("muster --id bench --emf", "muster --id bench --emf=true");
    }
}

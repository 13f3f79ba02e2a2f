//! Which text counts for which setting: what is offered first.

use std::collections::{HashMap, hash_map::Entry};

use crate::{
    flags::{FlagTable, Secrecy},
    given::{Given, Origin},
    report::Notice,
    value::{Parse, boolean},
};

/// The texts that count, by setting, and what to say about the others.
#[derive(Debug)]
pub struct Sources<'a> {
    flags: &'a FlagTable,
    /// Never empty vectors; more than one text only where the setting takes many.
    given: HashMap<&'static str, Vec<Given>>,
    /// Texts for settings for which a better source gave some.
    lost: Vec<Given>,
    /// Lines for the log.
    pub notices: Vec<Notice>,
}

impl<'a> Sources<'a> {
    /// Nothing is given yet.
    pub fn new(flags: &'a FlagTable) -> Sources<'a> {
        Sources { flags, given: HashMap::new(), lost: Vec::new(), notices: Vec::new() }
    }

    /// All flags of the program.
    pub fn flags(&self) -> &'a FlagTable {
        self.flags
    }

    /// The texts for a setting, all of one origin.
    pub fn all(&self, name: &str) -> &[Given] {
        self.given.get(name).map_or(&[], |it| &**it)
    }

    /// The text for a setting that takes one.
    pub fn last(&self, name: &str) -> Option<&Given> {
        self.all(name).last()
    }

    /// The value of a setting; a text that does not parse goes to `problems` and is as good as none.
    pub fn read<T>(
        &self,
        name: &'static str,
        parse: fn(&str) -> Parse<T>,
        problems: &mut Vec<String>,
    ) -> Option<T> {
        debug_assert!(self.flags.flag(name).is_some(), "{name} is in the table");
        // Nobody sees what is wrong with a foreign variable that does not count, until one day it does.
        let is_foreign = |it: &&Given| matches!(it.origin, Origin::Foreign(..));
        for it in self.lost.iter().filter(|it| it.name == name).filter(is_foreign) {
            let _ = read_one(it, parse, problems);
        }
        self.last(name).and_then(|it| read_one(it, parse, problems))
    }

    /// The values of a setting that takes many.
    pub fn read_all<T>(
        &self,
        name: &'static str,
        parse: fn(&str) -> Parse<T>,
        problems: &mut Vec<String>,
    ) -> Vec<T> {
        self.all(name).iter().filter_map(|it| read_one(it, parse, problems)).collect()
    }

    /// Every setting that something was given for, with its texts, by name.
    pub fn given(&self) -> Vec<(&'static str, &[Given])> {
        let mut given: Vec<_> = self.given.iter().map(|(name, it)| (*name, &**it)).collect();
        given.sort_unstable_by_key(|it| it.0);
        given
    }

    /// Texts that do not count, as a better source gave some for the same setting.
    pub fn lost(&self) -> &[Given] {
        &self.lost
    }

    /// Puts texts in where no better source gave any.
    pub fn offer(&mut self, given: Vec<Given>) {
        let mut by_name: HashMap<&'static str, Vec<Given>> = HashMap::new();
        for mut it in given {
            it.secrecy = self.flags.flag(it.name).map_or(Secrecy::None, |it| it.secrecy);
            by_name.entry(it.name).or_default().push(it);
        }
        for (name, given) in by_name {
            match self.given.entry(name) {
                Entry::Vacant(free) => drop(free.insert(given)),
                Entry::Occupied(_) => self.lost.extend(given),
            }
        }
    }
}

fn read_one<T>(
    given: &Given,
    parse: fn(&str) -> Parse<T>,
    problems: &mut Vec<String>,
) -> Option<T> {
    parse(&given.text).map_err(|allowed| problems.push(format!("{given}: expected {allowed}"))).ok()
}

impl Sources<'_> {
    /// Turns options that do nothing into notices, one for each reason.
    pub(crate) fn set_aside_without_effect(&mut self) {
        for (reason, names) in self.flags.without_effect {
            let mut taken: Vec<String> = Vec::new();
            for name in *names {
                for it in self.given.remove(name).unwrap_or_default() {
                    // What is off here anyway may be switched off without a word.
                    if name.starts_with("allow-") && boolean(&it.text) == Ok(false) {
                        continue;
                    }
                    taken.push(it.to_string());
                }
            }
            if !taken.is_empty() {
                let text = format!("without effect ({reason}): {}", taken.join(", "));
                self.notices.push(Notice::warning(text));
            }
        }
    }
}

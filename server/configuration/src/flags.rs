//! What a flag is, and the table of all flags of a program.

/// One setting: the flag `--<name>` and the variable `MUSTER_<NAME>`.
#[derive(Debug)]
pub struct Flag {
    /// Without dashes in front.
    pub name: &'static str,
    /// How it is given.
    pub takes: Takes,
    /// The default as one would write it; empty where there is none, or where it depends.
    pub default: &'static str,
    /// For `--help`.
    pub help: &'static str,
    /// What a value is, for `--help`: `PORT`.
    pub value_name: &'static str,
    /// What of its text is never shown.
    pub secrecy: Secrecy,
    /// Do blanks at the ends of a variable belong to its text?
    pub keeps_blanks: bool,
}

/// How a setting is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// `--name value`; the last one counts.
    Value,
    /// As often as one likes; in a variable the values are separated by `;`.
    Many,
    /// A boolean: `--name` alone is true, `--no-name` false, and `--name false` will do as well.
    Boolean,
}

/// What of a flag's text is never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// Nothing: all of it may be shown.
    None,
    /// What stands behind the first `=`, or `:` where there is none.
    BehindName,
    /// All of it.
    Whole,
}

impl Flag {
    /// `--name value`. The default is empty where there is none, or where it depends.
    pub const fn value(name: &'static str, default: &'static str, help: &'static str) -> Flag {
        Flag {
            name,
            takes: Takes::Value,
            default,
            help,
            value_name: "VALUE",
            secrecy: Secrecy::None,
            keeps_blanks: false,
        }
    }

    /// `--name value`, any number of times.
    pub const fn many(name: &'static str, help: &'static str) -> Flag {
        Flag {
            name,
            takes: Takes::Many,
            default: "",
            help,
            value_name: "VALUE",
            secrecy: Secrecy::None,
            keeps_blanks: false,
        }
    }

    /// `--name` alone is true, and so is `--name=true`; `--no-name` is false. The default is empty where it depends.
    pub const fn boolean(name: &'static str, default: &'static str, help: &'static str) -> Flag {
        Flag {
            name,
            takes: Takes::Boolean,
            default,
            help,
            value_name: "BOOL",
            secrecy: Secrecy::None,
            keeps_blanks: false,
        }
    }

    /// The same, with what its value is, for `--help`: `PORT`, `BYTES`.
    pub const fn named(self, value_name: &'static str) -> Flag {
        Flag { value_name, ..self }
    }

    /// The same, whose text begins and ends as its variable does, blanks included.
    pub const fn with_blanks(self) -> Flag {
        Flag { keeps_blanks: true, ..self }
    }

    /// The same, with a text of which nothing after the first `=` is ever shown.
    pub const fn with_secret(self) -> Flag {
        Flag { secrecy: Secrecy::BehindName, ..self }
    }

    /// The same, whose whole text is never shown.
    pub const fn secret(self) -> Flag {
        Flag { secrecy: Secrecy::Whole, ..self }
    }
}

/// Another spelling of a setting, and its name.
pub type Alias = (&'static str, &'static str);

/// Why options do nothing, and their names.
pub type WithoutEffect = (&'static str, &'static [&'static str]);

/// All flags of a program.
#[derive(Debug)]
pub struct FlagTable {
    /// Heading in `--help-all`, and flag, in the order of `--help-all`.
    listed: Vec<(&'static str, &'static Flag)>,
    /// Other spellings of settings.
    pub aliases: &'static [Alias],
    /// Options that are taken and do nothing.
    pub without_effect: &'static [WithoutEffect],
    /// Names of the flags that most people need: those of `--help`.
    common: &'static [&'static str],
}

impl FlagTable {
    /// The flags that the parts of the program declare, by `sections` of `--help-all`: headings, each with the names
    /// below it. A flag that no section names does not exist for the program. `common` names those of `--help`.
    pub fn new(
        parts: &[&'static [Flag]],
        sections: &[(&'static str, &[&'static str])],
        aliases: &'static [Alias],
        without_effect: &'static [WithoutEffect],
        common: &'static [&'static str],
    ) -> FlagTable {
        let declared = |name: &str| parts.iter().copied().flatten().find(|it| it.name == name);
        let of_section = |&(heading, names): &(&'static str, &[&'static str])| {
            let flags = names.iter().filter_map(|it| declared(it));
            flags.map(|it| (heading, it)).collect::<Vec<_>>()
        };
        let listed = sections.iter().flat_map(of_section).collect();
        FlagTable { listed, aliases, without_effect, common }
    }

    /// Does `--help` show the flag?
    pub fn is_common(&self, flag: &Flag) -> bool {
        self.common.contains(&flag.name)
    }

    /// Every setting that does something, in the order of `--help-all`.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag> {
        self.listed.iter().map(|it| it.1)
    }

    /// The same, each with its heading in `--help-all`.
    pub fn with_headings(&self) -> impl Iterator<Item = (&'static str, &'static Flag)> {
        self.listed.iter().copied()
    }

    /// The setting of that name.
    pub fn flag(&self, name: &str) -> Option<&'static Flag> {
        self.flags().find(|it| it.name == name)
    }

    /// Names of all options that can be given, those without effect included.
    pub fn all_names(&self) -> impl Iterator<Item = &'static str> {
        let without_effect = self.without_effect.iter().flat_map(|it| it.1.iter().copied());
        self.flags()
            .map(|it| it.name)
            .chain(self.aliases.iter().map(|it| it.0))
            .chain(without_effect)
    }

    /// Is that the name of a boolean?
    pub fn is_boolean(&self, name: &str) -> bool {
        let full = self.aliases.iter().find(|it| it.0 == name).map_or(name, |it| it.1);
        self.flag(full).is_some_and(|it| it.takes == Takes::Boolean)
    }

    /// Is that an option that is taken and does nothing?
    pub fn is_without_effect(&self, name: &str) -> bool {
        self.without_effect.iter().any(|it| it.1.contains(&name))
    }

    /// The name of a setting that may be spelled otherwise.
    pub fn full_name(&self, spelled: &'static str) -> &'static str {
        self.aliases.iter().find(|it| it.0 == spelled).map_or(spelled, |it| it.1)
    }
}

/// `http-port` → `MUSTER_HTTP_PORT`.
pub fn variable_of(name: &str) -> String {
    format!("MUSTER_{}", name.to_ascii_uppercase().replace('-', "_"))
}

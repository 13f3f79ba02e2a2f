//! What machines cost and have: a file of the user's, in TOML.
//!
//! ```toml
//! currency = "USD"
//! [instance."local.cpu2"]
//! cpus = 2
//! price_per_hour = 0.115
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is wrong with prices or with the name of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// The file is no TOML, or has other keys.
    #[error("{0}")]
    Toml(String),
    /// A machine of the file cannot be.
    #[error("instance \"{0}\": expected cpus above 0 and a price of 0 or more")]
    Instance(String),
    /// Some machines have a price, and this one has none.
    #[error("expected a price for all machines or for none, given none for {0}")]
    Without(String),
    /// No machine has that name.
    #[error("'{name}' is not known: expected local.cpuN, local.gpu, local.gpu.cpuN or {others}")]
    Unknown {
        /// What was given.
        name: String,
        /// What else it could have been.
        others: String,
    },
}

/// All machines of a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// What prices are in; only for people.
    pub currency: Option<String>,
    /// Machines by their names.
    #[serde(default)]
    pub instance: BTreeMap<String, Instance>,
}

/// One machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Its processors.
    pub cpus: usize,
    /// Does it have a GPU?
    #[serde(default)]
    pub gpu: bool,
    /// Price of an hour.
    pub price_per_hour: Option<f64>,
}

impl Prices {
    /// The prices of a file's text.
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn parse(text: &str) -> Result<Prices, PriceError> {
        let prices: Prices = toml::from_str(text).map_err(|it| PriceError::Toml(it.to_string()))?;
        for (name, it) in &prices.instance {
            if it.cpus == 0 || it.price_per_hour.is_some_and(|it| !(it.is_finite() && it >= 0.0)) {
                return Err(PriceError::Instance(name.clone()));
            }
        }
        Ok(prices)
    }

    /// Checks that all of these machines have a price, or none has.
    ///
    /// # Errors
    /// Names one without a price.
    pub fn for_all(&self, names: &[&str], all_cpus: usize) -> Result<(), PriceError> {
        let is_priced = |it: &&&str| {
            let machine = self.machine(it, all_cpus);
            machine.is_ok_and(|it| it.price_per_hour.is_some())
        };
        match (names.iter().find(|it| !is_priced(it)), names.iter().any(|it| is_priced(&it))) {
            (Some(without), true) => Err(PriceError::Without((*without).to_owned())),
            _ => Ok(()),
        }
    }

    /// The machine of that name: one of the file, or `local.cpuN`, `local.gpu` and `local.gpu.cpuN`.
    ///
    /// # Errors
    /// Names the names that are known.
    pub fn machine(&self, name: &str, all_cpus: usize) -> Result<Instance, PriceError> {
        if let Some(found) = self.instance.get(name) {
            return Ok(*found);
        }
        let local = name.strip_prefix("local.").and_then(|rest| {
            let (gpu, rest) = match rest.strip_prefix("gpu") {
                Some(rest) => (true, rest.strip_prefix('.').unwrap_or(rest)),
                None => (false, rest),
            };
            let cpus = match rest.strip_prefix("cpu") {
                Some(number) => number.parse().ok().filter(|it| *it > 0)?,
                None if gpu && rest.is_empty() => all_cpus,
                None => return None,
            };
            Some(Instance { cpus, gpu, price_per_hour: None })
        });
        local.ok_or_else(|| {
            let known: Vec<&str> = self.instance.keys().map(String::as_str).collect();
            let others = match known.is_empty() {
                true => "one of --prices".to_owned(),
                false => format!("one of the price file ({})", known.join(", ")),
            };
            PriceError::Unknown { name: name.to_owned(), others }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_those_of_the_file_and_parts_of_this_one() {
        let text =
            "currency = \"USD\"\n[instance.\"ml.m5.large\"]\ncpus = 2\nprice_per_hour = 0.115\n";
        let prices = Prices::parse(text).unwrap();
        let large = Instance { cpus: 2, gpu: false, price_per_hour: Some(0.115) };
        assert_eq!(prices.machine("ml.m5.large", 8), Ok(large));
        let part = |cpus, gpu| Ok(Instance { cpus, gpu, price_per_hour: None });
        assert_eq!(prices.machine("local.cpu3", 8), part(3, false));
        assert_eq!(prices.machine("local.gpu", 8), part(8, true));
        assert_eq!(prices.machine("local.gpu.cpu2", 8), part(2, true));
        for wrong in ["ml.c5.large", "local.cpu0", "local.cpu", "local.tpu"] {
            let problem = prices.machine(wrong, 8).unwrap_err().to_string();
            assert!(problem.contains("ml.m5.large"), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_is_wrong_says_where() {
        for text in [
            "[instance.x]\ncpus = 0",
            "[instance.x]\ncpus = 1\nprice_per_hour = nan",
            "[x]",
            "cpus",
        ] {
            assert!(Prices::parse(text).is_err(), "{text}");
        }
    }
}

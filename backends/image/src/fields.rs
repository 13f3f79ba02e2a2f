//! Values of a JSON object by their type. An error names the key.

use serde_json::{Map, Value};

use crate::error::ConfigError;

/// The object, and the keys that lead to it.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value, key: &str) -> Result<Fields<'a>, ConfigError> {
        let object = value.as_object();
        let wrong = || ConfigError::new(key, "it is no JSON object", "write an object");
        object.map(|object| Fields { object }).ok_or_else(wrong)
    }

    /// The value of a key. `null` stands for none.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|it| !it.is_null())
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    /// A switch. `null` and a missing key leave the default.
    pub(crate) fn switch(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(it)) => Ok(*it),
            Some(_) => Err(ConfigError::new(key, "it is no boolean", "write true or false")),
        }
    }

    pub(crate) fn number(&self, key: &str, default: f64) -> Result<f64, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let number = value.as_f64().filter(|it| it.is_finite());
        number.ok_or_else(|| ConfigError::new(key, "it is no number", "write a number"))
    }

    /// Three numbers, or one that stands for all.
    pub(crate) fn channels(&self, key: &str, default: [f64; 3]) -> Result<[f32; 3], ConfigError> {
        let wrong = || {
            ConfigError::new(key, "it has not one number for each of 3 channels", "write 3 numbers")
        };
        let found = match self.get(key) {
            None => default,
            Some(Value::Array(all)) => {
                let all: Option<Vec<f64>> = all.iter().map(Value::as_f64).collect();
                all.and_then(|it| it.try_into().ok()).ok_or_else(wrong)?
            }
            Some(one) => [one.as_f64().ok_or_else(wrong)?; 3],
        };
        Ok(found.map(|it| it as f32))
    }

    /// The lengths of an object by their keys: `expected` and no others, in this order.
    pub(crate) fn lengths<const N: usize>(
        &self,
        key: &str,
        expected: [&str; N],
    ) -> Result<Option<[u32; N]>, ConfigError> {
        let keys = || self.object.iter().filter(|(_, value)| !value.is_null());
        if keys().count() != N || !expected.iter().all(|it| self.get(it).is_some()) {
            return Ok(None);
        }
        let mut found = [0; N];
        for (length, name) in found.iter_mut().zip(expected) {
            *length = length_of(&format!("{key}.{name}"), &self.object[name])?;
        }
        Ok(Some(found))
    }
}

/// Longest side of what a processor makes.
const LONGEST: u64 = 16_384;

/// A number of pixels.
pub(crate) fn length_of(key: &str, value: &Value) -> Result<u32, ConfigError> {
    let found = value.as_u64().filter(|it| (1..=LONGEST).contains(it));
    found.map(|it| it as u32).ok_or_else(|| {
        ConfigError::new(
            key,
            format!("{value} is no number of pixels"),
            format!("write a number from 1 to {LONGEST}"),
        )
    })
}

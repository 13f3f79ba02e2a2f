//! The keys of `config.json` that say what a graph looks like.

use serde_json::Value;

use crate::error::GraphError;

/// `config.json`. A key that is not there has the default of the class that it configures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config<'a>(pub(crate) &'a Value);

impl<'a> Config<'a> {
    /// One that says nothing.
    pub(crate) const EMPTY: Config<'static> = Config(&Value::Null);

    /// That the key has a value for which no graph is made.
    pub(crate) fn wrong(self, key: &str, expected: &str) -> GraphError {
        let given = self.0.get(key).map_or("nothing".to_owned(), Value::to_string);
        GraphError::Config { key: key.to_owned(), expected: expected.to_owned(), given }
    }

    /// What is there under that key; `null` is nothing.
    fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|it| !it.is_null())
    }

    /// A number of something.
    pub(crate) fn size(self, key: &str, default: usize) -> Result<usize, GraphError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let size = value.as_u64().and_then(|it| usize::try_from(it).ok());
        size.filter(|it| (1..1 << 24).contains(it))
            .ok_or_else(|| self.wrong(key, "a whole number above zero"))
    }

    /// A number of something that there may be none of.
    pub(crate) fn count(self, key: &str, default: usize) -> Result<usize, GraphError> {
        match self.get(key).is_some_and(|it| it.as_u64() == Some(0)) {
            true => Ok(0),
            false => self.size(key, default),
        }
    }

    /// A number of a token.
    pub(crate) fn token(self, key: &str, default: i64) -> Result<i64, GraphError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_i64().ok_or_else(|| self.wrong(key, "a whole number"))
    }

    /// A small number, such as that of a norm.
    pub(crate) fn float(self, key: &str, default: f64) -> Result<f32, GraphError> {
        Ok(self.number(key)?.unwrap_or(default) as f32)
    }

    /// A number, if it is there.
    pub(crate) fn number(self, key: &str) -> Result<Option<f64>, GraphError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.wrong(key, "a number"))
    }

    /// A number that has no default.
    pub(crate) fn needed(self, key: &str) -> Result<f64, GraphError> {
        self.number(key)?.ok_or_else(|| self.wrong(key, "a number"))
    }

    /// A number of something that has no default.
    pub(crate) fn needed_size(self, key: &str) -> Result<usize, GraphError> {
        match self.has(key) {
            true => self.size(key, 1),
            false => Err(self.wrong(key, "a whole number above zero")),
        }
    }

    /// A list of so many numbers.
    pub(crate) fn numbers(self, key: &str, count: usize) -> Result<Vec<f64>, GraphError> {
        let list = self.get(key).and_then(Value::as_array);
        let numbers = list.and_then(|all| all.iter().map(Value::as_f64).collect());
        numbers
            .filter(|it: &Vec<f64>| it.len() == count)
            .ok_or_else(|| self.wrong(key, &format!("a list of {count} numbers")))
    }

    /// That there are no other keys, but with `null`.
    pub(crate) fn must_say_only(self, keys: &[&str]) -> Result<(), GraphError> {
        let mut said = self.0.as_object().into_iter().flat_map(|it| it.keys());
        match said.find(|it| !keys.contains(&it.as_str()) && self.has(it)) {
            Some(other) => Err(self.wrong(other, "no such key")),
            None => Ok(()),
        }
    }

    /// A word.
    pub(crate) fn word(self, key: &str, default: &'a str) -> Result<&'a str, GraphError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_str().ok_or_else(|| self.wrong(key, "a text"))
    }

    /// A key that may have one value alone.
    pub(crate) fn must_be(self, key: &str, only: &str) -> Result<(), GraphError> {
        match self.word(key, only)? == only {
            true => Ok(()),
            false => Err(self.wrong(key, &format!("\"{only}\""))),
        }
    }

    /// Is the key there, with `null`?
    pub(crate) fn is_null(self, key: &str) -> bool {
        self.0.get(key).is_some_and(Value::is_null)
    }

    /// A list of words that may have one alone.
    pub(crate) fn must_be_all(self, key: &str, only: &str) -> Result<(), GraphError> {
        match self.words(key)?.is_some_and(|all| all.iter().any(|it| *it != only)) {
            true => Err(self.wrong(key, &format!("\"{only}\" alone"))),
            false => Ok(()),
        }
    }

    /// What says how positions are turned. Files of old have it in `rope_scaling`.
    pub(crate) fn rope(self) -> Result<Config<'a>, GraphError> {
        if !self.has("rope_parameters") {
            return self.part("rope_scaling");
        }
        self.must_be_nothing("rope_scaling")?;
        self.part("rope_parameters")
    }

    /// A switch that may be off alone.
    pub(crate) fn must_be_off(self, key: &str) -> Result<(), GraphError> {
        match self.get(key).is_some_and(|it| it != &Value::Bool(false)) {
            true => Err(self.wrong(key, "false")),
            false => Ok(()),
        }
    }

    /// A switch that may be on alone.
    pub(crate) fn must_be_on(self, key: &str) -> Result<(), GraphError> {
        match self.get(key).is_some_and(|it| it != &Value::Bool(true)) {
            true => Err(self.wrong(key, "true")),
            false => Ok(()),
        }
    }

    /// A switch.
    pub(crate) fn flag(self, key: &str, default: bool) -> Result<bool, GraphError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    /// A key that may not be there, but as `null`.
    pub(crate) fn must_be_nothing(self, key: &str) -> Result<(), GraphError> {
        self.get(key).map_or(Ok(()), |_| Err(self.wrong(key, "null")))
    }

    /// A factor that may be one alone.
    pub(crate) fn must_be_one(self, key: &str) -> Result<(), GraphError> {
        match self.float(key, 1.0)? == 1.0 {
            true => Ok(()),
            false => Err(self.wrong(key, "1")),
        }
    }

    /// Is there anything under that key?
    pub(crate) fn has(self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The object under that key; an empty one where there is none.
    pub(crate) fn part(self, key: &str) -> Result<Config<'a>, GraphError> {
        match self.get(key) {
            None => Ok(Config::EMPTY),
            Some(it) if it.is_object() => Ok(Config(it)),
            Some(_) => Err(self.wrong(key, "an object")),
        }
    }

    /// The words under that key, if it is there: a list of them.
    pub(crate) fn words(self, key: &str) -> Result<Option<Vec<&'a str>>, GraphError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let words = value.as_array().and_then(|all| all.iter().map(Value::as_str).collect());
        words.map(Some).ok_or_else(|| self.wrong(key, "a list of texts"))
    }

    /// Height and width: one number for both, or two.
    pub(crate) fn sides(self, key: &str, default: usize) -> Result<[usize; 2], GraphError> {
        let side = |it: &Value| it.as_u64().filter(|it| (1..1 << 16).contains(it));
        let sides = match self.get(key) {
            None => Some([default; 2]),
            Some(Value::Array(both)) if both.len() == 2 => {
                let [height, width] = [&both[0], &both[1]].map(side);
                height.zip(width).map(|(height, width)| [height as usize, width as usize])
            }
            Some(one) => side(one).map(|it| [it as usize; 2]),
        };
        sides.ok_or_else(|| self.wrong(key, "a whole number of pixels, or two"))
    }

    /// That no graph is made for the class; `ends` are those of the classes for which one is.
    pub(crate) fn no_class<'b>(self, ends: impl Iterator<Item = &'b str>) -> GraphError {
        let ends: Vec<&str> = ends.collect();
        GraphError::Config {
            key: "architectures".to_owned(),
            expected: format!("a class that ends with one of {}", ends.join(", ")),
            given: self.architecture().unwrap_or_default().to_owned(),
        }
    }

    /// What stands for the class whose weights these are, by the end of its name.
    ///
    /// # Errors
    /// Where the class is none of these.
    pub(crate) fn of_class<T: Copy>(self, known: &[(&str, T)]) -> Result<T, GraphError> {
        let class = self.architecture()?;
        let found = known.iter().find(|(end, _)| class.ends_with(end));
        found.map(|it| it.1).ok_or_else(|| self.no_class(known.iter().map(|it| it.0)))
    }

    /// The class whose weights these are: the first of `architectures`.
    pub(crate) fn architecture(self) -> Result<&'a str, GraphError> {
        let first = self.get("architectures").and_then(|it| it.get(0)).and_then(Value::as_str);
        first.ok_or_else(|| self.wrong("architectures", "a list with the name of a class"))
    }

    /// The number of classes: `num_labels`, or as many as `id2label` has.
    pub(crate) fn labels(self) -> Result<usize, GraphError> {
        match self.get("id2label").and_then(Value::as_object) {
            Some(labels) if !labels.is_empty() => Ok(labels.len()),
            _ => self.size("num_labels", 2),
        }
    }
}

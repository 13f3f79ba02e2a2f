//! Prompts in front of the texts of embeddings.

use crate::error::{RowError, shortened};

/// The prompts of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompts {
    /// By name, in the order of the folder's file.
    pub named: Vec<(String, String)>,
    /// The text that is used when a request names none.
    pub default: Option<String>,
}

impl Prompts {
    /// The text in front; `None` for none. An empty name asks for none.
    ///
    /// # Errors
    /// When no prompt has this name.
    pub fn find(&self, name: Option<&str>) -> Result<Option<&str>, RowError> {
        let text = match name {
            None => self.default.as_deref(),
            Some("") => None,
            Some(name) => match self.named.iter().find(|(it, _)| it == name) {
                Some((_, text)) => Some(&**text),
                None => {
                    let names: Vec<&str> = self.named.iter().map(|(it, _)| &**it).collect();
                    let known = match names.is_empty() {
                        true => "; the model has none".to_owned(),
                        false => format!("; there are {}", names.join(", ")),
                    };
                    return Err(RowError::UnknownPrompt { name: shortened(name), known });
                }
            },
        };
        Ok(text.filter(|it| !it.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_before_the_default_and_an_unknown_one_is_an_error() {
        let named =
            vec![("query".to_owned(), "q: ".to_owned()), ("none".to_owned(), String::new())];
        let prompts = Prompts { named, default: Some("d: ".to_owned()) };
        assert_eq!(prompts.find(None), Ok(Some("d: ")));
        assert_eq!(prompts.find(Some("query")), Ok(Some("q: ")));
        assert_eq!(prompts.find(Some("none")), Ok(None));
        assert_eq!(prompts.find(Some("")), Ok(None));
        let error = prompts.find(Some("doc")).unwrap_err().to_string();
        assert_eq!(error, "no prompt is called 'doc'; there are query, none");
    }
}

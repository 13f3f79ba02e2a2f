//! Parameters of a model: those of Triton's FIL backend, and muster's own.

use std::str::FromStr;

use backend::{BackendError, ModelSource};

use crate::forest::document::{Document, Library};

/// All parameters by name.
pub const PARAMETERS: [&str; 18] = [
    "model_type",
    "is_classifier",
    "output_class",
    "predict_proba",
    "threshold",
    "xgboost_allow_unknown_field",
    "iteration_range",
    "missing_value",
    "objective",
    IGNORED[0],
    IGNORED[1],
    IGNORED[2],
    IGNORED[3],
    IGNORED[4],
    IGNORED[5],
    IGNORED[6],
    IGNORED[7],
    IGNORED[8],
];

/// Parameters for graphics cards, and for the layout of nodes.
const IGNORED: [&str; 9] = [
    "use_experimental_optimizations",
    "layout",
    "algo",
    "chunk_size",
    "threads_per_tree",
    "blocks_per_sm",
    "storage_type",
    "transfer_threshold",
    "cpu_nthread",
];

/// What the parameters of a model say.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What the file is said to be.
    pub model_type: Option<ModelType>,
    /// The outputs that Triton's FIL gives, where one of its parameters asks for them.
    pub fil: Option<Fil>,
    /// The rounds of training whose trees are used; `None` where nothing is said.
    pub rounds: Option<Rounds>,
    /// A number that means missing.
    pub missing: Option<f64>,
    /// What takes the place of the file's objective.
    pub objective: Option<String>,
    /// Parameters that have no effect.
    pub ignored: Vec<&'static str>,
}

/// Outputs of Triton's FIL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fil {
    /// Classes, not values.
    pub is_classifier: bool,
    /// Probabilities of classes instead of a class.
    pub predict_proba: bool,
    /// From which probability on, of two classes, it is the second.
    pub threshold: f32,
}

/// `model_type` of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelType {
    /// Any file of XGBoost; to Triton, its binary one.
    Xgboost,
    /// XGBoost's JSON.
    XgboostJson,
    /// XGBoost's UBJSON.
    XgboostUbj,
    /// LightGBM's text.
    Lightgbm,
    /// A checkpoint of treelite.
    TreeliteCheckpoint,
}

/// `iteration_range`: which rounds of training count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// All of them.
    All,
    /// Those up to the best.
    Best,
    /// From the first to before the second.
    Range(usize, usize),
}

impl ModelType {
    const ALL: [(&'static str, ModelType); 5] = [
        ("xgboost", ModelType::Xgboost),
        ("xgboost_json", ModelType::XgboostJson),
        ("xgboost_ubj", ModelType::XgboostUbj),
        ("lightgbm", ModelType::Lightgbm),
        ("treelite_checkpoint", ModelType::TreeliteCheckpoint),
    ];

    /// Is that what the document was read from?
    fn is_of(self, document: &Document) -> bool {
        let (library, format) = (document.origin.library, document.origin.format);
        match self {
            ModelType::Xgboost => library == Library::Xgboost,
            ModelType::XgboostJson => library == Library::Xgboost && format == "JSON",
            ModelType::XgboostUbj => library == Library::Xgboost && format == "UBJ",
            ModelType::Lightgbm => library == Library::Lightgbm,
            ModelType::TreeliteCheckpoint => library == Library::Treelite,
        }
    }

    fn name(self) -> &'static str {
        let found = ModelType::ALL.iter().find(|(_, it)| *it == self);
        found.map_or("", |(name, _)| name)
    }

    /// The type to write for a file.
    fn for_file(document: &Document) -> Option<ModelType> {
        let all = ModelType::ALL.iter().rev().map(|(_, it)| *it);
        all.into_iter().find(|it| it.is_of(document))
    }
}

/// The file is not of the type that the configuration says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parameter 'model_type' is '{said}', but the file is {file}{line}")]
pub struct OtherType {
    said: &'static str,
    /// Its library and format.
    file: String,
    /// What to write instead, where there is a name for it.
    line: String,
}

impl Options {
    /// Reads them.
    ///
    /// # Errors
    /// A value that is none, with what was expected.
    pub fn read(source: &ModelSource) -> Result<Options, BackendError> {
        let reader = Reader(source);
        let model_type = reader.read(
            "model_type",
            "one of xgboost, xgboost_json, xgboost_ubj, lightgbm, treelite_checkpoint",
            |it| ModelType::ALL.iter().find(|(name, _)| *name == it).map(|(_, found)| *found),
        )?;
        let flag = |key| reader.read(key, "true or false", |it| bool::from_str(it).ok());
        // As in Triton, the older name wins.
        let (older, newer) = (flag("output_class")?, flag("is_classifier")?);
        let is_classifier = older.or(newer);
        let predict_proba = flag("predict_proba")?.unwrap_or(false);
        flag("xgboost_allow_unknown_field")?;
        let number = |key| {
            reader.read(key, "a number", |it| it.parse().ok().filter(|it: &f64| it.is_finite()))
        };
        let threshold = number("threshold")?.unwrap_or(0.5) as f32;
        let rounds =
            reader.read("iteration_range", "all, best, or two rounds as in 0:10", rounds)?;
        let ignored = IGNORED.into_iter().filter(|it| source.options.contains_key(*it)).collect();
        let given = source.options.get("objective").map(|it| it.trim().to_owned());
        Ok(Options {
            model_type,
            fil: is_classifier.map(|is_classifier| Fil { is_classifier, predict_proba, threshold }),
            rounds,
            missing: number("missing_value")?,
            objective: given.filter(|it| !it.is_empty()),
            ignored,
        })
    }

    /// Is the file what the configuration says?
    ///
    /// # Errors
    /// Both sides, and the line to write.
    pub fn check_type(&self, document: &Document) -> Result<(), OtherType> {
        let Some(said) = self.model_type.filter(|it| !it.is_of(document)) else { return Ok(()) };
        let origin = &document.origin;
        let library = origin.library.name();
        let line = ModelType::for_file(document)
            .map(|it| {
                let name = it.name();
                format!("; write {{ key: \"model_type\" value: {{ string_value: \"{name}\" }} }}")
            })
            .unwrap_or_default();
        let file = format!("{library} {}", origin.format);
        Err(OtherType { said: said.name(), file, line })
    }
}

fn rounds(text: &str) -> Option<Rounds> {
    match text {
        "all" => Some(Rounds::All),
        "best" => Some(Rounds::Best),
        _ => {
            let (first, end) = text.split_once(':')?;
            let (first, end) = (first.trim().parse().ok()?, end.trim().parse().ok()?);
            (first < end).then_some(Rounds::Range(first, end))
        }
    }
}

struct Reader<'a>(&'a ModelSource);

impl Reader<'_> {
    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BackendError> {
        let Some(text) = self.0.options.get(key) else { return Ok(None) };
        let wrong = || {
            BackendError::Load(format!("parameter '{key}': expected {expected}, given '{text}'"))
        };
        read(text.trim()).map(Some).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::testing::{document, stump};

    fn source(options: &[(&str, &str)]) -> ModelSource {
        let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        ModelSource { options: options.collect(), ..ModelSource::new("m", "/nowhere") }
    }

    #[track_caller]
    fn read(options: &[(&str, &str)]) -> Options {
        Options::read(&source(options)).unwrap()
    }

    #[test]
    fn the_parameters_of_fil_say_what_its_outputs_are() {
        assert_eq!(read(&[]).fil, None);
        let fil = |is_classifier, predict_proba, threshold| {
            Some(Fil { is_classifier, predict_proba, threshold })
        };
        assert_eq!(read(&[("is_classifier", "true")]).fil, fil(true, false, 0.5));
        assert_eq!(read(&[("output_class", "false")]).fil, fil(false, false, 0.5));
        let both = [("output_class", "true"), ("is_classifier", "false")];
        assert_eq!(read(&both).fil, fil(true, false, 0.5));
        let all = [("output_class", "true"), ("predict_proba", "true"), ("threshold", "0.3")];
        assert_eq!(read(&all).fil, fil(true, true, 0.3));
    }

    #[test]
    fn rounds_are_named_or_counted() {
        let rounds = |text| read(&[("iteration_range", text)]).rounds;
        assert_eq!(rounds("all"), Some(Rounds::All));
        assert_eq!(rounds("best"), Some(Rounds::Best));
        assert_eq!(rounds("0:3"), Some(Rounds::Range(0, 3)));
        for text in ["3:0", "2:2", "x", "1", ":"] {
            let error = Options::read(&source(&[("iteration_range", text)])).unwrap_err();
            assert!(error.to_string().contains(&format!("given '{text}'")), "{error}");
        }
    }

    #[test]
    fn parameters_without_an_effect_are_named() {
        assert_eq!(read(&[("algo", "ALGO_AUTO"), ("x", "y")]).ignored, ["algo"]);
    }

    #[test]
    fn a_file_of_another_type_is_refused_with_the_line_to_write() {
        let document = document(vec![stump()]);
        for same in ["xgboost", "xgboost_ubj"] {
            assert_eq!(read(&[("model_type", same)]).check_type(&document), Ok(()));
        }
        let text =
            read(&[("model_type", "lightgbm")]).check_type(&document).unwrap_err().to_string();
        let expect = "parameter 'model_type' is 'lightgbm', but the file is XGBoost UBJ; write \
                      { key: \"model_type\" value: { string_value: \"xgboost_ubj\" } }";
        assert_eq!(text, expect);
    }
}

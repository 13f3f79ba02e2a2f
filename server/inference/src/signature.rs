//! What clients see of a model: names, types and shapes of its inputs and outputs.

use std::{collections::BTreeMap, sync::Arc};

use backend::{DataType, NamedTensor, TextCodes};
use bytes::Bytes;

use crate::task::{AUDIO, IMAGE, Medium, Task};

/// That a model has no signature of a name, and which it has; or why the signature cannot be run. A sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSignature(String);

/// The face of one model version.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// Name of the model.
    pub model: Arc<str>,
    /// Its version.
    pub version: u64,
    /// Most rows in one run. 0: the model has no batch dimension, and shapes are exactly `dims`;
    /// else the shape of every input and output is `[rows]` followed by `dims`.
    pub max_batch_size: usize,
    /// Does a run itself look at the shapes of its inputs? Then the protocols of TensorFlow Serving and SageMaker leave
    /// to it what they do not state.
    pub graph_checks_shapes: bool,
    /// Is NaN a value that is missing to the model, so that it may stand as `null` in JSON?
    pub takes_missing: bool,
    /// Most rows in one request of a model with a batch dimension; `None` for any number, as it is run in parts.
    pub most_rows: Option<usize>,
    /// Inputs, in the order of the configuration.
    pub inputs: Vec<Port>,
    /// Outputs, in the order of the configuration.
    pub outputs: Vec<Port>,
    /// Further outputs, which are given only where a request names them.
    pub on_request: Vec<Port>,
    /// What stands behind inputs that are texts; `None` where the inputs are those of the engine.
    pub pipeline: Option<Arc<Pipeline>>,
    /// What it is called among the signatures of its model; `None` where the model's file has no names for them.
    pub named: Option<Named>,
}

/// The parameter of a model's configuration and metadata, as clients see them, that says why its rows are not known to
/// be independent. It says, too, whether requests are merged all the same. It is written by the server alone.
pub const MERGING: &str = "muster_merging";

/// The name of the only signature of a model whose file has no names for them.
pub const ONLY_SIGNATURE: &str = "serving_default";

/// A signature that has a name in the model's file.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its name.
    pub name: Arc<str>,
    /// Its place among those of the model: 0 is the default, then come `others` in their order.
    pub index: usize,
    /// The method of TensorFlow Serving that it is for, as `tensorflow/serving/classify`; `None` where names of methods
    /// are not compared.
    pub method: Option<Arc<str>>,
    /// The signatures of the model beside the default one, which is the only one that has some.
    pub others: Arc<[Signature]>,
    /// Those that cannot be run, each with the reason.
    pub unusable: Arc<[(Arc<str>, String)]>,
    /// All of them as the file has them: the message `SignatureDefMap` of TensorFlow Serving.
    pub definitions: Bytes,
}

/// A model that takes texts where its graph takes tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// What it is for.
    pub task: Task,
    /// Other tasks of the model, and other inputs that a request may give in place of the model's own.
    pub forms: Vec<Form>,
    /// Is a text answered the same whatever else is in its run?
    pub row_independent: bool,
    /// Samples a second that it takes, where it takes sounds.
    pub sampling_rate: Option<u32>,
    /// What decodes JPEG for it, where it takes images.
    pub jpeg: Option<Arc<str>>,
}

/// Inputs that belong together, and the outputs that they lead to.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// What they are for; `None` where they are those of the graph, and go to it as they are.
    pub task: Option<Task>,
    /// Their face.
    pub signature: Signature,
}

impl Pipeline {
    /// Names of the inputs of its graph, which a request may give in place of those of a task.
    pub fn graph_inputs(&self) -> impl Iterator<Item = &str> {
        let of_graph = self.forms.iter().filter(|it| it.task.is_none());
        of_graph.flat_map(|it| it.signature.inputs.iter().map(|port| &*port.name))
    }

    /// The form that has all of these inputs; `None` where the model's own are to say what is wrong.
    pub fn form_of(&self, inputs: &[NamedTensor]) -> Option<&Form> {
        let has_all =
            |it: &&Form| inputs.iter().all(|input| it.signature.input(&input.name).is_some());
        self.forms.iter().find(has_all)
    }
}

/// One input or output.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Its name.
    pub name: Arc<str>,
    /// Element type.
    pub dtype: DataType,
    /// Dimensions without the batch dimension; `None` takes any size. `[]` for a scalar.
    pub dims: Vec<Option<usize>>,
    /// How many dimensions it has is not known: any shape will do, and `dims` are one of any size.
    pub any_rank: bool,
    /// The model itself has no dimension where KServe v2 shows `dims` of `[1]`: its rows are numbers, not lists.
    pub scalar: bool,
    /// An input that may be left out.
    pub optional: bool,
    /// Names by index: those of an output's classes, or of the elements of an input's row, no two of which are alike;
    /// empty where the model has none.
    pub labels: Arc<[String]>,
    /// The elements of an input's row that may be given as texts, by place, and the numbers that these stand for.
    pub text_codes: Arc<BTreeMap<usize, TextCodes>>,
}

impl Port {
    /// May a row have these dimensions?
    pub fn takes(&self, dims: &[usize]) -> bool {
        let fits = |(given, dim): (&usize, &Option<usize>)| dim.is_none_or(|it| it == *given);
        self.any_rank || (dims.len() == self.dims.len() && dims.iter().zip(&self.dims).all(fits))
    }

    /// Elements of a row; `None` where a dimension may have any size.
    pub fn elements(&self) -> Option<usize> {
        self.dims.iter().try_fold(1usize, |product, it| product.checked_mul((*it)?))
    }

    /// The dimensions of a row as the model itself has them, and TensorFlow Serving shows them.
    pub fn own_dims(&self) -> &[Option<usize>] {
        if self.scalar { &[] } else { &self.dims }
    }
}

impl Signature {
    /// What requests call it.
    pub fn name(&self) -> &str {
        self.named.as_ref().map_or(ONLY_SIGNATURE, |it| &it.name)
    }

    /// Its place among those of the model; 0 for the default.
    pub fn index(&self) -> usize {
        self.named.as_ref().map_or(0, |it| it.index)
    }

    /// The names of the columns of the first input that has such names.
    pub fn feature_names(&self) -> Option<&[String]> {
        self.inputs.iter().map(|it| &*it.labels).find(|it| !it.is_empty())
    }

    /// The signatures of the model beside this one, which is the default.
    pub fn others(&self) -> &[Signature] {
        self.named.as_ref().map_or(&[], |it| &it.others)
    }

    /// The signatures of the model that can be run, this one, which is the default, first.
    pub fn usable(&self) -> impl Iterator<Item = &Signature> {
        let unusable = self.named.as_ref().map_or(&[][..], |it| &it.unusable);
        let is_usable = |it: &&Signature| !unusable.iter().any(|(name, _)| **name == *it.name());
        std::iter::once(self).chain(self.others().iter().filter(is_usable))
    }

    /// The signature at that place of the model, of which this one is the default.
    pub fn at(&self, index: usize) -> &Signature {
        let other = index.checked_sub(1).and_then(|it| self.others().get(it));
        other.unwrap_or(self)
    }

    /// The signature of that name of the model, of which this one is the default; the default for an empty name.
    ///
    /// # Errors
    /// That there is none, and which there are; or why it cannot be run. A sentence.
    pub fn of_name(&self, name: &str) -> Result<&Signature, NoSignature> {
        let (model, given) = (&self.model, name.chars().take(128).collect::<String>());
        let mut unusable = self.named.iter().flat_map(|it| &*it.unusable);
        if let Some((_, reason)) = unusable.find(|it| &*it.0 == name) {
            let text = format!("signature '{given}' of model '{model}' cannot be run: {reason}");
            return Err(NoSignature(text));
        }
        if let Some(found) = self.usable().find(|it| name.is_empty() || it.name() == name) {
            return Ok(found);
        }
        let names: Vec<String> = self.usable().map(|it| format!("'{}'", it.name())).collect();
        Err(NoSignature(match names.as_slice() {
            [only] => {
                format!("expected {only}, the only signature of model '{model}', given '{given}'")
            }
            names => {
                let names = names.join(", ");
                format!("model '{model}' has no signature '{given}'; its signatures are {names}")
            }
        }))
    }

    /// Does every shape begin with a batch dimension?
    pub fn batches(&self) -> bool {
        self.max_batch_size > 0
    }

    /// Does a request take as many rows as its sender likes?
    pub fn takes_any_rows(&self) -> bool {
        match self.batches() {
            true => self.most_rows.is_none(),
            false => matches!(self.inputs.as_slice(), [only] if only.dims.first() == Some(&None)),
        }
    }

    /// The input of that name; of a pipeline also that of one of its forms.
    pub fn input(&self, name: &str) -> Option<&Port> {
        let own = self.inputs.iter().find(|it| &*it.name == name);
        own.or_else(|| self.forms().find_map(|it| it.signature.input(name)))
    }

    /// The output of that name; of a pipeline also that of one of its forms.
    pub fn output(&self, name: &str) -> Option<&Port> {
        let own = self.outputs.iter().chain(&self.on_request).find(|it| &*it.name == name);
        own.or_else(|| self.forms().find_map(|it| it.signature.output(name)))
    }

    fn forms(&self) -> impl Iterator<Item = &Form> {
        self.pipeline.iter().flat_map(|it| &it.forms)
    }

    /// The face of a request with these inputs: its own, or that of another form; and the task of that form, where it
    /// is one of a pipeline.
    pub fn of_inputs(&self, inputs: &[NamedTensor]) -> (Option<Task>, &Signature) {
        let Some(pipeline) = &self.pipeline else { return (None, self) };
        let is_own = |name: &str| self.inputs.iter().any(|it| &*it.name == name);
        match pipeline.form_of(inputs) {
            Some(form) if !inputs.iter().all(|it| is_own(&it.name)) => (form.task, &form.signature),
            _ => (Some(pipeline.task), self),
        }
    }

    /// The same for a request that names these outputs: where a face does not have all of them, the first form that has
    /// them and the inputs.
    pub fn of_request(
        &self,
        inputs: &[NamedTensor],
        outputs: &[Arc<str>],
    ) -> (Option<Task>, &Signature) {
        let (task, face) = self.of_inputs(inputs);
        let gives = |it: &Signature| {
            let mut ports = outputs
                .iter()
                .map(|name| it.outputs.iter().chain(&it.on_request).any(|port| port.name == *name));
            ports.all(|it| it)
        };
        if gives(face) {
            return (task, face);
        }
        let takes = |it: &Signature| inputs.iter().all(|input| it.input(&input.name).is_some());
        let other = self.forms().find(|it| takes(&it.signature) && gives(&it.signature));
        other.map_or((task, face), |it| (it.task, &it.signature))
    }

    /// The face of a request for that task: of the forms of it the one that has these inputs, else the first. `None`
    /// where the model has not the task.
    pub fn of_task(&self, task: Task, inputs: &[NamedTensor]) -> Option<&Signature> {
        let pipeline = self.pipeline.as_ref()?;
        let all = || {
            let own = (pipeline.task == task).then_some(self);
            let others = self.forms().filter(|it| it.task == Some(task));
            own.into_iter().chain(others.map(|it| &it.signature))
        };
        let has_all = |it: &&Signature| {
            inputs.iter().all(|input| it.inputs.iter().any(|port| port.name == input.name))
        };
        all().find(has_all).or_else(|| all().next())
    }

    /// The tasks that it answers, its own first; none where it takes tensors.
    pub fn tasks(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.pipeline.iter().map(|it| it.task).collect();
        for task in self.forms().filter_map(|it| it.task) {
            if !tasks.contains(&task) {
                tasks.push(task);
            }
        }
        tasks
    }

    /// What the model takes; `None` where it takes tensors.
    pub fn medium(&self) -> Option<Medium> {
        self.pipeline.as_ref().map(|it| it.task.medium())
    }

    /// Is the input of that name the bytes of image or sound files?
    pub fn takes_files(&self, name: &str) -> bool {
        match self.medium() {
            Some(Medium::Image) => name == IMAGE,
            Some(Medium::Audio) => name == AUDIO,
            Some(Medium::Text) | None => false,
        }
    }

    /// The shape that a client writes for this port, as text: `[-1,30]`, the batch dimension included.
    pub fn shape_text(&self, port: &Port) -> String {
        let batch = self.batches().then_some(None);
        let dims = batch.into_iter().chain(port.dims.iter().copied());
        let dims: Vec<String> =
            dims.map(|it| it.map_or("-1".to_owned(), |size| size.to_string())).collect();
        format!("[{}]", dims.join(","))
    }
}

/// The name among `known` that is most like `given`, if any is alike enough to be meant. A name that is much
/// longer or shorter costs nothing: `given` may be whatever a client sends.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let characters = given.chars().count();
    // In characters, which have up to four bytes.
    let most = |it: &str| it.chars().count().max(characters).div_ceil(3);
    known
        .into_iter()
        .filter(|it| it.chars().count().abs_diff(characters) <= most(it))
        .map(|it| (strsim::damerau_levenshtein(&it.to_lowercase(), &given.to_lowercase()), it))
        .filter(|&(distance, it)| distance <= most(it))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, it)| it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(named: Option<Named>) -> Signature {
        Signature {
            model: "m".into(),
            version: 1,
            max_batch_size: 0,
            graph_checks_shapes: false,
            takes_missing: false,
            most_rows: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            on_request: Vec::new(),
            pipeline: None,
            named,
        }
    }

    #[test]
    fn a_signature_is_found_by_its_name_and_what_there_is_is_named_where_it_is_not() {
        let named = |name: &str, index, others: Vec<Signature>| Named {
            name: name.into(),
            index,
            method: None,
            others: others.into(),
            unusable: Arc::new([("c".into(), "input 'x' is sparse".to_owned())]),
            definitions: Bytes::new(),
        };
        let others = ["b", "c"].iter().zip(1..);
        let others = others.map(|(name, at)| signature(Some(named(name, at, Vec::new()))));
        let model = signature(Some(named("a", 0, others.collect())));
        let index = |name| model.of_name(name).map(Signature::index);
        assert_eq!((index(""), index("a"), index("b")), (Ok(0), Ok(0), Ok(1)));
        assert!(index("c").unwrap_err().to_string().contains("input 'x' is sparse"));
        assert!(index("d").unwrap_err().to_string().ends_with("its signatures are 'a', 'b'"));
        assert_eq!((model.at(1).name(), model.at(9).name()), ("b", "a"));
        let only = signature(None);
        assert_eq!(only.of_name("serving_default").map(Signature::index), Ok(0));
        assert!(only.of_name("a").unwrap_err().to_string().contains("the only signature"));
    }

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        assert_eq!(nearest("max_batchsize", ["name", "max_batch_size"]), Some("max_batch_size"));
        assert_eq!(nearest("INPUT0", ["input0", "other"]), Some("input0"));
        assert_eq!(nearest("colour", ["max_batch_size", "x"]), None);
    }

    #[test]
    fn a_long_name_of_wide_letters_is_not_compared() {
        // 22,000 letters of three bytes: compared with six letters they would take a megabyte.
        let wide = "\u{2028}".repeat(22_000);
        let began = std::time::Instant::now();
        for _ in 0..1000 {
            assert_eq!(nearest(&wide, ["INPUT0"; 10]), None);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
    }

    #[test]
    fn an_absurdly_long_name_is_like_no_other_and_not_looked_at_for_long() {
        // Compared letter by letter these take half a gigabyte and seconds.
        let (long, name) = ("x".repeat(1 << 16), "x".repeat(1 << 10));
        let started = std::time::Instant::now();
        assert_eq!(nearest(&long, [name.as_str()]), None);
        assert!(started.elapsed() < std::time::Duration::from_millis(500));
    }
}

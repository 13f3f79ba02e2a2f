//! A folder of a sound model and the signature of its graph as one thing that answers sounds.

use std::sync::Arc;

use audio::{Limits, SoundError, StillWanted, inspect, read_while};
use backend::ModelSpec;

use super::{
    explain::explain,
    extractor::{Extractor, extractor},
    frames::Frames,
    graph::{Logits, inputs, logits, row},
    head::{MANY_CLASSES, SoundHead},
};
use crate::{
    context::{Context, ContextKind, Work, WorkKind},
    error::{FolderError, NoEnsemble, RowError},
    explain::ExplainedEnsemble,
    folder::{CtcVocabulary, Folder, LONGEST_SOUND},
    head::{
        classify::{classify, whole_logits},
        ctc::spell,
        reduced::Reduced,
    },
    outputs::{GraphOutput, RowOutput, taken_for_its_shape},
    reply::Reply,
    request::{Input, Parameters, TopK},
    step::{GraphInput, Prepared, Row},
    task::classes,
};
use inference::task::Task;

/// Everything around a graph that answers sounds: immutable, shared by all threads.
#[derive(Debug)]
pub(crate) struct SoundPipeline {
    task: Task,
    extractor: Extractor,
    limits: Limits,
    head: SoundHead,
    frames: Frames,
    pub(crate) inputs: Vec<GraphInput>,
    pub(crate) outputs: Vec<GraphOutput>,
    /// Was the output taken for its shape, since none has the name?
    is_by_shape: bool,
}

impl SoundPipeline {
    /// See [`crate::Pipeline::check`].
    pub(crate) fn check(folder: &Folder) -> Result<(), FolderError> {
        extractor(folder).map(drop)
    }

    /// From a folder that has been read, its task, and its graph as the engine describes it.
    ///
    /// # Errors
    /// When a file is missing or wrong, or the graph has not the inputs and outputs that the task needs.
    pub(crate) fn open(
        folder: &Folder,
        task: Task,
        spec: &ModelSpec,
    ) -> Result<SoundPipeline, FolderError> {
        let extractor = extractor(folder)?;
        let (head, rank) = match task {
            Task::AutomaticSpeechRecognition => {
                let vocabulary = CtcVocabulary::read(&folder.dir, "vocab.json")?;
                (SoundHead::Spelling(Box::new(vocabulary)), 3)
            }
            _ => (SoundHead::Classifier(classes(folder)), 2),
        };
        let Logits { output, width, is_by_shape } = logits(spec, rank, &folder.graph)?;
        if let (SoundHead::Classifier(classes), Some(width)) = (&head, width)
            && classes.labels.len() != width
        {
            let problem = format!("{} labels, and the graph has {width}", classes.labels.len());
            let error = FolderError::key("config.json", "id2label", problem);
            return Err(error.remedy("name every class of the graph"));
        }
        let seconds = folder.overrides.longest_sound();
        let limits = Limits { max_seconds: f64::from(seconds), ..Limits::default() };
        let inputs = inputs(spec, &extractor, &folder.graph)?;
        let (frames, outputs) = (Frames::of(&folder.config), vec![output]);
        Ok(SoundPipeline { task, extractor, limits, head, frames, inputs, outputs, is_by_shape })
    }

    /// See [`crate::Pipeline::explain`].
    ///
    /// # Errors
    /// Why there is none: a sentence.
    pub(crate) fn explain(&self, folder: &Folder) -> Result<ExplainedEnsemble, NoEnsemble> {
        explain(folder, &self.extractor, &self.head, &self.inputs, &self.outputs)
    }

    /// The task that the folder is for.
    pub(crate) fn task(&self) -> Task {
        self.task
    }

    /// Samples a second that the graph takes.
    pub(crate) fn sampling_rate(&self) -> u32 {
        self.extractor.sampling_rate()
    }

    /// Names of its classes; none where it spells.
    pub(crate) fn labels(&self) -> &[Arc<str>] {
        match &self.head {
            SoundHead::Classifier(classes) => &classes.labels,
            SoundHead::Spelling(_) => &[],
        }
    }

    /// What was understood, in one line.
    pub(crate) fn describe(&self) -> String {
        let head = match &self.head {
            SoundHead::Classifier(classes) => {
                format!("{} labels, {}", classes.labels.len(), classes.function.name())
            }
            SoundHead::Spelling(vocabulary) => format!("{} tokens", vocabulary.tokens.len()),
        };
        let inputs: Vec<&str> = self.inputs.iter().map(|it| &*it.name).collect();
        let (rate, inputs) = (self.sampling_rate(), inputs.join(", "));
        let (task, extractor) = (self.task, self.extractor.name());
        let most = match self.limits.max_seconds {
            most if most == f64::from(LONGEST_SOUND) => String::new(),
            most => format!(", at most {most} s"),
        };
        let by_shape = self.outputs.first().filter(|_| self.is_by_shape).map(|it| &*it.name);
        let output = taken_for_its_shape(by_shape);
        format!("{task}, {head}; {extractor} {rate} Hz{most}; graph takes {inputs}{output}")
    }

    /// Takes no longer sounds than those whose frames can be compared with each other in so many bytes; the seconds of
    /// the longest, where that is less than before.
    pub(crate) fn fit(&mut self, bytes: u64) -> Option<f64> {
        let seconds = self.frames.longest_samples(bytes)? / f64::from(self.sampling_rate());
        let seconds = seconds.max(1.0).floor();
        let is_less = seconds < self.limits.max_seconds;
        is_less.then(|| self.limits.max_seconds = seconds).map(|()| seconds)
    }

    /// Most bytes that preparing this sound holds at one time, its row included. Takes no memory of its size.
    ///
    /// # Errors
    /// When it is no sound, or too long.
    pub(crate) fn bytes_to_prepare(&self, input: &Input<'_>) -> Result<usize, RowError> {
        let header = inspect(self.file(input)?, &self.limits).map_err(refused)?;
        let bytes = header.most_bytes(self.sampling_rate(), &self.limits);
        // A mask is eight bytes where a sample is four.
        let masks = if self.inputs.len() > 1 { bytes.saturating_mul(2) } else { 0 };
        let values: usize = self.extractor.shape().into_iter().flatten().product();
        let values = if self.extractor.shape().is_some() { values * size_of::<f32>() } else { 0 };
        let all = usize::try_from(bytes.saturating_add(masks)).unwrap_or(usize::MAX);
        Ok(all.saturating_add(values))
    }

    /// See [`crate::Step::bytes_to_run`].
    pub(crate) fn bytes_to_run(&self, row: &Row) -> usize {
        let samples = row.inputs.iter().map(|it| it.tensor.elements()).max();
        self.frames.bytes(samples.unwrap_or(0))
    }

    fn file<'a>(&self, input: &Input<'a>) -> Result<&'a [u8], RowError> {
        match input {
            Input::File(bytes) => Ok(bytes),
            _ => Err(RowError::Input(format!("{} takes the file of a sound", self.task))),
        }
    }

    pub(crate) fn prepare(
        &self,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
        wanted: StillWanted<'_>,
    ) -> Result<Prepared, RowError> {
        if task != self.task {
            let (asked, known) = (task.name(), self.task.name().to_owned());
            return Err(RowError::Task { asked, known });
        }
        let file = self.file(input)?;
        let (context, work) = match &self.head {
            SoundHead::Classifier(classes) => {
                let function = parameters.function.unwrap_or(classes.function);
                let top_k = match parameters.top_k {
                    TopK::Default => TopK::Best(MANY_CLASSES),
                    given => given,
                };
                (ContextKind::Labels { function, top_k }, WorkKind::Logits)
            }
            SoundHead::Spelling(_) => (ContextKind::Transcript, WorkKind::Frames),
        };
        let rate = self.sampling_rate();
        let samples = read_while(file, rate, &self.limits, wanted).map_err(refused)?;
        let least = self.frames.least_samples.max(self.extractor.least_samples());
        if samples.len() < least {
            let given = samples.len();
            return Err(RowError::Input(format!(
                "the sound has {given} samples at {rate} Hz, the model needs at least {least}"
            )));
        }
        let values = self.extractor.values(samples, wanted).map_err(refused)?;
        let inputs = row(&self.inputs, values, self.extractor.shape())?;
        let row = Row { inputs, tokens: 0, is_truncated: false, work: Work(work) };
        Ok(Prepared { rows: vec![row], context: Context(context) })
    }

    pub(crate) fn reduce(
        &self,
        work: &WorkKind,
        outputs: &[RowOutput<'_>],
    ) -> Result<Reduced, RowError> {
        let output = outputs.first().ok_or_else(foreign)?;
        match (work, &self.head) {
            (WorkKind::Logits, SoundHead::Classifier(_)) => {
                Ok(Reduced::Values(whole_logits(output)?))
            }
            (WorkKind::Frames, SoundHead::Spelling(vocabulary)) => {
                Ok(Reduced::Text(spell(output, vocabulary)?))
            }
            _ => Err(foreign()),
        }
    }

    pub(crate) fn finish(
        &self,
        context: ContextKind,
        rows: Vec<Reduced>,
    ) -> Result<Reply, RowError> {
        let mut rows = rows.into_iter();
        let row = rows.next().filter(|_| rows.len() == 0).ok_or_else(foreign)?;
        match (context, row, &self.head) {
            (
                ContextKind::Labels { function, top_k },
                Reduced::Values(logits),
                SoundHead::Classifier(classes),
            ) => {
                let output = self.outputs.first().map_or("", |it| &it.name);
                let found = classify(&classes.labels, logits, function, top_k, output)?;
                Ok(Reply::Labels(found))
            }
            (ContextKind::Transcript, Reduced::Text(text), SoundHead::Spelling(_)) => {
                Ok(Reply::Transcript(text))
            }
            _ => Err(foreign()),
        }
    }
}

/// A sound that cannot be taken, in the words of the decoder.
fn refused(error: SoundError) -> RowError {
    match error {
        SoundError::Stopped => RowError::Stopped,
        error => RowError::Input(error.to_string()),
    }
}

/// A row that is not of this pipeline.
fn foreign() -> RowError {
    let problem = "the row is of another pipeline".to_owned();
    RowError::Output { output: String::new(), problem }
}

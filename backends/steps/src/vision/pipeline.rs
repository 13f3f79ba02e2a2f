//! A folder of an image model and the signature of its graph as one thing that answers images.

use audio::StillWanted;
use backend::{DataType, ModelSpec, TensorSpec};
use image::{Decoder, ImageError, Limits, OutputShape, header};

use super::{
    asked::{Asked, asked},
    explain::explain,
    graph::{ImageInputs, ImageOutputs, check_labels, pixels_of},
    labels::LabelTexts,
    plan::{Boxes, ImageHead, ImagePlan, head, processor},
    preparation::Preparation,
    towers::Placeholders,
    ultralytics,
};
use crate::{
    context::{Context, ContextKind, ObjectWork, Work, WorkKind},
    error::{FolderError, NoEnsemble, NoPipeline, RowError},
    explain::ExplainedEnsemble,
    folder::{Folder, MOST_PIXELS, Overrides, Ultralytics},
    outputs::taken_for_its_shape,
    request::{Input, Parameters},
    step::{GraphInput, Prepared, Row},
};
use inference::task::Task;

/// Numbers of the vectors of all patches of an image: some 257 patches of 1,024.
const USUAL_PATCH_NUMBERS: usize = 1 << 18;

/// Everything around a graph that answers images: immutable, shared by all threads.
#[derive(Debug)]
pub(crate) struct ImagePipeline {
    task: Task,
    decoder: Decoder,
    limits: Limits,
    preparation: Preparation,
    pub(super) head: ImageHead,
    /// What makes texts of the labels that a request names.
    pub(super) labels: Option<Box<LabelTexts>>,
    /// What stands in the place of what a request for vectors does not give; `None` where the graph gives none.
    placeholders: Option<Box<Placeholders>>,
    pixels: ImageInputs,
    /// What rows bring: the pixels, and the labels behind them.
    pub(crate) inputs: Vec<GraphInput>,
    pub(crate) outputs: ImageOutputs,
}

impl ImagePipeline {
    /// See [`crate::Pipeline::check`].
    pub(crate) fn check(folder: &Folder) -> Result<(), FolderError> {
        // Whether the graph takes bytes is not known here: what only numbers need is not asked for.
        processor(folder, true).map(drop)
    }

    /// From a folder that has been read, its task, and its graph as the engine describes it.
    ///
    /// # Errors
    /// When a file is missing or wrong, the library that decodes JPEG cannot be opened, or the graph has not the inputs
    /// and outputs that the task needs.
    pub(crate) fn open(
        folder: &Folder,
        task: Task,
        spec: &ModelSpec,
    ) -> Result<ImagePipeline, FolderError> {
        let takes_bytes = pixels_of(spec).is_some_and(|it| it.dtype == DataType::Uint8);
        let preparation = Preparation::Processor(processor(folder, takes_bytes)?);
        let head = head(folder, task)?;
        let plan = ImagePlan { task, preparation, head };
        let (file, overrides) = (&folder.graph, &folder.overrides);
        match task {
            Task::ZeroShotImageClassification | Task::ImageTextEmbedding => {
                let is_of_image = |it: &TensorSpec| it.name.starts_with("pixel_");
                let (image, texts) = spec.inputs.iter().cloned().partition(is_of_image);
                let of = |inputs| ModelSpec { inputs, ..spec.clone() };
                let labels = LabelTexts::open(folder, &of(texts))?;
                let pipeline = ImagePipeline::around(plan, file, overrides, &of(image))?;
                let inputs = pipeline.inputs.iter().cloned().chain(labels.graph_inputs()).collect();
                let placeholders = match pipeline.outputs.towers {
                    Some(_) => {
                        let (preparation, pixels) = (&pipeline.preparation, &pipeline.pixels);
                        let made = Placeholders::make(preparation, pixels, &labels, file)?;
                        Some(Box::new(made))
                    }
                    None => None,
                };
                let labels = Some(Box::new(labels));
                Ok(ImagePipeline { inputs, labels, placeholders, ..pipeline })
            }
            _ => ImagePipeline::around(plan, file, overrides, spec),
        }
    }

    /// From a single graph of Ultralytics' exports; otherwise why it is served as it is.
    ///
    /// # Errors
    /// When its metadata says something that its inputs and outputs contradict, or the library that decodes JPEG cannot
    /// be opened.
    pub(crate) fn of_ultralytics(
        file: &str,
        said: &Ultralytics,
        overrides: &Overrides,
        spec: &ModelSpec,
    ) -> Result<Result<ImagePipeline, NoPipeline>, FolderError> {
        match ultralytics::plan(file, said, overrides, spec)? {
            Ok(plan) => ImagePipeline::around(plan, file, overrides, spec).map(Ok),
            Err(reason) => Ok(Err(reason)),
        }
    }

    fn around(
        plan: ImagePlan,
        file: &str,
        overrides: &Overrides,
        spec: &ModelSpec,
    ) -> Result<ImagePipeline, FolderError> {
        let ImagePlan { task, preparation, head } = plan;
        let outputs = ImageOutputs::plan(spec, &head, file)?;
        check_labels(&head, &outputs, file)?;
        let pixels = ImageInputs::plan(spec, &preparation, file)?;
        let decoder = Decoder::open(&overrides.jpeg_library)
            .map_err(|error| FolderError::file("--jpeg-library", error.to_string()))?;
        let max_pixels = overrides.most_pixels();
        let limits = Limits { max_pixels };
        let (labels, inputs) = (None, pixels.inputs.clone());
        Ok(ImagePipeline {
            task,
            decoder,
            limits,
            preparation,
            head,
            labels,
            placeholders: None,
            pixels,
            inputs,
            outputs,
        })
    }

    /// See [`crate::Pipeline::explain`].
    ///
    /// # Errors
    /// Why there is none: a sentence.
    pub(crate) fn explain(&self, folder: &Folder) -> Result<ExplainedEnsemble, NoEnsemble> {
        explain(folder, &self.head, &self.pixels, &self.outputs)
    }

    /// The task that the folder is for.
    pub(crate) fn task(&self) -> Task {
        self.task
    }

    /// The tasks that it answers, that of the folder first.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let vectors = self.outputs.towers.map(|_| Task::ImageTextEmbedding);
        let others = vectors.into_iter().filter(|it| *it != self.task);
        std::iter::once(self.task).chain(others).collect()
    }

    /// Lengths of the vectors of images and of texts, where the graph says them.
    pub(crate) fn tower_dimensions(&self) -> [Option<usize>; 2] {
        let towers = self.outputs.towers;
        [towers.and_then(|it| it.image_width), towers.and_then(|it| it.text_width)]
    }

    /// Names of its classes.
    pub(crate) fn labels(&self) -> &[std::sync::Arc<str>] {
        match &self.head {
            ImageHead::Classifier(classes) => &classes.labels,
            ImageHead::Detector(detector) => &detector.labels,
            ImageHead::Features | ImageHead::Candidates | ImageHead::Towers => &[],
        }
    }

    /// Length of the vector of an image, where the graph gives one and says it.
    pub(crate) fn dimensions(&self) -> Option<usize> {
        self.outputs.vector_width
    }

    /// Numbers of the vectors of all patches of an image: where the graph does not say it, those of a large model.
    pub(crate) fn patch_numbers(&self) -> usize {
        self.outputs.patch_numbers.unwrap_or(USUAL_PATCH_NUMBERS)
    }

    /// What was understood, in one line.
    pub(crate) fn describe(&self) -> String {
        let head = match &self.head {
            ImageHead::Classifier(classes) => {
                format!("{} labels, {}", classes.labels.len(), classes.function.name())
            }
            ImageHead::Detector(detector) => {
                let boxes = match detector.boxes {
                    Boxes::Yolo(layout) => layout.name(),
                    Boxes::Queries(queries) => queries.name(),
                };
                let labels = detector.labels.len();
                format!("{labels} labels, head {boxes}{}", detector.described_thresholds())
            }
            ImageHead::Features => "vectors of the graph".to_owned(),
            ImageHead::Towers => {
                let texts = self.labels.as_ref().map_or_else(String::new, |it| it.describe());
                format!("vectors of images and texts, {texts}")
            }
            ImageHead::Candidates => {
                let labels = "labels of the request".to_owned();
                self.labels.as_ref().map_or(labels.clone(), |it| {
                    format!("{labels}, {}, {}", it.function.name(), it.describe())
                })
            }
        };
        let inputs: Vec<&str> = self.inputs.iter().map(|it| &*it.name).collect();
        let most = match self.limits.max_pixels {
            MOST_PIXELS => String::new(),
            most => format!(", at most {most} pixels"),
        };
        format!(
            "{}, {head}; {}, JPEG by {}{most}; graph takes {}{}",
            self.task,
            self.preparation.describe(),
            self.decoder.jpeg(),
            inputs.join(", "),
            taken_for_its_shape(self.outputs.by_shape.as_deref())
        )
    }

    /// What decodes JPEG.
    pub(crate) fn jpeg(&self) -> &str {
        self.decoder.jpeg()
    }

    /// Most bytes that preparing this image holds at one time, its row included. Reads the header only.
    ///
    /// # Errors
    /// When it is no image, has too many pixels, or would have on the way to the graph.
    pub(crate) fn bytes_to_prepare(&self, input: &Input<'_>) -> Result<usize, RowError> {
        if let (Input::FileTexts(None, given), Some(texts)) = (input, &self.labels) {
            let pixels = self.bytes_of_row().saturating_mul(texts.runs(given.len()));
            return Ok(pixels.saturating_add(texts.bytes(given.len())));
        }
        let header = header(self.file(input)?).map_err(refused)?;
        header.check(&self.limits).map_err(refused)?;
        let (height, width) = header.upright();
        let bytes = self.preparation.bytes_to_apply(height, width).map_err(refused)?;
        let all = header.decoded_bytes.saturating_add(bytes);
        let all = usize::try_from(all).unwrap_or(usize::MAX);
        Ok(match (&self.labels, input) {
            // Their rows share the pixels, which count for each.
            (Some(texts), Input::FileCandidates(_, labels)) => {
                let again = self.bytes_of_row().saturating_mul(texts.runs(labels.len()));
                all.saturating_add(texts.bytes(labels.len())).saturating_add(again)
            }
            (Some(texts), Input::FileTexts(_, given)) => {
                all.saturating_add(texts.bytes(given.len()))
            }
            _ => all,
        })
    }

    fn file<'a>(&self, input: &Input<'a>) -> Result<&'a [u8], RowError> {
        match (input, &self.labels) {
            (Input::File(bytes), None)
            | (Input::FileCandidates(bytes, _) | Input::FileTexts(Some(bytes), _), Some(_)) => {
                Ok(bytes)
            }
            (_, None) => Err(RowError::Input(format!("{} takes the file of an image", self.task))),
            (_, Some(_)) => {
                let takes = "takes the file of an image and candidate labels";
                Err(RowError::Input(format!("{} {takes}", self.task)))
            }
        }
    }

    /// Bytes of the values of an image, where the processor gives one size.
    fn bytes_of_row(&self) -> usize {
        match self.preparation.output() {
            OutputShape::Fixed(dims) => dims.iter().product::<usize>() * 4,
            OutputShape::Varies => 0,
        }
    }

    pub(crate) fn prepare(
        &self,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
        wanted: StillWanted<'_>,
    ) -> Result<Prepared, RowError> {
        if !self.tasks().contains(&task) {
            let names: Vec<&str> = self.tasks().into_iter().map(Task::name).collect();
            return Err(RowError::Task { asked: task.name(), known: names.join(", ") });
        }
        if task == Task::ImageTextEmbedding {
            return self.prepare_towers(input, parameters, wanted);
        }
        let file = self.file(input)?;
        let asked = asked(&self.head, &self.outputs, parameters)?;
        let texts = match (&self.labels, input) {
            // Before the image, which takes longer.
            (Some(texts), Input::FileCandidates(_, labels)) => texts.rows(labels, parameters)?,
            _ => Vec::new(),
        };
        let image = self.decoder.decode_while(file, &self.limits, wanted).map_err(refused)?;
        let pixels = self.preparation.apply(&image).map_err(refused)?.pixels;
        let side = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let [height, width] = pixels.size.map(side);
        let [_, input_height, input_width] = pixels.shape.map(side);
        let (work, context) = match asked {
            Asked::Labels(function, top_k) => {
                (WorkKind::Logits, ContextKind::Labels { function, top_k })
            }
            Asked::Objects(thresholds) => {
                let (sent, input) = ([width, height], [input_width, input_height]);
                let work = ObjectWork { sent, input, thresholds };
                (WorkKind::Objects(work), ContextKind::Objects { size: [height, width] })
            }
            Asked::Features { is_pooled } => {
                (WorkKind::ImageFeatures, ContextKind::ImageFeatures { is_pooled })
            }
            Asked::Towers => return Err(foreign()),
            Asked::Candidates => {
                let labels = match input {
                    Input::FileCandidates(_, labels) => labels.iter().map(|it| (*it).into()),
                    _ => return Err(foreign()),
                };
                (WorkKind::Logits, ContextKind::ImageCandidates(labels.collect()))
            }
        };
        let inputs = self.pixels.row(pixels)?;
        let row = |inputs, work| Row { inputs, tokens: 0, is_truncated: false, work: Work(work) };
        let rows = match self.labels {
            None => vec![row(inputs, work)],
            Some(_) => {
                let of_run = |texts| {
                    let inputs = inputs.iter().cloned().chain(texts).collect();
                    row(inputs, WorkKind::Logits)
                };
                texts.into_iter().map(of_run).collect()
            }
        };
        Ok(Prepared { rows, context: Context(context) })
    }

    /// The rows of an image and a text, or of one of them, whose vectors are wanted.
    fn prepare_towers(
        &self,
        input: &Input<'_>,
        parameters: &Parameters,
        wanted: StillWanted<'_>,
    ) -> Result<Prepared, RowError> {
        let (Some(placeholders), Some(texts)) = (&self.placeholders, &self.labels) else {
            return Err(foreign());
        };
        let Input::FileTexts(file, given) = *input else { return Err(foreign()) };
        let image = match file {
            Some(file) => {
                let image = self.decoder.decode_while(file, &self.limits, wanted);
                let pixels = self.preparation.apply(&image.map_err(refused)?).map_err(refused)?;
                Some(self.pixels.row(pixels.pixels)?)
            }
            None => None,
        };
        let row = |(inputs, work)| Row { inputs, tokens: 0, is_truncated: false, work: Work(work) };
        let runs = placeholders.runs(image, given, texts, parameters.truncate == Some(true))?;
        let rows = runs.into_iter().map(row).collect();
        Ok(Prepared { rows, context: Context(ContextKind::Towers) })
    }
}

/// An image that cannot be taken, in the words of the decoder.
fn refused(error: ImageError) -> RowError {
    match error {
        ImageError::Stopped => RowError::Stopped,
        error => RowError::Input(error.to_string()),
    }
}

/// A row that is not of this pipeline.
pub(super) fn foreign() -> RowError {
    let problem = "the row is of another pipeline".to_owned();
    RowError::Output { output: String::new(), problem }
}

//! Folders of tiny models with what transformers answers, and copies of them that tests change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use backend::{
    Backend, BackendError, Batch, DataType, Device, Instance, ModelSource, NamedTensor, Shape,
    Stop, Tensor,
};
use backend_onnxruntime::OnnxRuntime;
use safetensors::{Dtype, SafeTensors};

/// Numbers may differ so much: other kernels add in another order.
pub(crate) const CLOSE: f32 = 1e-5;

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/weights")
}

/// A tensor of a file of expectations.
pub(crate) fn tensor(name: &str, view: &safetensors::tensor::TensorView<'_>) -> NamedTensor {
    let shape: Shape = view.shape().iter().copied().collect();
    let dtype = match view.dtype() {
        Dtype::I64 => DataType::Int64,
        Dtype::F32 => DataType::Fp32,
        other => panic!("{name}: {other:?}"),
    };
    let tensor = Tensor::new(dtype, shape, view.data().to_vec().into()).unwrap();
    NamedTensor { name: name.into(), tensor }
}

pub(crate) fn load(folder: &Path) -> Result<Box<dyn Instance>, BackendError> {
    load_with(folder, &[])
}

pub(crate) fn load_with(
    folder: &Path,
    options: &[(&str, &str)],
) -> Result<Box<dyn Instance>, BackendError> {
    let weights = ["model.safetensors", "model.safetensors.index.json"].map(|it| folder.join(it));
    let [one, several] = weights;
    let path = if one.exists() { one } else { several };
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let source =
        ModelSource { options: options.collect(), ..ModelSource::new("weights".to_owned(), path) };
    let model = OnnxRuntime::default().load(&source)?;
    model.instantiate(Device::Cpu)
}

/// A folder with what transformers answers.
pub(crate) struct Answered {
    pub(crate) name: String,
    pub(crate) instance: Box<dyn Instance>,
    pub(crate) inputs: Vec<NamedTensor>,
    pub(crate) outputs: Vec<NamedTensor>,
}

impl Answered {
    pub(crate) fn of(folder: &Path) -> Answered {
        Answered::with(folder, &[])
    }

    pub(crate) fn with(folder: &Path, options: &[(&str, &str)]) -> Answered {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let expected = fs::read(folder.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&expected).unwrap();
        let part = |prefix: &str| -> Vec<NamedTensor> {
            let all = expected.iter();
            all.filter_map(|(it, view)| Some(tensor(it.strip_prefix(prefix)?, &view))).collect()
        };
        let (inputs, outputs) = (part("in."), part("out."));
        let instance = load_with(folder, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        Answered { name, instance, inputs, outputs }
    }

    pub(crate) fn run(&mut self, inputs: &[NamedTensor], rows: usize) -> Vec<NamedTensor> {
        let names: Vec<Arc<str>> = self.outputs.iter().map(|it| it.name.clone()).collect();
        let stop = Stop::new();
        let batch = Batch { inputs, outputs: &names, rows, signature: 0, stop: &stop };
        let found = self.instance.execute(&batch);
        found.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// What is said to all rows at once, bit by bit.
    pub(crate) fn bits(&mut self) -> Vec<u32> {
        let inputs = self.inputs.clone();
        let found = self.run(&inputs, 3);
        let numbers = found.iter().flat_map(|it| it.tensor.as_slice_of::<f32>().unwrap());
        numbers.map(|it| it.to_bits()).collect()
    }

    /// The places of the tokens of each row that are no padding; none where the inputs are no texts.
    pub(crate) fn counted(&self) -> Option<Vec<Vec<usize>>> {
        let mask = &self.inputs.iter().find(|it| &*it.name == "attention_mask")?.tensor;
        let rows = mask.as_slice_of::<i64>().unwrap().chunks(self.width());
        Some(rows.map(|row| (0..row.len()).filter(|at| row[*at] == 1).collect()).collect())
    }

    /// How many tokens each row has, with padding.
    pub(crate) fn width(&self) -> usize {
        let mask = self.inputs.iter().find(|it| &*it.name == "attention_mask");
        mask.map_or(0, |it| it.tensor.shape().dims()[1])
    }

    /// All rows at once.
    pub(crate) fn in_company(&mut self) {
        let inputs = self.inputs.clone();
        let found = self.run(&inputs, 3);
        for row in 0..3 {
            self.check(&found, row, row, CLOSE);
        }
    }

    /// Each text without the others, and without the padding that it has for their sake, on either side.
    pub(crate) fn alone(&mut self) {
        // A model of two towers has no row for a text alone.
        if self.inputs.iter().any(|it| &*it.name == "pixel_values") {
            return;
        }
        let Some(counted) = self.counted() else { return };
        for (row, places) in counted.iter().enumerate() {
            let inputs = self.inputs.iter().map(|NamedTensor { name, tensor }| {
                let all = tensor.as_slice_of::<i64>().unwrap();
                let own = places.iter().map(|at| all[row * self.width() + at]);
                let bytes: Vec<u8> = own.flat_map(i64::to_le_bytes).collect();
                let shape: Shape = [1, places.len()].into_iter().collect();
                let tensor = Tensor::new(DataType::Int64, shape, bytes.into()).unwrap();
                NamedTensor { name: name.clone(), tensor }
            });
            let found = self.run(&inputs.collect::<Vec<_>>(), 1);
            self.check(&found, 0, row, CLOSE);
        }
    }

    /// Is the row of these outputs as that row of transformers, where a token is no padding?
    pub(crate) fn check(&self, found: &[NamedTensor], row: usize, expected_row: usize, close: f32) {
        let name = &self.name;
        let counted = self.counted();
        for expected in &self.outputs {
            let found = &found.iter().find(|it| it.name == expected.name).unwrap().tensor;
            let expected = &expected.tensor;
            assert_eq!(found.shape().dims().len(), expected.shape().dims().len(), "{name}");
            let of = |tensor: &Tensor, row: usize| {
                let size = tensor.shape().inner().iter().product::<usize>();
                let all = tensor.as_slice_of::<f32>().unwrap();
                all[row * size..(row + 1) * size].to_vec()
            };
            let (found, wanted) = (of(found, row), of(expected, expected_row));
            // An output with as many numbers in each row as it has tokens is one of tokens.
            let is_of_tokens = expected.shape().dims()[1] == self.width();
            let places = counted.as_ref().filter(|_| is_of_tokens).map(|it| &it[expected_row]);
            let size = places.map_or(wanted.len(), |_| wanted.len() / self.width());
            let places = places.map_or(vec![0], Clone::clone);
            let is_alone = found.len() < wanted.len();
            let mut largest = 0f32;
            for (nth, at) in places.into_iter().enumerate() {
                let found = &found[if is_alone { nth } else { at } * size..][..size];
                let pairs = found.iter().zip(&wanted[at * size..][..size]);
                largest = pairs.fold(largest, |it, (found, wanted)| it.max((found - wanted).abs()));
                assert!(found.iter().all(|it| it.is_finite()), "{name}, row {expected_row}");
            }
            assert!(largest < close, "{name}, row {expected_row}: {largest}");
        }
    }
}

pub(crate) const INT8: [(&str, &str); 1] = [("precision", "int8")];

/// A row of a tensor.
pub(crate) fn row_of(NamedTensor { name, tensor }: &NamedTensor, row: usize) -> NamedTensor {
    NamedTensor { name: name.clone(), tensor: tensor.slice_rows(row, 1).unwrap() }
}

/// A copy of a folder, gone at the end.
pub(crate) struct Copy(pub(crate) PathBuf);

impl Copy {
    pub(crate) fn of(name: &str) -> Copy {
        let copy =
            std::env::temp_dir().join(format!("muster-weights-{name}-{}", std::process::id()));
        fs::create_dir_all(&copy).unwrap();
        for entry in fs::read_dir(fixtures().join(name)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        Copy(copy)
    }

    /// With other text in its configuration.
    pub(crate) fn change(&self, from: &str, to: &str) {
        let path = self.0.join("config.json");
        let config = fs::read_to_string(&path).unwrap();
        assert!(config.contains(from), "{config}");
        fs::write(path, config.replacen(from, to, 1)).unwrap();
    }

    pub(crate) fn refused(&self, expected: &str) {
        let Err(BackendError::Load(text)) = load(&self.0) else { panic!("it is loaded") };
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("optimum-cli export onnx"), "{text}");
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

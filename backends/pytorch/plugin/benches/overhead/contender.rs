//! A process that runs one model in rounds: whenever a line comes it runs it so often, and writes the first number of
//! the answer and the microseconds of the processor per run.

use std::{error::Error, fs, io, path::Path, sync::Arc};

use backend::{
    Backend, Batch, DataType, Device, Instance, ModelSource, NamedTensor, Shape, Stop, Tensor,
    TensorHint,
};
use pytorch::{Options, PyTorch};
use tch::CModule;

use crate::Outcome;

/// The first argument of such a process.
pub(crate) const ROLE: &str = "--contender";
/// Instead of a plugin: the loop of `tch`.
pub(crate) const BARE: &str = "--bare";

/// `[plugin, model, runs, dimensions..]`
pub(crate) fn run(arguments: &[String]) -> Outcome<()> {
    let [how, path, runs, dims @ ..] = arguments else { return Err("too few arguments".into()) };
    let runs = runs.parse()?;
    let dims = dims.iter().map(|it| it.parse()).collect::<Result<Vec<usize>, _>>()?;
    let elements = dims.iter().product::<usize>();
    let numbers: Vec<f32> = (0..elements).map(|it| (it % 17) as f32 / 8.0 - 1.0).collect();
    match how.as_str() {
        BARE => bare(Path::new(path), &dims, &numbers, runs),
        plugin => engine(plugin, Path::new(path), &dims, numbers, runs),
    }
}

fn bare(path: &Path, dims: &[usize], numbers: &[f32], runs: usize) -> Outcome<()> {
    tch::set_num_threads(1);
    let module = CModule::load(path)?;
    let dims: Vec<i64> = dims.iter().map(|&it| it as i64).collect();
    rounds(runs, || {
        let _no_gradients = tch::no_grad_guard();
        // SAFETY: the numbers are as many as the dimensions say, and outlive the tensor.
        let input = unsafe {
            let data = numbers.as_ptr().cast();
            tch::Tensor::f_from_blob(data, &dims, &[], tch::Kind::Float, tch::Device::Cpu)?
        };
        let output = module.forward_ts(&[input])?;
        // SAFETY: the answer is not empty, and of floats.
        Ok(unsafe { *output.data_ptr().cast::<f32>() })
    })
}

fn engine(
    plugin: &str,
    path: &Path,
    dims: &[usize],
    numbers: Vec<f32>,
    runs: usize,
) -> Outcome<()> {
    let engine = PyTorch::new(Options { plugin: Some(plugin.into()) });
    let mut source = ModelSource::new("bench", path);
    let of = |name: &str, dims: Vec<Option<usize>>| TensorHint {
        name: name.into(),
        dtype: Some(DataType::Fp32),
        dims: Some(dims),
    };
    let rest = dims[1..].iter().map(|&it| Some(it));
    source.hints.inputs = vec![of("INPUT__0", [None].into_iter().chain(rest).collect())];
    source.hints.outputs = vec![of("OUTPUT__0", vec![None, None])];
    let model = engine.load(&source)?;
    let mut instance = model.instantiate(Device::Cpu)?;
    let input = Tensor::from_vec(Shape::new(dims), numbers)?;
    let inputs = [NamedTensor { name: "INPUT__0".into(), tensor: input }];
    let outputs: [Arc<str>; 1] = ["OUTPUT__0".into()];
    let stop = Stop::new();
    let batch =
        Batch { signature: 0, inputs: &inputs, outputs: &outputs, rows: dims[0], stop: &stop };
    rounds(runs, || first(&mut *instance, &batch))
}

fn first(instance: &mut dyn Instance, batch: &Batch<'_>) -> Outcome<f32> {
    let outputs = instance.execute(batch)?;
    let bytes = outputs[0].tensor.contiguous().ok_or("an output in pieces")?;
    Ok(f32::from_le_bytes(*bytes.first_chunk().ok_or("an empty output")?))
}

fn rounds(runs: usize, mut run: impl FnMut() -> Outcome<f32>) -> Outcome<()> {
    for line in io::stdin().lines() {
        line?;
        let begin = processor_time()?;
        let mut answer = 0.0;
        for _ in 0..runs {
            answer = run()?;
        }
        let taken = processor_time()? - begin;
        println!("{answer} {}", taken as f64 / 1000.0 / runs as f64);
    }
    Ok(())
}

/// Nanoseconds that this thread has run.
fn processor_time() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("no time in schedstat")?.parse()?)
}

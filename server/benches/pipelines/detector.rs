//! A detector whose run costs next to nothing, a photograph for it, and what a client does that sends tensors.

use std::{
    fs,
    hint::black_box,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use backend::{Backend, Batch, Device, ModelSource, NamedTensor, Shape, Stop, Tensor};
use image::{Decoder, JpegLibrary, Limits, letterbox::Letterbox};
use onnxruntime::OnnxRuntime;
use rustix::time::{ClockId, clock_gettime};
use steps::{
    RowOutput,
    detect::{Layout, Placed, Thresholds, yolo},
};

use crate::{
    onnx_file::detector,
    support::{Outcome, TemporaryFolder, spread::Spread},
};

/// Boxes that it finds, none of which hides another.
pub const FOUND: usize = 100;
const CLASSES: usize = 80;
const BOXES: usize = 8_400;
const SIDE: usize = 640;
/// Rounds of what is measured in this process; the median counts.
const ROUNDS: usize = 25;

/// The numbers of all boxes, by number: centres and sizes, then a score for each class.
fn values() -> Vec<f32> {
    let mut values = vec![0.0; (4 + CLASSES) * BOXES];
    for found in 0..FOUND {
        let place = found * (BOXES / FOUND);
        let centre = [32 + found % 10 * 64, 150 + found / 10 * 34].map(|it| it as f32);
        let rows = [centre[0], centre[1], 40.0, 20.0];
        rows.into_iter().enumerate().for_each(|(at, it)| values[at * BOXES + place] = it);
        values[(4 + found % CLASSES) * BOXES + place] = 0.3 + 0.006 * found as f32;
    }
    values
}

/// Writes the graph. With metadata it takes images, without it tensors.
pub fn install(name: &str, repository: &Path, takes_images: bool) -> Outcome<()> {
    let version = repository.join(name).join("1");
    fs::create_dir_all(&version)?;
    let names: Vec<String> = (0..CLASSES).map(|it| format!("{it}: 'thing {it}'")).collect();
    let names = format!("{{{}}}", names.join(", "));
    let said = [("task", "detect"), ("stride", "32"), ("names", &names), ("batch", "1")];
    let metadata = if takes_images { &said[..] } else { &[] };
    Ok(detector(&version.join("model.onnx"), &values(), (4 + CLASSES) as u64, metadata)?)
}

/// A JPEG of 1920 × 1080 by the Python that `MUSTER_PYTHON` names; there is no encoder in this repository.
pub fn photograph() -> Outcome<Vec<u8>> {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../backends/image/benches/peer.py");
    let python = std::env::var_os("MUSTER_PYTHON")
        .ok_or("MUSTER_PYTHON names no Python with Pillow and NumPy, which write the photograph")?;
    let folder = TemporaryFolder::new()?;
    let file = folder.path().join("photograph.jpg");
    // Without a line to answer it ends once the file is there.
    let mut command = Command::new(python);
    command.arg(SCRIPT).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
    match command.status()?.success() {
        true => Ok(fs::read(file)?),
        false => Err("the photograph could not be written".into()),
    }
}

/// What a client sends in the place of the photograph.
pub fn pixels(photograph: &[u8]) -> Outcome<Vec<f32>> {
    let image = Decoder::open(&JpegLibrary::Auto)?.decode(photograph, &Limits::default())?;
    let side = SIDE as u32;
    Ok(Letterbox::fixed(side, side).apply(&image)?.values)
}

/// Processor time of preparing the tensor and of finding the boxes in the reply, by the server's own code.
pub fn cost_of_client(photograph: &[u8]) -> Outcome<Duration> {
    let placed = Placed::of([1920, 1080], [SIDE as u32; 2]);
    let row =
        RowOutput { name: "output0", dims: vec![4 + CLASSES, BOXES], values: values().into() };
    let layout = Layout::Yolo { classes: CLASSES };
    median_of(|| {
        black_box(pixels(photograph)?);
        let found = yolo(&row, layout, &Thresholds::YOLO, &placed)?;
        match found.len() {
            FOUND => Ok(()),
            other => Err(format!("{other} boxes, not {FOUND}").into()),
        }
    })
}

/// Processor time of a run by itself.
pub fn cost_of_run(file: &Path, pixels: Vec<f32>) -> Outcome<Duration> {
    let model = OnnxRuntime::default().load(&ModelSource::new("detector", file.to_owned()))?;
    let mut instance = model.instantiate(Device::Cpu)?;
    let tensor = Tensor::from_vec(Shape::new(&[1, 3, SIDE, SIDE]), pixels)?;
    let inputs = [NamedTensor { name: "images".into(), tensor }];
    let (outputs, stop) = (["output0".into()], Stop::new());
    median_of(|| {
        let batch =
            Batch { signature: 0, inputs: &inputs, outputs: &outputs, rows: 1, stop: &stop };
        black_box(instance.execute(&batch)?);
        Ok(())
    })
}

fn median_of(mut run: impl FnMut() -> Outcome<()>) -> Outcome<Duration> {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begin = now();
        run()?;
        times.push((now() - begin).as_secs_f64());
    }
    Ok(Duration::from_secs_f64(Spread::new(times).median))
}

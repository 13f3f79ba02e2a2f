//! What the engine adds to a run of libtorch: through host and plugin, against a bare loop, in turns.
//!
//! `cargo bench -p backend-pytorch-plugin --bench overhead` compiles the bare loop (`bare.cpp`) with the
//! libtorch that `LIBTORCH` names, and prints Markdown. Both run the same optimised module on one thread, in
//! inference mode, and must give the same answer. Times are of the processor, in microseconds per run; of many
//! rounds the median.

use std::{
    error::Error,
    ffi::{CString, c_char, c_void},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use backend::{Backend, Batch, Device, Instance, ModelSource, NamedTensor, Shape, Stop, Tensor};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use pytorch::{Options, PyTorch};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 41;

fn main() -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("muster-overhead-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let outcome = bench(&folder);
    fs::remove_dir_all(&folder)?;
    outcome
}

fn bench(folder: &Path) -> Outcome<()> {
    let libtorch = PathBuf::from(std::env::var_os("LIBTORCH").ok_or("LIBTORCH is not set")?);
    // As in an installation: libtorch lies beside the plugin.
    let program = std::env::current_exe()?;
    let plugin = folder.join("libmuster_pytorch.so");
    fs::copy(program.with_file_name("libmuster_pytorch.so"), &plugin)?;
    symlink(&libtorch, folder.join("libtorch"))?;
    let engine = PyTorch::new(Options { plugin: Some(plugin) });
    let bare = Bare::compile(folder, &libtorch)?;
    println!("| model | rows | bare µs | engine µs | difference µs | ratio |");
    println!("|---|---:|---:|---:|---:|---:|");
    let cases: [(&str, &[usize], usize); 4] = [
        ("mlp", &[1, 30], 4000),
        ("mlp", &[16, 30], 2000),
        ("conv", &[1, 3, 32, 32], 100),
        ("conv", &[4, 3, 32, 32], 50),
    ];
    for (name, dims, runs) in cases {
        let path = folder.join(format!("{name}.pt"));
        bare.save(name, &path)?;
        let (bare_time, engine_time) = compare(&bare, &engine, &path, dims, runs)?;
        println!(
            "| {name} | {} | {bare_time:.2} | {engine_time:.2} | {:+.2} | {:.3} |",
            dims[0],
            engine_time - bare_time,
            engine_time / bare_time
        );
    }
    Ok(())
}

/// Median microseconds per run of both.
fn compare(
    bare: &Bare,
    engine: &PyTorch,
    path: &Path,
    dims: &[usize],
    runs: usize,
) -> Outcome<(f64, f64)> {
    let elements = dims.iter().product::<usize>();
    let mut numbers: Vec<f32> = (0..elements).map(|it| (it % 17) as f32 / 8.0 - 1.0).collect();
    let input = Tensor::from_vec(Shape::new(dims), numbers.clone())?;
    let inputs = [NamedTensor { name: "x".into(), tensor: input }];
    let outputs: [Arc<str>; 1] = ["OUTPUT__0".into()];
    let stop = Stop::new();
    let batch =
        Batch { signature: 0, inputs: &inputs, outputs: &outputs, rows: dims[0], stop: &stop };
    let model = engine.load(&ModelSource::new("bench", path))?;
    let mut instance = model.instantiate(Device::Cpu)?;
    let loaded = bare.load(path)?;
    let (mut bare_times, mut engine_times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 3 {
        let (first, bare_time) = timed(runs, || Ok(bare.run(loaded, &mut numbers, dims, runs)))?;
        let (answer, engine_time) = timed(runs, || repeat(&mut *instance, &batch, runs))?;
        if (first - answer).abs() > 1e-4 {
            return Err(format!("{}: bare {first}, engine {answer}", path.display()).into());
        }
        // The first rounds are slower: threads and caches are new.
        if round >= 3 {
            bare_times.push(bare_time);
            engine_times.push(engine_time);
        }
    }
    Ok((median(bare_times), median(engine_times)))
}

/// Runs it so often, and returns the first number of the last output.
fn repeat(instance: &mut dyn Instance, batch: &Batch<'_>, runs: usize) -> Outcome<f32> {
    let mut first = 0.0;
    for _ in 0..runs {
        let outputs = instance.execute(batch)?;
        let bytes = outputs[0].tensor.contiguous().ok_or("an output in pieces")?;
        first = f32::from_le_bytes(*bytes.first_chunk().ok_or("an empty output")?);
    }
    Ok(first)
}

/// What `work` gives, and the microseconds of this thread's processor per run.
fn timed<T>(runs: usize, work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let begin = processor_time()?;
    let value = work()?;
    let taken = processor_time()? - begin;
    Ok((value, taken as f64 / 1000.0 / runs as f64))
}

/// Nanoseconds that this thread has run.
fn processor_time() -> Outcome<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("no time in schedstat")?.parse()?)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// libtorch by itself.
struct Bare {
    library: Library,
}

impl Bare {
    fn compile(folder: &Path, libtorch: &Path) -> Outcome<Bare> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/overhead/bare.cpp");
        let library = folder.join("bare.so");
        let (include, lib) = (libtorch.join("include"), libtorch.join("lib"));
        let mut compiler = Command::new("c++");
        compiler
            .args(["-std=c++20", "-O2", "-shared", "-fPIC", "-w"])
            .arg("-isystem")
            .arg(&include);
        compiler.arg("-isystem").arg(include.join("torch/csrc/api/include"));
        compiler.arg(source).arg("-o").arg(&library).arg("-L").arg(&lib);
        compiler.args(["-ltorch_cpu", "-lc10"]).arg(format!("-Wl,-rpath,{}", lib.display()));
        if !compiler.status()?.success() {
            return Err("bare.cpp does not compile".into());
        }
        // SAFETY: the library was compiled just now; its initialisers are those of libtorch's headers.
        let library = unsafe { Library::open(Some(&library), RTLD_NOW | RTLD_LOCAL)? };
        Ok(Bare { library })
    }

    fn save(&self, name: &str, path: &Path) -> Outcome<()> {
        let (name, path) = (CString::new(name)?, c_path(path)?);
        type Save = unsafe extern "C" fn(*const c_char, *const c_char);
        // SAFETY: the function has this type in `bare.cpp`, and both texts end with a zero.
        unsafe { self.library.get::<Save>(b"bare_save\0")?(name.as_ptr(), path.as_ptr()) };
        Ok(())
    }

    /// Stays loaded: the process ends soon.
    fn load(&self, path: &Path) -> Outcome<*mut c_void> {
        let path = c_path(path)?;
        type Load = unsafe extern "C" fn(*const c_char) -> *mut c_void;
        // SAFETY: the function has this type in `bare.cpp`, and the text ends with a zero.
        Ok(unsafe { self.library.get::<Load>(b"bare_load\0")?(path.as_ptr()) })
    }

    fn run(&self, loaded: *mut c_void, numbers: &mut [f32], dims: &[usize], runs: usize) -> f32 {
        type Run = unsafe extern "C" fn(*mut c_void, *mut f32, *const i64, usize, usize) -> f32;
        let dims: Vec<i64> = dims.iter().map(|&it| it as i64).collect();
        // SAFETY: the function has this type in `bare.cpp`; the model came from `load`, and the numbers
        // are as many as the dimensions say.
        unsafe {
            let run = self.library.get::<Run>(b"bare_run\0").expect("it is in bare.cpp");
            run(loaded, numbers.as_mut_ptr(), dims.as_ptr(), dims.len(), runs)
        }
    }
}

fn c_path(path: &Path) -> Outcome<CString> {
    Ok(CString::new(path.as_os_str().as_encoded_bytes())?)
}

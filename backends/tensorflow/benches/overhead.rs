//! What the engine adds to a run of TensorFlow's C API, and what its first load takes.
//!
//!     cargo bench -p backend-tensorflow
//!
//! Both sides run the same fixtures in turns, one row at a time: the engine, tensors included, and a loop that calls
//! `TF_SessionRun` with a tensor made before it and throws away what comes out. Times are processor time of the
//! process, as TensorFlow works on threads of its own, and other processes do not count.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    hint::black_box,
    path::{Path, PathBuf},
    process::ExitCode,
    ptr,
    time::{Duration, Instant},
};

use backend::{Backend, Batch, Device, ModelSource, NamedTensor, Shape, Stop, Tensor};
use backend_tensorflow::{Options, TensorFlow};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::time::{ClockId, clock_gettime};

/// Turns of each side; the median of the ratios counts.
const TURNS: usize = 15;

/// A turn lasts so long.
const TURN: Duration = Duration::from_millis(100);

/// The goals: for small runs what may be added, in µs, and for others the largest ratio.
const MOST_ADDED: f64 = 3.0;
const LARGEST_RATIO: f64 = 1.05;

/// Opening the library and the first load, at most.
const FIRST_LOAD: Duration = Duration::from_millis(1500);

type Status = *mut c_void;

/// `TF_Output`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Output {
    operation: *mut c_void,
    index: c_int,
}

macro_rules! function {
    ($library:expr, $name:literal, fn($($argument:ty),* $(,)?) $(-> $result:ty)?) => {
        // SAFETY: the types are those of TensorFlow's c_api.h, and the library lives as long as the process.
        unsafe {
            let name = concat!($name, "\0").as_bytes();
            let found = $library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(name);
            *found.expect($name)
        }
    };
}

/// A session of the C API, with one input and one output.
struct Bare {
    run: Box<dyn Fn()>,
}

impl Bare {
    fn load(library: &'static Library, folder: &Path, ends: [&str; 2], input: &Tensor) -> Bare {
        let text = |it: &str| CString::new(it).expect("no NUL");
        let new = |name: &[u8]| {
            // SAFETY: functions of these names take nothing and give a pointer.
            unsafe {
                library.get::<unsafe extern "C" fn() -> *mut c_void>(name).expect("it is there")()
            }
        };
        let (status, options, graph) =
            (new(b"TF_NewStatus\0"), new(b"TF_NewSessionOptions\0"), new(b"TF_NewGraph\0"));
        let set = function!(library, "TF_SetConfig", fn(*mut c_void, *const c_void, usize, Status));
        let load = function!(
            library,
            "TF_LoadSessionFromSavedModel",
            fn(
                *mut c_void,
                *const c_void,
                *const c_char,
                *const *const c_char,
                c_int,
                *mut c_void,
                *mut c_void,
                Status,
            ) -> *mut c_void
        );
        let find = function!(
            library,
            "TF_GraphOperationByName",
            fn(*mut c_void, *const c_char) -> *mut c_void
        );
        let allocate = function!(
            library,
            "TF_AllocateTensor",
            fn(c_int, *const i64, c_int, usize) -> *mut c_void
        );
        let data = function!(library, "TF_TensorData", fn(*mut c_void) -> *mut c_void);
        let delete = function!(library, "TF_DeleteTensor", fn(*mut c_void));
        let run = function!(
            library,
            "TF_SessionRun",
            fn(
                *mut c_void,
                *const c_void,
                *const Output,
                *const *mut c_void,
                c_int,
                *const Output,
                *mut *mut c_void,
                c_int,
                *const c_void,
                c_int,
                *mut c_void,
                Status,
            )
        );
        let code = function!(library, "TF_GetCode", fn(Status) -> c_int);
        // One thread inside and one among operators, in pools of the session's own, as the engine has it.
        let config = [0x10, 1, 0x28, 1, 0x48, 1_u8];
        let (folder, tag) = (text(&folder.display().to_string()), text("serve"));
        let tags = [tag.as_ptr()];
        let bytes = input.to_bytes();
        let dims: Vec<i64> = input.shape().dims().iter().map(|it| *it as i64).collect();
        let dtype = if input.dtype() == backend::DataType::Fp32 { 1 } else { 9 };
        let [input, output] = ends.map(|it| {
            let (name, index) = it.split_once(':').expect("a name and a number");
            (text(name), index.parse::<c_int>().expect("a number"))
        });
        // SAFETY: all pointers are of the library, alive, and for the functions that they are handed to.
        let (session, feed, fetch, value) = unsafe {
            set(options, config.as_ptr().cast(), config.len(), status);
            let session = load(
                options,
                ptr::null(),
                folder.as_ptr(),
                tags.as_ptr(),
                1,
                graph,
                ptr::null_mut(),
                status,
            );
            assert_eq!(code(status), 0, "the model loads");
            let feed = Output { operation: find(graph, input.0.as_ptr()), index: input.1 };
            let fetch = Output { operation: find(graph, output.0.as_ptr()), index: output.1 };
            assert!(!feed.operation.is_null() && !fetch.operation.is_null(), "the graph has both");
            let value = allocate(dtype, dims.as_ptr(), dims.len() as c_int, bytes.len());
            ptr::copy_nonoverlapping(bytes.as_ptr(), data(value).cast(), bytes.len());
            (session, feed, fetch, value)
        };
        let run = move || {
            let mut result = ptr::null_mut();
            // SAFETY: as above; the result is this call's.
            unsafe {
                run(
                    session,
                    ptr::null(),
                    &feed,
                    &value,
                    1,
                    &fetch,
                    &mut result,
                    1,
                    ptr::null(),
                    0,
                    ptr::null_mut(),
                    status,
                );
                delete(black_box(result));
            }
        };
        Bare { run: Box::new(run) }
    }
}

fn computed() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// µs a call.
fn turn(mut call: impl FnMut()) -> f64 {
    let (began, before, mut calls) = (Instant::now(), computed(), 0);
    while calls < 3 || began.elapsed() < TURN {
        call();
        calls += 1;
    }
    (computed() - before).as_secs_f64() * 1e6 / f64::from(calls)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() -> ExitCode {
    backend_tensorflow::set_environment(true);
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let library = root.join("target/tensorflow/lib/libtensorflow_cc.so.2");
    if !library.is_file() {
        eprintln!("python3 backends/tensorflow/prepare.py has not been run");
        return ExitCode::FAILURE;
    }
    let engine = TensorFlow::new(Options { library: Some(library.clone()), ..Options::default() });
    let fixtures = root.join("tests/fixtures/savedmodels");
    let row = Tensor::from_vec(Shape::new(&[1, 8]), vec![0.5_f32; 8]).expect("its size");
    let rounds = Tensor::from_vec(Shape::new(&[]), vec![1_i64]).expect("its size");
    let began = Instant::now();
    let models = [
        ("keras", ["x", "output_0"], ["serving_default_x:0", "StatefulPartitionedCall_1:0"], row),
        ("rounds", ["rounds", "last"], ["serving_default_rounds:0", "PartitionedCall:0"], rounds),
    ];
    let mut fails = false;
    for (at, (name, [input, output], ends, tensor)) in models.into_iter().enumerate() {
        let folder = fixtures.join(name).join("1");
        let loading = Instant::now();
        let model = engine.load(&ModelSource::new(name, &folder)).expect("it loads");
        let mut instance = model.instantiate(Device::Cpu).expect("an instance");
        println!("{name}: loaded in {:.0} ms", loading.elapsed().as_secs_f64() * 1e3);
        if at == 0 {
            let took = began.elapsed();
            fails |= FIRST_LOAD < took;
            println!(
                "opening and the first load: {:.2} s, at most {FIRST_LOAD:?}",
                took.as_secs_f64()
            );
        }
        // SAFETY: it is open already, by the engine.
        let opened = unsafe { Library::open(Some(&library), RTLD_NOW | RTLD_LOCAL) };
        let opened: &'static Library = Box::leak(Box::new(opened.expect("it is open")));
        let bare = Bare::load(opened, &folder, ends, &tensor);
        let inputs = [NamedTensor { name: input.into(), tensor }];
        let (outputs, stop) = ([output.into()], Stop::new());
        let batch =
            Batch { inputs: &inputs, outputs: &outputs, rows: 1, signature: 0, stop: &stop };
        let mut run = || drop(black_box(instance.execute(&batch).expect("it runs")));
        (0..20).for_each(|_| (run(), (bare.run)()).1);
        let turns: Vec<(f64, f64)> =
            (0..TURNS).map(|_| (turn(&mut run), turn(&bare.run))).collect();
        let ratio = median(turns.iter().map(|it| it.0 / it.1).collect());
        let added = median(turns.iter().map(|it| it.0 - it.1).collect());
        let alone = median(turns.iter().map(|it| it.1).collect());
        let is_met = added <= MOST_ADDED || ratio <= LARGEST_RATIO;
        fails |= !is_met;
        println!("{name}: C API {alone:.1} µs, engine {added:+.1} µs, × {ratio:.3}, met: {is_met}");
    }
    if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

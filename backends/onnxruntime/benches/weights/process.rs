//! One measurement in a process of its own: this program, started again with what is asked as arguments. It
//! prints what it found on one line, and lives on until its standard input ends.

use std::{
    error::Error,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, BufRead, BufReader, Read},
    num::NonZeroUsize,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::{
    Backend, Batch, Device, Instance, Model, ModelSource, NamedTensor, Placement, Shape, Stop,
    Tensor,
};
use backend_onnxruntime::{OnnxRuntime, Options};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// The first argument of a process that measures.
pub(crate) const CHILD: &str = "measure";

/// What is measured.
pub(crate) struct Ask {
    pub(crate) model: PathBuf,
    /// Of the input, rows included.
    pub(crate) dims: Vec<usize>,
    pub(crate) cache: Option<PathBuf>,
    /// Load the model for each instance?
    pub(crate) own: bool,
    pub(crate) instances: usize,
    /// How long all instances run in loops. 0: not at all.
    pub(crate) seconds: f64,
}

/// What came out, in the order of the line.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Loading the model and making the first instance.
    pub(crate) load_ms: f64,
    pub(crate) load_cpu_ms: f64,
    pub(crate) first_run_ms: f64,
    /// Most that was resident up to the first run.
    pub(crate) peak_mib: f64,
    /// Making each further instance, on average.
    pub(crate) further_ms: f64,
    /// The process's share of memory when each instance has run.
    pub(crate) pss_mib: f64,
    pub(crate) runs_per_second: f64,
    pub(crate) run_cpu_ms: f64,
    /// A hash of the bits of the answer, which all instances gave.
    pub(crate) answer: u64,
}

/// Looks at the environment for ONNX Runtime before there are threads.
pub(crate) fn disable_telemetry() {
    backend_onnxruntime::disable_telemetry();
}

/// Starts a process, waits for what it finds and for its end.
pub(crate) fn run(ask: &Ask) -> Outcome<Found> {
    let mut process = start(ask, Stdio::null())?;
    let found = process.found()?;
    process.end()?;
    Ok(found)
}

/// A process that measures, or has done so.
pub(crate) struct Measuring(Child);

/// Starts a process. With an `input` that is piped it lives on until [`Measuring::end`].
pub(crate) fn start(ask: &Ask, input: Stdio) -> Outcome<Measuring> {
    let dims: Vec<String> = ask.dims.iter().map(usize::to_string).collect();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).arg(&ask.model).arg(dims.join("x"));
    command.arg(ask.cache.clone().unwrap_or_default());
    command.args([ask.own.to_string(), ask.instances.to_string(), ask.seconds.to_string()]);
    Ok(Measuring(command.stdin(input).stdout(Stdio::piped()).spawn()?))
}

impl Measuring {
    pub(crate) fn found(&mut self) -> Outcome<Found> {
        let mut line = String::new();
        let output = self.0.stdout.take().ok_or("its output is taken")?;
        BufReader::new(output).read_line(&mut line)?;
        let (answer, numbers) = line.trim().split_once(' ').ok_or("it measured nothing")?;
        let numbers: Vec<f64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let &[
            load_ms,
            load_cpu_ms,
            first_run_ms,
            peak_mib,
            further_ms,
            pss_mib,
            runs_per_second,
            run_cpu_ms,
        ] = &*numbers
        else {
            return Err(format!("it measured '{line}'").into());
        };
        Ok(Found {
            load_ms,
            load_cpu_ms,
            first_run_ms,
            peak_mib,
            further_ms,
            pss_mib,
            runs_per_second,
            run_cpu_ms,
            answer: answer.parse()?,
        })
    }

    pub(crate) fn end(mut self) -> Outcome<()> {
        drop(self.0.stdin.take());
        match self.0.wait()?.success() {
            true => Ok(()),
            false => Err("a measuring process failed".into()),
        }
    }
}

/// The other side: measures what the arguments ask.
pub(crate) fn child(arguments: &[String]) -> Outcome<()> {
    let [model, dims, cache, own, instances, seconds] = arguments else {
        return Err(format!("arguments of a measuring process: {arguments:?}").into());
    };
    let ask = Ask {
        model: model.into(),
        dims: dims.split('x').map(str::parse).collect::<Result<_, _>>()?,
        cache: Some(PathBuf::from(cache)).filter(|_| !cache.is_empty()),
        own: own.parse()?,
        instances: instances.parse()?,
        seconds: seconds.parse()?,
    };
    let (found, _instances) = measure(&ask)?;
    println!(
        "{} {} {} {} {} {} {} {} {}",
        found.answer,
        found.load_ms,
        found.load_cpu_ms,
        found.first_run_ms,
        found.peak_mib,
        found.further_ms,
        found.pss_mib,
        found.runs_per_second,
        found.run_cpu_ms
    );
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The instances are handed over so that they live as long as the process.
fn measure(ask: &Ask) -> Outcome<(Found, Vec<Box<dyn Instance>>)> {
    let options = Options { model_cache_dir: ask.cache.clone(), ..Options::default() };
    let engine = OnnxRuntime::new(options);
    engine.open()?;
    let input = input(&ask.dims)?;
    let mut found = Found::default();

    let (begin, cpu) = (Instant::now(), processor_ms()?);
    let model = load(&engine, ask)?;
    let mut instances = vec![model.instantiate(Device::Cpu)?];
    found.load_ms = millis(begin.elapsed());
    found.load_cpu_ms = processor_ms()? - cpu;
    let begin = Instant::now();
    found.answer = answer(&mut *instances[0], &input)?;
    found.first_run_ms = millis(begin.elapsed());
    found.peak_mib = memory("/proc/self/status", "VmHWM:")?;

    let begin = Instant::now();
    for _ in 1..ask.instances {
        let model = if ask.own { load(&engine, ask)? } else { model.clone() };
        instances.push(model.instantiate(Device::Cpu)?);
    }
    found.further_ms = millis(begin.elapsed()) / (ask.instances - 1).max(1) as f64;
    let answers = side_by_side(&mut instances, |it| Ok(vec![answer(it, &input)?]))?;
    if answers.iter().any(|it| *it != found.answer) {
        return Err("instances of one process answer differently".into());
    }
    found.pss_mib = memory("/proc/self/smaps_rollup", "Pss:")?;

    if ask.seconds > 0.0 {
        let (begin, cpu) = (Instant::now(), processor_ms()?);
        let runs = side_by_side(&mut instances, |it| {
            let mut runs = 0;
            while begin.elapsed().as_secs_f64() < ask.seconds {
                execute(it, &input)?;
                runs += 1;
            }
            Ok(vec![runs])
        })?;
        let runs = runs.iter().sum::<u64>() as f64;
        found.runs_per_second = runs / begin.elapsed().as_secs_f64();
        found.run_cpu_ms = (processor_ms()? - cpu) / runs;
    }
    Ok((found, instances))
}

/// Does that on all instances at the same time, each on a thread of its own.
fn side_by_side(
    instances: &mut [Box<dyn Instance>],
    work: impl Fn(&mut dyn Instance) -> Outcome<Vec<u64>> + Sync,
) -> Outcome<Vec<u64>> {
    let parts: Vec<Result<Vec<u64>, String>> = thread::scope(|scope| {
        let work = &work;
        let one = |it| scope.spawn(move || work(it).map_err(|error| error.to_string()));
        let threads: Vec<_> = instances.iter_mut().map(|it| one(&mut **it)).collect();
        let join = |it: thread::ScopedJoinHandle<'_, _>| it.join();
        threads.into_iter().map(|it| join(it).unwrap_or(Err("it panicked".to_owned()))).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}

fn load(engine: &OnnxRuntime, ask: &Ask) -> Outcome<Arc<dyn Model>> {
    let instances = NonZeroUsize::new(ask.instances).ok_or("no instances")?;
    let placements = vec![Placement { device: Device::Cpu, instances }];
    let source = ModelSource { placements, ..ModelSource::new("measured", &ask.model) };
    Ok(engine.load(&source)?)
}

fn input(dims: &[usize]) -> Outcome<[NamedTensor; 1]> {
    let count = dims.iter().product();
    let data: Vec<f32> = (0..count).map(|it| (it * 37 % 101) as f32 / 50.0 - 1.0).collect();
    Ok([NamedTensor { name: "x".into(), tensor: Tensor::from_vec(Shape::new(dims), data)? }])
}

fn execute(instance: &mut dyn Instance, input: &[NamedTensor]) -> Outcome<Vec<NamedTensor>> {
    let (outputs, stop) = (["y".into()], Stop::new());
    Ok(instance.execute(&Batch {
        signature: 0,
        inputs: input,
        outputs: &outputs,
        rows: 1,
        stop: &stop,
    })?)
}

fn answer(instance: &mut dyn Instance, input: &[NamedTensor]) -> Outcome<u64> {
    let mut hasher = DefaultHasher::new();
    for output in execute(instance, input)? {
        output.tensor.to_bytes().hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// A line of such a file, which is in KiB, as MiB.
fn memory(file: &str, name: &str) -> Outcome<f64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|it| it.strip_prefix(name)).ok_or(format!("no {name}"))?;
    let number = line.split_whitespace().next().ok_or(format!("{name} has no number"))?;
    Ok(number.parse::<f64>()? / 1024.0)
}

/// Processor time of this process, in ticks of 10 ms.
fn processor_ms() -> Outcome<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The second field, the program's name in brackets, may hold blanks.
    let fields = text.rsplit_once(')').ok_or("stat has no name")?.1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<f64>().ok());
    let (user, system) = (ticks(11).ok_or("no user time")?, ticks(12).ok_or("no system time")?);
    Ok((user + system) * 10.0)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

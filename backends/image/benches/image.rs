//! What an image costs on a processor, whatever else runs: decoding, resizing by filter and size, values, all of it.
//!
//!     cargo bench -p backend-image --bench image
//!
//! `MUSTER_TEST_JPEG_LIBRARY` names libjpeg-turbo where it does not lie in the system. `MUSTER_PYTHON` names a Python
//! with Pillow and NumPy, whose times are then measured in turns with these, on the same image.

use std::{
    hint::black_box,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use backend_image::{
    Decoder, Filter, JpegLibrary, Limits, Processor, Rgb, letterbox::Letterbox, resize,
    resize_bilinear,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Rounds of each measurement; the median counts.
const ROUNDS: usize = 25;

/// The other side: `peer.py`, which does what it is told and answers with milliseconds.
struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Also gives the image that both sides take, as JPEG.
    fn start() -> Option<(Peer, Vec<u8>)> {
        let python = std::env::var_os("MUSTER_PYTHON")?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peer.py");
        let file = std::env::temp_dir().join(format!("muster-bench-{}.jpg", std::process::id()));
        let mut process = Command::new(python)
            .args([script.as_ref(), file.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Python that was named");
        let input = process.stdin.take().expect("it is piped");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut peer = Peer { process, input, output };
        println!("peer: {}", peer.line());
        let bytes = std::fs::read(&file).expect("the peer has written it");
        std::fs::remove_file(file).expect("it is there");
        Some((peer, bytes))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer answers");
        line.trim().to_owned()
    }

    fn milliseconds(&mut self, what: &str) -> Option<f64> {
        writeln!(self.input, "{what}").expect("the peer listens");
        self.line().parse().ok()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What this thread has computed so far. Other processes do not count.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One line: our time, the peer's, and how many times ours goes into it.
fn row<T>(peer: &mut Option<Peer>, what: &str, mut run: impl FnMut() -> T) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = computed();
        black_box(run());
        ours.push((computed() - begin).as_secs_f64() * 1e3);
        theirs.extend(peer.as_mut().and_then(|it| it.milliseconds(what)));
    }
    let ours = median(ours);
    let theirs = (!theirs.is_empty()).then(|| median(theirs));
    let theirs = theirs.map_or(String::new(), |it| format!("{it:9.2} ms   x {:.2}", it / ours));
    println!("{what:<28} {ours:8.2} ms {theirs}");
}

/// Waves, where there is no other image: decoding is not measured then.
fn waves(width: u32, height: u32) -> Rgb {
    let mut image = Rgb::new(width, height);
    for (at, value) in image.pixels.iter_mut().enumerate() {
        *value = ((at / 7) ^ (at / 5760)) as u8;
    }
    image
}

fn main() {
    let library = std::env::var_os("MUSTER_TEST_JPEG_LIBRARY");
    let library = library.map_or(JpegLibrary::Auto, |it| JpegLibrary::File(it.into()));
    let exact = Decoder::open(&library).expect("the library that was named");
    let own = Decoder::open(&JpegLibrary::None).expect("nothing to open");
    println!("JPEG by {}", exact.jpeg());
    let (mut peer, jpeg) =
        Peer::start().map_or((None, None), |(peer, jpeg)| (Some(peer), Some(jpeg)));
    println!("{:<28} {:>11} {:>12}   ratio", "1920 x 1080", "muster", "Python");

    let limits = Limits::default();
    let image = jpeg
        .as_ref()
        .map_or_else(|| waves(1920, 1080), |it| exact.decode(it, &limits).expect("an image"));
    if let Some(jpeg) = &jpeg {
        row(&mut peer, "decode", || exact.decode(jpeg, &limits));
        row(&mut None, "decode by zune-jpeg", || own.decode(jpeg, &limits));
    }
    for (width, height) in [(224, 224), (455, 256), (640, 360), (1422, 800)] {
        for filter in Filter::ALL {
            let what = format!("resize {width} {height} {}", filter.name());
            row(&mut peer, &what, || resize(&image, width, height, filter));
        }
    }
    row(&mut peer, "opencv 640 360", || resize_bilinear(&image, 640, 360));
    let processor = |config| Processor::from_config(&config).expect("a processor");
    let vit = processor(json!({"image_processor_type": "ViTImageProcessor"}));
    let small = resize(&image, 224, 224, Filter::Bilinear);
    row(&mut peer, "values 224", || vit.apply(&small));
    let clip = processor(json!({"image_processor_type": "CLIPImageProcessor"}));
    let letterbox = Letterbox::fixed(640, 640);
    row(&mut peer, "letterbox 640", || letterbox.apply(&image));
    if let Some(jpeg) = &jpeg {
        let decoded = || exact.decode(jpeg, &limits).expect("an image");
        row(&mut peer, "all of ViT", || vit.apply(&decoded()));
        row(&mut peer, "all of CLIP", || clip.apply(&decoded()));
        row(&mut peer, "all of YOLO", || letterbox.apply(&decoded()));
    }
}

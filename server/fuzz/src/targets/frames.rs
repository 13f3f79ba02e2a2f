//! What a worker sends to the server, and writes into the memory that they share.

use backend::DataType;
use formats::expansion::Limit;
use isolation::peer::{Awaited, Peer};

use super::Target;
use crate::{oracle, seen::Seen};

/// Bytes of inputs of a lane, and as many of outputs.
const HALF: usize = 1 << 12;

/// What a frame takes: lists whose length is announced, of which a megabyte is made at once; tensors of no bytes.
const BOUND: Limit = Limit { free: 4 << 20, ratio: 200, most: usize::MAX };

/// The length of the memory in front of the frames is counted in so many bytes.
const BLOCK: usize = 16;

/// Frames of a worker. The first byte says what the server waits for, the second one how long the memory is that
/// follows, in front of the frames.
pub(super) const FRAMES: Target = Target {
    name: "frames",
    decode: |data| {
        let mut seen = Seen::default();
        let [awaited, blocks, rest @ ..] = data else { return seen };
        let awaited = match awaited % 3 {
            0 => Awaited::Load,
            1 => Awaited::Opened,
            _ => Awaited::Answer,
        };
        let (memory, sent) = rest.split_at(rest.len().min(usize::from(*blocks) * BLOCK));
        let mut peer = Peer::new(HALF).expect("there is memory for it");
        let mut frames = 0usize;
        oracle::within(BOUND, data.len(), || {
            let end = peer.read(awaited, memory, sent, |outputs| {
                frames += 1;
                let bytes: usize = outputs.iter().map(|it| it.tensor.byte_len()).sum();
                assert!(bytes <= 2 * HALF, "no more than there is room for");
                for output in &outputs {
                    seen.fact((output.tensor.dtype(), output.tensor.shape().dims().len()));
                    if output.tensor.dtype() == DataType::Bytes {
                        assert_eq!(output.tensor.strings().count(), output.tensor.elements());
                    }
                }
            });
            seen.result(Err::<(), _>(end));
        });
        seen.fact(frames.min(4));
        seen
    },
    examples,
    words: &["\u{0}", "\u{1}", "\u{2}", "\u{7f}", "\u{80}\u{1}", "y", "\u{80}\u{20}"],
};

/// Unsigned numbers, texts and lists as postcard writes them.
#[derive(Default, Clone)]
struct Written(Vec<u8>);

impl Written {
    fn number(mut self, mut number: u64) -> Written {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    fn text(self, text: &str) -> Written {
        let mut written = self.number(text.len() as u64);
        written.0.extend(text.as_bytes());
        written
    }

    /// A tensor in the memory of a lane.
    fn placed(self, dtype: DataType, dims: &[u64], at: usize, len: u64) -> Written {
        let written = self.text("y").dtype(dtype).number(dims.len() as u64);
        let written = dims.iter().fold(written, |it, dim| it.number(*dim));
        written.number(at as u64).number(len)
    }

    fn dtype(self, dtype: DataType) -> Written {
        let at = DataType::ALL.iter().position(|it| *it == dtype);
        self.number(at.expect("it is one of all") as u64)
    }

    /// An input or output of a model: its name, its type, its dimensions, and two that say no.
    fn port(self, name: &str, dims: &[Option<u64>]) -> Written {
        let written = self.text(name).dtype(DataType::Fp32).number(dims.len() as u64);
        let dim = |written: Written, dim: &Option<u64>| match dim {
            Some(dim) => written.number(1).number(*dim),
            None => written.number(0),
        };
        dims.iter().fold(written, dim).number(0).number(0)
    }

    /// A frame.
    fn framed(self) -> Vec<u8> {
        [&(self.0.len() as u32).to_le_bytes(), &self.0[..]].concat()
    }
}

fn examples() -> Vec<Vec<u8>> {
    let begun = Written::default;
    let memory = [&[4, 0, 0, 0][..], b"text", &[4, 0, 0, 0], b"more"].concat();
    let answer = |frames: &[Written]| {
        let frames: Vec<u8> = frames.iter().flat_map(|it| it.clone().framed()).collect();
        [&[2, 1], &memory[..], &frames].concat()
    };
    let failed = || begun().number(1).number(4).text("it failed");
    // The run, and seconds and nanoseconds that the engine took.
    let run = |number| begun().number(number).number(0).number(5000);
    let ok = |number| run(number).number(0);
    let loaded = begun()
        .number(0)
        .number(1)
        .number(1)
        .port("x", &[None, Some(3)])
        .number(1)
        .port("y", &[None])
        // Labels of an output, names of an input's columns, and what the file says.
        .number(1)
        .text("y")
        .number(2)
        .text("cat")
        .text("dog")
        .number(1)
        .text("x")
        .number(2)
        .text("width")
        .text("height")
        .number(1)
        .text("task")
        .text("detect")
        // No signatures; large outputs; notes; two that say no; no warm-up; a version.
        .number(0)
        .number(1)
        .text("y")
        .number(1 << 20)
        .number(1)
        .text("key")
        .text("value")
        .number(0)
        .number(1)
        .number(0)
        .number(1)
        .text("1.0");
    vec![
        [&[0, 0], &loaded.framed()[..]].concat(),
        [&[0, 0], &failed().framed()[..]].concat(),
        [&[1, 0], &begun().number(0).framed()[..]].concat(),
        [&[1, 0], &failed().framed()[..]].concat(),
        answer(&[ok(0).number(1).placed(DataType::Bytes, &[2], HALF, 16)]),
        answer(&[ok(0).number(1).placed(DataType::Fp32, &[2, 2], HALF, 16), ok(1).number(0)]),
        answer(&[ok(3).number(2).placed(DataType::Fp32, &[1, 0], 0, 0).placed(
            DataType::Bool,
            &[64],
            2 * HALF - 64,
            64,
        )]),
        answer(&[run(7).number(1).number(5).text("it panicked")]),
    ]
}

//! Makes inputs from examples: bits, bytes, numbers, words of the format, parts of other examples.

/// Longest input that is made.
const LONGEST: usize = 1 << 16;

/// Most changes to one input.
const CHANGES: usize = 6;

/// Numbers at which arithmetic goes wrong.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Chance, the same for the same seed.
pub struct Chance(u64);

impl Chance {
    /// Begins with a seed.
    pub fn of(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, which may be 0 and then is the result.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// One of them; `None` where there is none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}

/// An input made from one of `examples`. `words` are those of the format.
pub fn mutated(examples: &[Vec<u8>], words: &[&str], chance: &mut Chance) -> Vec<u8> {
    let mut data = chance.one_of(examples).cloned().unwrap_or_default();
    for _ in 0..=chance.below(CHANGES) {
        change(&mut data, examples, words, chance);
    }
    data.truncate(LONGEST);
    data
}

fn change(data: &mut Vec<u8>, examples: &[Vec<u8>], words: &[&str], chance: &mut Chance) {
    let at = chance.below(data.len() + 1);
    let span = at..data.len().min(at + 1 + chance.below(16));
    match chance.below(12) {
        0 => data.truncate(at),
        1 => drop(data.drain(span)),
        2 => {
            // A part again and again.
            let part = data[span].repeat(1 + chance.below(300));
            insert(data, at, &part);
        }
        3 => {
            let number = number(chance);
            insert(data, at, &number);
        }
        4 => {
            let number = number(chance);
            overwrite(data, at, &number);
        }
        5 | 6 => {
            if let Some(word) = chance.one_of(words) {
                insert(data, at, word.as_bytes());
            }
        }
        7 => {
            if let Some(word) = chance.one_of(words) {
                overwrite(data, at, word.as_bytes());
            }
        }
        8 => {
            // The end of another example.
            if let Some(other) = chance.one_of(examples) {
                let from = chance.below(other.len() + 1);
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
        }
        9 => {
            if let Some(other) = chance.one_of(examples) {
                let from = chance.below(other.len() + 1);
                let until = other.len().min(from + chance.below(64));
                insert(data, at, &other[from..until]);
            }
        }
        10 => {
            if let Some(byte) = data.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        _ => {
            let byte = chance.below(256) as u8;
            overwrite(data, at, &[byte]);
        }
    }
}

/// A number in some width and order, or as text.
fn number(chance: &mut Chance) -> Vec<u8> {
    let number = chance.one_of(&NUMBERS).copied().unwrap_or_default();
    let number = number.wrapping_add(chance.below(3) as u64).wrapping_sub(1);
    let width = [1, 2, 4, 8][chance.below(4)];
    match chance.below(3) {
        0 => number.to_le_bytes()[..width].to_vec(),
        1 => number.to_be_bytes()[8 - width..].to_vec(),
        _ => number.to_string().into_bytes(),
    }
}

fn insert(data: &mut Vec<u8>, at: usize, part: &[u8]) {
    data.splice(at..at, part.iter().copied());
}

fn overwrite(data: &mut Vec<u8>, at: usize, part: &[u8]) {
    let until = data.len().min(at + part.len());
    data.splice(at..until, part.iter().copied());
}

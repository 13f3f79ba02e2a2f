//! What a RecordIO body becomes, from a walk over its frames and over the first record, without decoding either.

use inference::signature::Signature;
use prost::encoding::decode_varint;

use super::frames::Frames;
use crate::{
    expansion::{self, DOUBLING, Elements, MOST_ELEMENTS},
    matrix::{self, MissingValue},
};

/// Bytes that a decoded record takes at most for each byte of it: a position of one byte becomes eight, in a list that
/// grows by doubling, and stands in the list of the row's entries; a label of seven bytes is a node of a map.
const RECORD: usize = 40;

/// Bytes that [`super::decode`] takes at most beside the body. All rows have as many numbers as the first one, or as
/// many as the model, where they may have fewer columns than that.
pub(super) fn bound(signature: &Signature, missing: MissingValue, body: &[u8]) -> usize {
    let (mut frames, mut largest, mut first) = (0usize, 0, None);
    for frame in Frames::new(body).map_while(Result::ok) {
        frames += 1;
        largest = largest.max(frame.len());
        first.get_or_insert(frame);
    }
    let Some(first) = first else { return 0 };
    let size = Elements::of(signature).size.max(1);
    let limit = matrix::limit(matrix::width_of(signature));
    let sparse = (limit.bytes(body.len()) / size).min(MOST_ELEMENTS);
    let width = width(signature, first);
    // Dense rows are not bounded by what sparse ones may become, but have a byte for each number.
    let elements = frames.saturating_mul(width).min(sparse.saturating_add(body.len()));
    let given = elements
        .saturating_add(largest)
        .saturating_mul(DOUBLING * size)
        .saturating_add(largest.saturating_mul(RECORD))
        .saturating_add(expansion::of_ports(signature));
    match (missing, matrix::width_of(signature)) {
        (MissingValue::Nan, Some(width)) => {
            given.max(matrix::bound(signature, body.len(), frames, width))
        }
        _ => given,
    }
}

/// The most numbers that the row of a record has.
fn width(signature: &Signature, record: &[u8]) -> usize {
    let (mut given, mut shape) = (0usize, None);
    let features = Fields::of(record).filter_map(|it| it.part(1));
    let values = features.flat_map(Fields::of).filter_map(|it| it.part(2));
    for tensor in values.flat_map(Fields::of) {
        let Field::Part(kind, tensor) = tensor else { continue };
        // Floats have four bytes or eight, integers one at least.
        let least = match kind {
            2 => 4,
            3 => 8,
            _ => 1,
        };
        for field in Fields::of(tensor) {
            match field {
                Field::Part(1, values) => {
                    given = given.saturating_add(values.len().div_ceil(least))
                }
                Field::Number(1, _) | Field::Fixed(1) => given = given.saturating_add(1),
                Field::Part(3, mut sizes) => {
                    while let Ok(size) = decode_varint(&mut sizes) {
                        times(&mut shape, size);
                    }
                }
                Field::Number(3, size) => times(&mut shape, size),
                Field::Part(..) | Field::Number(..) | Field::Fixed(_) => {}
            }
        }
    }
    given.max(shape.or(matrix::width_of(signature)).unwrap_or(0))
}

/// Several tensors may be in a record, of which one is the row: none makes the product smaller.
fn times(product: &mut Option<usize>, size: u64) {
    let size = usize::try_from(size).unwrap_or(usize::MAX).max(1);
    *product = Some(product.unwrap_or(1).saturating_mul(size));
}

/// A field of a message.
enum Field<'a> {
    Number(u64, u64),
    Fixed(u64),
    Part(u64, &'a [u8]),
}

impl<'a> Field<'a> {
    /// The bytes of the field of that number.
    fn part(self, number: u64) -> Option<&'a [u8]> {
        match self {
            Field::Part(it, bytes) if it == number => Some(bytes),
            Field::Part(..) | Field::Number(..) | Field::Fixed(_) => None,
        }
    }
}

/// The fields of a message, up to the first that is broken.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn of(message: &'a [u8]) -> Fields<'a> {
        Fields(message)
    }

    fn skip(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (skipped, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(skipped)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let key = decode_varint(&mut self.0).ok()?;
        let number = key >> 3;
        match key & 7 {
            0 => decode_varint(&mut self.0).ok().map(|it| Field::Number(number, it)),
            1 => self.skip(8).map(|_| Field::Fixed(number)),
            2 => {
                let length = usize::try_from(decode_varint(&mut self.0).ok()?).ok()?;
                self.skip(length).map(|it| Field::Part(number, it))
            }
            5 => self.skip(4).map(|_| Field::Fixed(number)),
            // Groups, which no such record has: decoding reads past one, and so does this.
            3 | 4 => Some(Field::Fixed(0)),
            _ => None,
        }
    }
}

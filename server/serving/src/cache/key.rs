//! What an answer is found by: a digest of everything that it depends on. Pure.
//!
//! BLAKE3, of 256 bits, and not a faster hash without a claim against collisions: hits are not compared with the
//! request that made them. A client that can make two requests collide can make the server give one client the answer
//! meant for another. In Redis, keys are shared by processes, so that a secret one would not do either.

use backend::Tensor;

/// The digest. Requests with equal ones have equal answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(super) [u8; 32]);

/// Takes in what an answer depends on, part by part. Each part says how long it is, so that no two lists of parts are
/// alike.
#[derive(Default)]
pub struct KeyBuilder(blake3::Hasher);

impl KeyBuilder {
    /// A number.
    pub fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    /// Bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// A tensor: type, shape and elements, in however many pieces those are.
    pub fn tensor(&mut self, tensor: &Tensor) {
        self.text(tensor.dtype().name());
        let dims = tensor.shape().dims();
        self.number(dims.len() as u64);
        dims.iter().for_each(|it| self.number(*it as u64));
        self.number(tensor.byte_len() as u64);
        for segment in tensor.segments() {
            self.0.update(segment);
        }
    }

    /// The key of all of them.
    pub fn finish(&self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;

    fn key(build: impl FnOnce(&mut KeyBuilder)) -> Key {
        let mut key = KeyBuilder::default();
        build(&mut key);
        key.finish()
    }

    fn floats(shape: &[usize], values: &[f32]) -> Tensor {
        Tensor::from_vec(Shape::new(shape), values.to_vec()).unwrap()
    }

    #[test]
    fn pieces_do_not_matter_and_everything_else_does() {
        let (one, two) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[1, 2], &[3.0, 4.0]));
        let scattered = Tensor::concat([&one, &two]).unwrap();
        let whole = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let of = |it: &Tensor| key(|key| key.tensor(it));
        assert_eq!(of(&scattered), of(&whole));
        let integers =
            Tensor::new(backend::DataType::Int32, Shape::new(&[2, 2]), whole.to_bytes()).unwrap();
        for other in [floats(&[4, 1], &[1.0, 2.0, 3.0, 4.0]), floats(&[2, 2], &[0.0; 4]), integers]
        {
            assert_ne!(of(&whole), of(&other));
        }
    }

    #[test]
    fn what_one_part_says_cannot_be_said_by_two() {
        let split = |a: &str, b: &str| {
            key(|key| {
                key.text(a);
                key.text(b);
            })
        };
        assert_ne!(split("ab", "c"), split("a", "bc"));
    }
}

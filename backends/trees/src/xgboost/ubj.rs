//! UBJSON as XGBoost writes it, read value by value. Nothing recurses but the caller's own calls, which are a few.

use crate::{
    error::FormatError,
    limits,
    xgboost::source::{Number, Source},
};

/// In memory numbers may take so many times what they do in the file, where there are more than [`SMALL`]. XGBoost
/// writes none that take more.
const GROWTH: usize = 4;
const SMALL: usize = 1 << 20;

/// Bytes of UBJSON, and a place in them.
pub(super) struct Ubj<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// The type of the next value, where its array says it.
    given: Option<u8>,
}

/// An array or an object that is open.
#[derive(Clone, Copy)]
struct Container {
    /// The type of all elements, where they have none of their own.
    of: Option<u8>,
    /// Elements that follow; `None` where a bracket ends them.
    left: Option<usize>,
    end: u8,
}

impl<'a> Ubj<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Ubj<'a> {
        Ubj { bytes, at: 0, depth: 0, given: None }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| FormatError::past_the_end("a value", self.at))?;
        self.at += length;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The type of the next value.
    fn marker(&mut self) -> Result<u8, FormatError> {
        if let Some(given) = self.given.take() {
            return Ok(given);
        }
        loop {
            match self.fixed::<1>()?[0] {
                b'N' => {}
                marker => return Ok(marker),
            }
        }
    }

    fn integer(&mut self, marker: u8) -> Result<Option<i64>, FormatError> {
        Ok(Some(match marker {
            b'i' => i64::from(i8::from_be_bytes(self.fixed()?)),
            b'U' => i64::from(self.fixed::<1>()?[0]),
            b'I' => i64::from(i16::from_be_bytes(self.fixed()?)),
            b'l' => i64::from(i32::from_be_bytes(self.fixed()?)),
            b'L' => i64::from_be_bytes(self.fixed()?),
            _ => return Ok(None),
        }))
    }

    fn float(&mut self, marker: u8) -> Result<Option<f64>, FormatError> {
        Ok(Some(match marker {
            b'd' => f64::from(f32::from_be_bytes(self.fixed()?)),
            b'D' => f64::from_be_bytes(self.fixed()?),
            _ => return Ok(None),
        }))
    }

    /// A length, which must not be more than the bytes that are left.
    fn length(&mut self, what: &str) -> Result<usize, FormatError> {
        let start = self.at;
        let marker = self.fixed::<1>()?[0];
        let Some(length) = self.integer(marker)? else {
            let found = char::from(marker);
            return Err(self.problem(format!("expected a length, found {found:?}")));
        };
        match usize::try_from(length).ok().filter(|it| *it <= self.bytes.len() - self.at) {
            Some(length) => Ok(length),
            None => Err(FormatError::past_the_end(format!("{what} of length {length}"), start)),
        }
    }

    fn raw_text(&mut self) -> Result<&'a str, FormatError> {
        let length = self.length("a text")?;
        let bytes = self.take(length)?;
        str::from_utf8(bytes).map_err(|_| self.problem("a text that is no UTF-8".into()))
    }

    /// What stands behind the bracket: a type and a number of elements, or neither.
    fn open(&mut self, marker: u8) -> Result<Container, FormatError> {
        let end = match marker {
            b'[' => b']',
            b'{' => b'}',
            _ => {
                let found = char::from(marker);
                return Err(self.problem(format!("expected '[' or '{{', found {found:?}")));
            }
        };
        self.depth += 1;
        if limits::NESTING < self.depth {
            return Err(self.problem(format!("more than {} brackets are open", limits::NESTING)));
        }
        let mut of = None;
        if self.peek() == Some(b'$') {
            self.at += 1;
            let kind = self.fixed::<1>()?[0];
            // Each element takes a byte or more, so that the number of them is bounded by the file.
            if !b"iUIlLdDCS[{".contains(&kind) {
                let kind = char::from(kind);
                return Err(self.problem(format!("{kind:?} is no type of elements")));
            }
            if self.peek() != Some(b'#') {
                return Err(self.problem("a type of elements without their number".into()));
            }
            of = Some(kind);
        }
        let mut left = None;
        if self.peek() == Some(b'#') {
            self.at += 1;
            left = Some(self.length("an array")?);
        }
        Ok(Container { of, left, end })
    }

    /// Is there another element? Goes behind the bracket where there is none.
    fn another(&mut self, container: &mut Container) -> Result<bool, FormatError> {
        let is_there = match &mut container.left {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => {
                while self.peek() == Some(b'N') {
                    self.at += 1;
                }
                match self.peek() == Some(container.end) {
                    true => {
                        self.at += 1;
                        false
                    }
                    false => true,
                }
            }
        };
        match is_there {
            true => self.given = container.of,
            false => self.depth -= 1,
        }
        Ok(is_there)
    }

    fn number<N: Number>(&mut self, marker: u8) -> Result<N, FormatError> {
        let start = self.at;
        let number = match marker {
            b'T' => N::of_integer(1),
            b'F' => N::of_integer(0),
            _ => match self.integer(marker)? {
                Some(integer) => N::of_integer(integer),
                None => self.float(marker)?.and_then(N::of_float),
            },
        };
        number.ok_or_else(|| {
            FormatError::new(format!("the value at offset {start} is not {}", N::WHAT))
        })
    }
}

/// Bytes of a value of that type, if all of its values have the same.
fn size_of_type(marker: u8) -> Option<usize> {
    match marker {
        b'i' | b'U' | b'C' => Some(1),
        b'I' => Some(2),
        b'l' | b'd' => Some(4),
        b'L' | b'D' => Some(8),
        _ => None,
    }
}

impl Source for Ubj<'_> {
    fn object(
        &mut self,
        mut visit: impl FnMut(&mut Self, &str) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let marker = self.marker()?;
        if marker != b'{' {
            let found = char::from(marker);
            return Err(self.problem(format!("expected an object, found {found:?}")));
        }
        let mut container = self.open(marker)?;
        while self.another(&mut container)? {
            let given = self.given.take();
            let key = self.raw_text()?;
            self.given = given;
            visit(self, key)?;
        }
        Ok(())
    }

    fn array(
        &mut self,
        mut visit: impl FnMut(&mut Self) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let marker = self.marker()?;
        if marker != b'[' {
            let found = char::from(marker);
            return Err(self.problem(format!("expected an array, found {found:?}")));
        }
        let mut container = self.open(marker)?;
        while self.another(&mut container)? {
            visit(self)?;
        }
        Ok(())
    }

    fn numbers<N: Number>(&mut self) -> Result<Vec<N>, FormatError> {
        let marker = self.marker()?;
        if marker != b'[' {
            let found = char::from(marker);
            return Err(self.problem(format!("expected an array of numbers, found {found:?}")));
        }
        let start = self.at;
        let mut container = self.open(marker)?;
        let size = container.of.and_then(size_of_type).unwrap_or(1);
        let length = container.left.unwrap_or(0);
        if (self.bytes.len() - self.at) / size < length {
            let what = format!("an array of {length} numbers");
            return Err(FormatError::past_the_end(what, start));
        }
        let in_memory = size_of::<N>();
        if SMALL < length && GROWTH * size < in_memory {
            return Err(self.problem(format!(
                "{length} numbers of {size} bytes that would take {in_memory} each"
            )));
        }
        let mut numbers = Vec::with_capacity(length);
        while self.another(&mut container)? {
            let marker = self.marker()?;
            numbers.push(self.number(marker)?);
        }
        numbers.shrink_to_fit();
        Ok(numbers)
    }

    fn text(&mut self) -> Result<String, FormatError> {
        match self.marker()? {
            b'S' => Ok(self.raw_text()?.to_owned()),
            marker => match self.integer(marker)? {
                Some(integer) => Ok(integer.to_string()),
                None => match self.float(marker)? {
                    Some(float) => Ok(float.to_string()),
                    None => {
                        let found = char::from(marker);
                        Err(self.problem(format!("expected a text, found {found:?}")))
                    }
                },
            },
        }
    }

    fn skip(&mut self) -> Result<(), FormatError> {
        let mut open: Vec<Container> = Vec::new();
        loop {
            match self.marker()? {
                b'T' | b'F' | b'Z' => {}
                b'S' => drop(self.raw_text()?),
                marker @ (b'[' | b'{') => {
                    let start = self.at;
                    let mut container = self.open(marker)?;
                    let size = container.of.and_then(size_of_type);
                    if let (b'[', Some(size), Some(length)) = (marker, size, container.left) {
                        let bytes = length.checked_mul(size);
                        let bytes = bytes.filter(|it| *it <= self.bytes.len() - self.at);
                        let what = || format!("an array of {length} numbers");
                        self.at += bytes.ok_or_else(|| FormatError::past_the_end(what(), start))?;
                        container.left = Some(0);
                    }
                    open.push(container);
                }
                marker => {
                    let Some(size) = size_of_type(marker) else {
                        let found = char::from(marker);
                        return Err(self.problem(format!("expected a value, found {found:?}")));
                    };
                    self.take(size)?;
                }
            }
            while let Some(container) = open.last_mut() {
                let mut inner = *container;
                let is_there = self.another(&mut inner)?;
                *container = inner;
                if is_there {
                    if inner.end == b'}' {
                        let given = self.given.take();
                        self.raw_text()?;
                        self.given = given;
                    }
                    break;
                }
                open.pop();
            }
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    fn problem(&self, problem: String) -> FormatError {
        FormatError::new(format!("{problem} at offset {}", self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_their_order() {
        let bytes = b"{L\0\0\0\0\0\0\0\x01a[$l#U\x02\0\0\0\x05\xff\xff\xff\xffi\x01b[{}{#i\x01i\x01xTN]i\x01cSi\x02hii\x01d[i\x01d\x3f\0\0\0]}";
        let mut ubj = Ubj::new(bytes);
        let mut seen = String::new();
        ubj.object(|ubj, key| {
            seen.push_str(key);
            match key {
                "a" => assert_eq!(ubj.numbers::<i32>()?, [5, -1]),
                "c" => assert_eq!(ubj.text()?, "hi"),
                "d" => assert_eq!(ubj.numbers::<f64>()?, [1.0, 0.5]),
                _ => ubj.skip()?,
            }
            Ok(())
        })
        .unwrap();
        assert_eq!((&*seen, ubj.at, ubj.depth), ("abcd", bytes.len(), 0));
        let mut whole = Ubj::new(bytes);
        whole.skip().unwrap();
        assert_eq!(whole.at, bytes.len());
    }

    #[track_caller]
    fn refused(bytes: &[u8], expect: &str) {
        assert_eq!(Ubj::new(bytes).skip().unwrap_err().to_string(), expect);
        let array = |ubj: &mut Ubj<'_>| ubj.array(|it| it.skip());
        assert!(array(&mut Ubj::new(bytes)).is_err());
    }

    #[test]
    fn what_reaches_past_the_end_is_refused_before_memory_is_taken() {
        refused(b"[", "a value reaches past the end at offset 1");
        refused(
            b"[$L#l\x7f\xff\xff\xff",
            "an array of length 2147483647 reaches past the end at offset 4",
        );
        refused(b"[$L#i\x02\0\0", "an array of 2 numbers reaches past the end at offset 1");
        refused(b"[Si\xff", "a text of length -1 reaches past the end at offset 2");
        refused(b"[$T#i\x02", "'T' is no type of elements at offset 3");
        refused(&b"[".repeat(1_000_000), "more than 32 brackets are open at offset 33");
        let numbers = Ubj::new(b"[$L#i\x02\0\0").numbers::<i32>().unwrap_err().to_string();
        assert_eq!(numbers, "an array of 2 numbers reaches past the end at offset 1");
        let number = Ubj::new(b"[D\0\0\0\0\0\0\0\0]").numbers::<i32>().unwrap_err().to_string();
        assert_eq!(number, "the value at offset 2 is not an integer of 32 bits");
    }
}

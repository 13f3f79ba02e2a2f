//! The stack machine of pickles, protocols 0 to 5, without effects. Pure.
//!
//! What it keeps is bounded by the size of the file, and how long it runs by the number of instructions.

use crate::{
    error::FormatError,
    pickle::{
        array::{Wrapped, wrapped},
        cursor::Cursor,
        text,
        value::{Behind, Kept, Object, Pickle, Span, Value},
    },
};

/// Instructions of a pickle.
const INSTRUCTIONS: usize = 1_000_000;
/// Values on the stack, marks included; also entries of the memo.
const STACK: usize = 100_000;
/// Pickles within pickles: joblib writes arrays of objects so.
const LEVELS: usize = 2;
/// Containers within containers that may be referred to more than once.
const SHARED_DEPTH: u8 = 32;
/// Memory for what is kept, besides twice the size of the file.
const MEMORY: usize = 8 << 20;

/// What a file that is a pickle holds. What lies behind its end is not read.
///
/// # Errors
/// It is none, it needs something outside of the file, or it is beyond a bound.
pub fn read(file: &[u8]) -> Result<Pickle<'_>, FormatError> {
    if i32::try_from(file.len()).is_err() {
        return Err(FormatError::new("a pickle of more than 2 GiB"));
    }
    let mut machine = Machine {
        cursor: Cursor::new(file),
        pickle: Pickle { file, kept: Vec::new(), root: Value::None },
        depth: Vec::new(),
        instructions: 0,
        memory: file.len().saturating_mul(2) + MEMORY,
    };
    machine.pickle.root = machine.run(0)?;
    Ok(machine.pickle)
}

struct Machine<'a> {
    cursor: Cursor<'a>,
    pickle: Pickle<'a>,
    /// Of each kept value: how many containers lie within each other in it.
    depth: Vec<u8>,
    instructions: usize,
    /// Bytes that may still be kept.
    memory: usize,
}

/// What one pickle works on; one within another has its own.
#[derive(Default)]
struct Frame {
    stack: Vec<Value>,
    /// Where in the stack the marks are.
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    /// Entries of the memo that have been read.
    was_read: Vec<bool>,
}

impl Machine<'_> {
    fn run(&mut self, level: usize) -> Result<Value, FormatError> {
        if level == LEVELS {
            return self.refuse("pickles within pickles");
        }
        let mut frame = Frame::default();
        loop {
            self.instructions += 1;
            if INSTRUCTIONS < self.instructions {
                return self.refuse(format!("more than {INSTRUCTIONS} instructions"));
            }
            let code = self.cursor.byte()?;
            if code == b'.' {
                return self.pop(&mut frame);
            }
            self.step(code, &mut frame, level)?;
            if STACK < frame.stack.len() + frame.marks.len() {
                return self.refuse(format!("more than {STACK} values on the stack"));
            }
        }
    }

    fn step(&mut self, code: u8, frame: &mut Frame, level: usize) -> Result<(), FormatError> {
        match code {
            b'(' => frame.marks.push(frame.stack.len()),
            b'0' => drop(self.pop_or_mark(frame)?),
            b'1' => drop(self.above_mark(frame)?),
            b'2' => {
                let top = self.top(frame)?;
                frame.stack.push(top);
            }
            0x80 => {
                let protocol = self.cursor.byte()?;
                if 5 < protocol {
                    return self.refuse(format!("protocol {protocol}, 0 to 5 are known"));
                }
            }
            0x95 => {
                let length = u64::from_le_bytes(self.cursor.array()?);
                self.left(length)?;
            }
            b'P' | b'Q' => return self.refuse("it refers to an object outside of the file"),
            0x82..=0x84 => return self.refuse("it refers to a registry of extensions"),
            0x97 | 0x98 => return self.refuse("it refers to a buffer outside of the file"),
            b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.memo(code, frame)?,
            b'a' | b'e' | b's' | b'u' | 0x90 | b'b' => self.fill(code, frame, level)?,
            b'R' | 0x81 | 0x92 | b'i' | b'o' | b'c' | 0x93 => {
                let made = self.call(code, frame)?;
                frame.stack.push(made);
            }
            b')' | b't' | 0x85..=0x87 | b']' | b'l' | b'}' | b'd' | 0x8f | 0x91 => {
                let made = self.container(code, frame)?;
                frame.stack.push(made);
            }
            _ => {
                let made = self.literal(code)?;
                frame.stack.push(made);
            }
        }
        Ok(())
    }

    /// A number, a text or bytes.
    fn literal(&mut self, code: u8) -> Result<Value, FormatError> {
        Ok(match code {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i64::from(i32::from_le_bytes(self.cursor.array()?))),
            b'K' => Value::Int(i64::from(self.cursor.byte()?)),
            b'M' => Value::Int(i64::from(u16::from_le_bytes(self.cursor.array()?))),
            b'G' => Value::Float(f64::from_be_bytes(self.cursor.array()?)),
            b'F' | b'I' | b'L' => return self.number_line(code),
            0x8a => {
                let length = u64::from(self.cursor.byte()?);
                return self.long(length);
            }
            0x8b => {
                let length = self.length4()?;
                return self.long(length);
            }
            b'C' | b'U' => {
                let length = u64::from(self.cursor.byte()?);
                Value::Bytes(self.cursor.span(length)?)
            }
            b'B' | b'T' => {
                let length = self.length4()?;
                Value::Bytes(self.cursor.span(length)?)
            }
            0x8e | 0x96 => {
                let length = u64::from_le_bytes(self.cursor.array()?);
                Value::Bytes(self.cursor.span(length)?)
            }
            0x8c => {
                let length = u64::from(self.cursor.byte()?);
                return self.utf8(length);
            }
            b'X' => {
                let length = self.length4()?;
                return self.utf8(length);
            }
            0x8d => {
                let length = u64::from_le_bytes(self.cursor.array()?);
                return self.utf8(length);
            }
            b'S' | b'V' => return self.text_line(code),
            _ => return self.refuse(format!("{code:#04x} is no instruction")),
        })
    }

    fn number_line(&mut self, code: u8) -> Result<Value, FormatError> {
        let line = self.line()?;
        let text = std::str::from_utf8(self.cursor.bytes(line)).unwrap_or_default();
        let number = match (code, text) {
            (b'I', "00") => Some(Value::Bool(false)),
            (b'I', "01") => Some(Value::Bool(true)),
            (b'F', _) => text.parse().ok().map(Value::Float),
            _ => text.strip_suffix('L').unwrap_or(text).parse().ok().map(Value::Int),
        };
        match number {
            Some(number) => Ok(number),
            None => self.refuse("a number that is none"),
        }
    }

    fn text_line(&mut self, code: u8) -> Result<Value, FormatError> {
        let line = self.line()?;
        self.take(line.bytes().saturating_mul(2))?;
        let raw = self.cursor.bytes(line);
        let kept = match code {
            b'S' => std::str::from_utf8(raw)
                .ok()
                .and_then(text::quoted)
                .map(|it| Kept::Bytes(it.into())),
            _ => text::escaped(raw).map(|it| Kept::Text(it.into())),
        };
        match kept {
            Some(kept) => self.keep(kept, 0),
            None => self.refuse("a text that is none"),
        }
    }

    fn long(&mut self, length: u64) -> Result<Value, FormatError> {
        let span = self.cursor.span(length)?;
        let bytes = self.cursor.bytes(span);
        if 8 < bytes.len() {
            return self.keep(Kept::Large, 0);
        }
        let is_negative = bytes.last().is_some_and(|it| it & 0x80 != 0);
        let mut wide = [if is_negative { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        Ok(Value::Int(i64::from_le_bytes(wide)))
    }

    fn utf8(&mut self, length: u64) -> Result<Value, FormatError> {
        let span = self.cursor.span(length)?;
        match std::str::from_utf8(self.cursor.bytes(span)) {
            Ok(_) => Ok(Value::Text(span)),
            Err(_) => self.refuse("a text that is not UTF-8"),
        }
    }

    fn container(&mut self, code: u8, frame: &mut Frame) -> Result<Value, FormatError> {
        let members = match code {
            b')' | b']' | b'}' | 0x8f => Vec::new(),
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                self.last(frame, count)?
            }
            _ => self.above_mark(frame)?,
        };
        let depth = self.depth_above(&members);
        self.take_members(members.len())?;
        let kept = match code {
            b']' | b'l' => Kept::List(members),
            b'}' | b'd' => Kept::Dict(self.pairs(members)?),
            0x8f | 0x91 => Kept::Set(members),
            _ => Kept::Tuple(members),
        };
        self.keep(kept, depth)
    }

    /// The name of a class or function, or a call of one.
    fn call(&mut self, code: u8, frame: &mut Frame) -> Result<Value, FormatError> {
        let (callable, arguments) = match code {
            b'c' => return self.global_lines(),
            0x93 => {
                let (name, module) = (self.pop(frame)?, self.pop(frame)?);
                return self.global(module, name);
            }
            b'i' => {
                let callable = self.global_lines()?;
                (callable, self.above_mark_as_tuple(frame)?)
            }
            b'o' => {
                let mut members = self.above_mark(frame)?;
                if members.is_empty() {
                    return self.refuse("a call of nothing");
                }
                let callable = members.remove(0);
                self.take_members(members.len())?;
                let depth = self.depth_above(&members);
                (callable, self.keep(Kept::Tuple(members), depth)?)
            }
            0x92 => {
                // Named arguments are in no pickle that is understood.
                let _named = self.pop(frame)?;
                let arguments = self.pop(frame)?;
                (self.pop(frame)?, arguments)
            }
            _ => {
                let arguments = self.pop(frame)?;
                (self.pop(frame)?, arguments)
            }
        };
        let depth = self.depth_above(&[arguments]);
        self.take(size_of::<Object>())?;
        let object = Object {
            callable,
            arguments,
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
            behind: None,
        };
        self.keep(Kept::Object(Box::new(object)), depth)
    }

    fn global_lines(&mut self) -> Result<Value, FormatError> {
        let (module, name) = (self.line()?, self.line()?);
        for it in [module, name] {
            if std::str::from_utf8(self.cursor.bytes(it)).is_err() {
                return self.refuse("a name that is not UTF-8");
            }
        }
        self.global(Value::Text(module), Value::Text(name))
    }

    fn global(&mut self, module: Value, name: Value) -> Result<Value, FormatError> {
        if self.pickle.text(module).is_none() || self.pickle.text(name).is_none() {
            return self.refuse("a name that is no text");
        }
        self.keep(Kept::Global(module, name), 0)
    }

    /// Puts values into the one below them.
    fn fill(&mut self, code: u8, frame: &mut Frame, level: usize) -> Result<(), FormatError> {
        let members = match code {
            b'a' | b'b' => self.last(frame, 1)?,
            b's' => self.last(frame, 2)?,
            _ => self.above_mark(frame)?,
        };
        let target = self.top(frame)?;
        let depth = self.depth_above(&members);
        self.take_members(members.len())?;
        let Value::Kept(number) = target else {
            return self.refuse("something is put into a value that holds nothing");
        };
        let own = &mut self.depth[number as usize];
        *own = depth.max(*own);
        let pairs = matches!(code, b's' | b'u').then(|| self.pairs_of(&members)).transpose()?;
        match (code, &mut self.pickle.kept[number as usize], pairs) {
            (b'a' | b'e', Kept::List(list), _) => list.extend(members),
            (b'a' | b'e', Kept::Object(object), _) => object.items.extend(members),
            (b's' | b'u', Kept::Dict(dict), Some(pairs)) => dict.extend(pairs),
            (b's' | b'u', Kept::Object(object), Some(pairs)) => object.pairs.extend(pairs),
            (0x90, Kept::Set(set), _) => set.extend(members),
            (b'b', Kept::Object(object), _) => object.state = members.last().copied(),
            _ => return self.refuse("something is put into a value that cannot hold it"),
        }
        if code == b'b' {
            self.array_behind(target, number, level)?;
        }
        Ok(())
    }

    /// Reads the array that joblib writes behind its wrapper.
    fn array_behind(&mut self, value: Value, number: u32, level: usize) -> Result<(), FormatError> {
        let Some(wrapped) = wrapped(&self.pickle, value)? else { return Ok(()) };
        let behind = match wrapped {
            Wrapped::Pickle => Behind::Pickle(self.run(level + 1)?),
            Wrapped::Raw { bytes, padded } => {
                if padded {
                    let padding = self.cursor.byte()?;
                    self.cursor.span(u64::from(padding))?;
                }
                Behind::Raw(self.cursor.span(bytes as u64)?)
            }
        };
        if let Kept::Object(object) = &mut self.pickle.kept[number as usize] {
            object.behind = Some(behind);
        }
        Ok(())
    }

    /// Writes or reads an entry of the memo.
    fn memo(&mut self, code: u8, frame: &mut Frame) -> Result<(), FormatError> {
        let index = match code {
            0x94 => frame.memo.len() as u64,
            b'q' | b'h' => u64::from(self.cursor.byte()?),
            b'r' | b'j' => self.length4()?,
            _ => match self.number_line(b'I')? {
                Value::Int(it) if 0 <= it => it as u64,
                _ => return self.refuse("an entry of the memo without a number"),
            },
        };
        let Some(index) = usize::try_from(index).ok().filter(|it| *it < STACK) else {
            return self.refuse(format!("more than {STACK} entries in the memo"));
        };
        if matches!(code, b'p' | b'q' | b'r' | 0x94) {
            if frame.memo.len() <= index {
                frame.memo.resize(index + 1, None);
                frame.was_read.resize(index + 1, false);
            }
            frame.memo[index] = Some(self.top(frame)?);
            frame.was_read[index] = false;
            return Ok(());
        }
        let Some(value) = frame.memo.get(index).copied().flatten() else {
            return self.refuse(format!("no entry {index} in the memo"));
        };
        let again = std::mem::replace(&mut frame.was_read[index], true);
        if again && SHARED_DEPTH < self.depth_of(value) {
            return self.refuse(format!(
                "containers more than {SHARED_DEPTH} deep that are referred to again"
            ));
        }
        frame.stack.push(value);
        Ok(())
    }

    fn keep(&mut self, kept: Kept, depth: u8) -> Result<Value, FormatError> {
        // The list of them may have room for twice as many.
        self.take(2 * (size_of::<Kept>() + 1))?;
        self.pickle.kept.push(kept);
        self.depth.push(depth);
        Ok(Value::Kept(self.pickle.kept.len() as u32 - 1))
    }

    /// A container's depth with these in it.
    fn depth_above(&self, members: &[Value]) -> u8 {
        members.iter().map(|it| self.depth_of(*it)).max().unwrap_or(0).saturating_add(1)
    }

    fn depth_of(&self, value: Value) -> u8 {
        match value {
            Value::Kept(number) => self.depth[number as usize],
            _ => 0,
        }
    }

    fn take_members(&mut self, count: usize) -> Result<(), FormatError> {
        self.take(2 * count * size_of::<Value>())
    }

    fn take(&mut self, bytes: usize) -> Result<(), FormatError> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => self.refuse("its values take more memory than a file of its size may"),
        }
    }

    fn pairs(&self, members: Vec<Value>) -> Result<Vec<(Value, Value)>, FormatError> {
        self.pairs_of(&members)
    }

    fn pairs_of(&self, members: &[Value]) -> Result<Vec<(Value, Value)>, FormatError> {
        match members.as_chunks::<2>() {
            (pairs, []) => Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect()),
            _ => self.refuse("a key without a value"),
        }
    }

    fn line(&mut self) -> Result<Span, FormatError> {
        let line = self.cursor.line()?;
        // Ends of lines may be those of Windows in the oldest protocol.
        match self.cursor.bytes(line).last() {
            Some(b'\r') => Ok(Span { start: line.start, end: line.end - 1 }),
            _ => Ok(line),
        }
    }

    fn length4(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from(u32::from_le_bytes(self.cursor.array()?)))
    }

    fn left(&mut self, length: u64) -> Result<(), FormatError> {
        let left = (self.pickle.file.len() - self.cursor.at()) as u64;
        match length <= left {
            true => Ok(()),
            false => Err(FormatError::past_the_end("a frame of the pickle", self.cursor.at())),
        }
    }

    fn top(&self, frame: &Frame) -> Result<Value, FormatError> {
        self.check_mark(frame, 1)?;
        Ok(frame.stack[frame.stack.len() - 1])
    }

    fn pop(&self, frame: &mut Frame) -> Result<Value, FormatError> {
        self.check_mark(frame, 1)?;
        frame.stack.pop().map_or_else(|| self.refuse("the stack is empty"), Ok)
    }

    fn pop_or_mark(&self, frame: &mut Frame) -> Result<(), FormatError> {
        match frame.marks.last() == Some(&frame.stack.len()) {
            true => {
                frame.marks.pop();
                Ok(())
            }
            false => self.pop(frame).map(drop),
        }
    }

    fn last(&self, frame: &mut Frame, count: usize) -> Result<Vec<Value>, FormatError> {
        self.check_mark(frame, count)?;
        Ok(frame.stack.drain(frame.stack.len() - count..).collect())
    }

    /// Are there so many values above the last mark?
    fn check_mark(&self, frame: &Frame, count: usize) -> Result<(), FormatError> {
        let below = frame.marks.last().copied().unwrap_or(0);
        match below + count <= frame.stack.len() {
            true => Ok(()),
            false => self.refuse("the stack is empty"),
        }
    }

    fn above_mark(&self, frame: &mut Frame) -> Result<Vec<Value>, FormatError> {
        match frame.marks.pop() {
            Some(mark) => Ok(frame.stack.drain(mark..).collect()),
            None => self.refuse("no mark on the stack"),
        }
    }

    fn above_mark_as_tuple(&mut self, frame: &mut Frame) -> Result<Value, FormatError> {
        let members = self.above_mark(frame)?;
        self.take_members(members.len())?;
        let depth = self.depth_above(&members);
        self.keep(Kept::Tuple(members), depth)
    }

    fn refuse<T>(&self, problem: impl std::fmt::Display) -> Result<T, FormatError> {
        Err(FormatError::new(format!("pickle: {problem}, before offset {}", self.cursor.at())))
    }
}

#[cfg(test)]
mod tests;

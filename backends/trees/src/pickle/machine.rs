//! The stack machine of pickles, protocols 0 to 5, without effects. Pure.
//!
//! What it keeps is bounded by the size of the file, and how long it runs by the number of instructions.

use crate::{
    error::FormatError,
    pickle::{
        array::{Wrapped, wrapped},
        cursor::Cursor,
        frame::Frame,
        keeper::Keeper,
        literal::{literal, number_line},
        value::{Behind, Kept, Object, Pickle, Value},
    },
};

/// Instructions of a pickle.
const INSTRUCTIONS: usize = 1_000_000;
/// Pickles within pickles: joblib writes arrays of objects so.
const LEVELS: usize = 2;
/// Containers within containers that may be referred to more than once.
const SHARED_DEPTH: u8 = 32;

/// What a file that is a pickle holds. What lies behind its end is not read.
///
/// # Errors
/// It is none, it needs something outside of the file, or it is beyond a bound.
pub fn read(file: &[u8]) -> Result<Pickle<'_>, FormatError> {
    if i32::try_from(file.len()).is_err() {
        return Err(FormatError::new("a pickle of more than 2 GiB"));
    }
    let mut machine =
        Machine { cursor: Cursor::new(file), values: Keeper::new(file), instructions: 0 };
    machine.values.pickle.root = machine.run(0)?;
    Ok(machine.values.pickle)
}

struct Machine<'a> {
    cursor: Cursor<'a>,
    values: Keeper<'a>,
    instructions: usize,
}

impl Machine<'_> {
    fn run(&mut self, level: usize) -> Result<Value, FormatError> {
        if level == LEVELS {
            return self.cursor.refuse("pickles within pickles");
        }
        let mut frame = Frame::default();
        loop {
            self.instructions += 1;
            if INSTRUCTIONS < self.instructions {
                return self.cursor.refuse(format!("more than {INSTRUCTIONS} instructions"));
            }
            let code = self.cursor.byte()?;
            if code == b'.' {
                return frame.pop(&self.cursor);
            }
            self.step(code, &mut frame, level)?;
            frame.check(&self.cursor)?;
        }
    }

    fn step(&mut self, code: u8, frame: &mut Frame, level: usize) -> Result<(), FormatError> {
        match code {
            b'(' => frame.mark(),
            b'0' => drop(frame.pop_or_mark(&self.cursor)?),
            b'1' => drop(frame.above_mark(&self.cursor)?),
            b'2' => {
                let top = frame.top(&self.cursor)?;
                frame.push(top);
            }
            0x80 => {
                let protocol = self.cursor.byte()?;
                if 5 < protocol {
                    return self.cursor.refuse(format!("protocol {protocol}, 0 to 5 are known"));
                }
            }
            0x95 => {
                let length = u64::from_le_bytes(self.cursor.array()?);
                self.cursor.expect(length)?;
            }
            b'P' | b'Q' => return self.cursor.refuse("it refers to an object outside of the file"),
            0x82..=0x84 => return self.cursor.refuse("it refers to a registry of extensions"),
            0x97 | 0x98 => return self.cursor.refuse("it refers to a buffer outside of the file"),
            b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.memo(code, frame)?,
            b'a' | b'e' | b's' | b'u' | 0x90 | b'b' => self.fill(code, frame, level)?,
            b'R' | 0x81 | 0x92 | b'i' | b'o' | b'c' | 0x93 => {
                let made = self.call(code, frame)?;
                frame.push(made);
            }
            b')' | b't' | 0x85..=0x87 | b']' | b'l' | b'}' | b'd' | 0x8f | 0x91 => {
                let made = self.container(code, frame)?;
                frame.push(made);
            }
            _ => {
                let made = literal(code, &mut self.cursor, &mut self.values)?;
                frame.push(made);
            }
        }
        Ok(())
    }

    fn container(&mut self, code: u8, frame: &mut Frame) -> Result<Value, FormatError> {
        let members = match code {
            b')' | b']' | b'}' | 0x8f => Vec::new(),
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                frame.last(count, &self.cursor)?
            }
            _ => frame.above_mark(&self.cursor)?,
        };
        let depth = self.values.depth_above(&members);
        self.values.take_members(members.len(), &self.cursor)?;
        let kept = match code {
            b']' | b'l' => Kept::List(members),
            b'}' | b'd' => Kept::Dict(self.pairs(members)?),
            0x8f | 0x91 => Kept::Set(members),
            _ => Kept::Tuple(members),
        };
        self.values.keep(kept, depth, &self.cursor)
    }

    /// The name of a class or function, or a call of one.
    fn call(&mut self, code: u8, frame: &mut Frame) -> Result<Value, FormatError> {
        let (callable, arguments) = match code {
            b'c' => return self.global_lines(),
            0x93 => {
                let (name, module) = (frame.pop(&self.cursor)?, frame.pop(&self.cursor)?);
                return self.global(module, name);
            }
            b'i' => {
                let callable = self.global_lines()?;
                (callable, self.above_mark_as_tuple(frame)?)
            }
            b'o' => {
                let mut members = frame.above_mark(&self.cursor)?;
                if members.is_empty() {
                    return self.cursor.refuse("a call of nothing");
                }
                let callable = members.remove(0);
                self.values.take_members(members.len(), &self.cursor)?;
                let depth = self.values.depth_above(&members);
                (callable, self.values.keep(Kept::Tuple(members), depth, &self.cursor)?)
            }
            0x92 => {
                // Named arguments are in no pickle that is understood.
                let _named = frame.pop(&self.cursor)?;
                let arguments = frame.pop(&self.cursor)?;
                (frame.pop(&self.cursor)?, arguments)
            }
            _ => {
                let arguments = frame.pop(&self.cursor)?;
                (frame.pop(&self.cursor)?, arguments)
            }
        };
        let depth = self.values.depth_above(&[arguments]);
        self.values.take(size_of::<Object>(), &self.cursor)?;
        let object = Object {
            callable,
            arguments,
            state: None,
            items: Vec::new(),
            pairs: Vec::new(),
            behind: None,
        };
        self.values.keep(Kept::Object(Box::new(object)), depth, &self.cursor)
    }

    fn global_lines(&mut self) -> Result<Value, FormatError> {
        let (module, name) = (self.cursor.line()?, self.cursor.line()?);
        for it in [module, name] {
            if std::str::from_utf8(self.cursor.bytes(it)).is_err() {
                return self.cursor.refuse("a name that is not UTF-8");
            }
        }
        self.global(Value::Text(module), Value::Text(name))
    }

    fn global(&mut self, module: Value, name: Value) -> Result<Value, FormatError> {
        if self.values.pickle.text(module).is_none() || self.values.pickle.text(name).is_none() {
            return self.cursor.refuse("a name that is no text");
        }
        self.values.keep(Kept::Global(module, name), 0, &self.cursor)
    }

    /// Puts values into the one below them.
    fn fill(&mut self, code: u8, frame: &mut Frame, level: usize) -> Result<(), FormatError> {
        let members = match code {
            b'a' | b'b' => frame.last(1, &self.cursor)?,
            b's' => frame.last(2, &self.cursor)?,
            _ => frame.above_mark(&self.cursor)?,
        };
        let target = frame.top(&self.cursor)?;
        let depth = self.values.depth_above(&members);
        self.values.take_members(members.len(), &self.cursor)?;
        let Value::Kept(number) = target else {
            return self.cursor.refuse("something is put into a value that holds nothing");
        };
        self.values.deepen(number, depth);
        let pairs = matches!(code, b's' | b'u').then(|| self.pairs_of(&members)).transpose()?;
        match (code, &mut self.values.pickle.kept[number as usize], pairs) {
            (b'a' | b'e', Kept::List(list), _) => list.extend(members),
            (b'a' | b'e', Kept::Object(object), _) => object.items.extend(members),
            (b's' | b'u', Kept::Dict(dict), Some(pairs)) => dict.extend(pairs),
            (b's' | b'u', Kept::Object(object), Some(pairs)) => object.pairs.extend(pairs),
            (0x90, Kept::Set(set), _) => set.extend(members),
            (b'b', Kept::Object(object), _) => object.state = members.last().copied(),
            _ => return self.cursor.refuse("something is put into a value that cannot hold it"),
        }
        if code == b'b' {
            self.array_behind(target, number, level)?;
        }
        Ok(())
    }

    /// Reads the array that joblib writes behind its wrapper.
    fn array_behind(&mut self, value: Value, number: u32, level: usize) -> Result<(), FormatError> {
        let Some(wrapped) = wrapped(&self.values.pickle, value)? else { return Ok(()) };
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
        if let Kept::Object(object) = &mut self.values.pickle.kept[number as usize] {
            object.behind = Some(behind);
        }
        Ok(())
    }

    /// Writes or reads an entry of the memo.
    fn memo(&mut self, code: u8, frame: &mut Frame) -> Result<(), FormatError> {
        let index = match code {
            0x94 => frame.next_entry(),
            b'q' | b'h' => u64::from(self.cursor.byte()?),
            b'r' | b'j' => self.cursor.length4()?,
            _ => match number_line(b'I', &mut self.cursor)? {
                Value::Int(it) if 0 <= it => it as u64,
                _ => return self.cursor.refuse("an entry of the memo without a number"),
            },
        };
        if matches!(code, b'p' | b'q' | b'r' | 0x94) {
            return frame.memorize(index, &self.cursor);
        }
        let (value, again) = frame.recall(index, &self.cursor)?;
        if again && SHARED_DEPTH < self.values.depth_of(value) {
            return self.cursor.refuse(format_args!(
                "containers more than {SHARED_DEPTH} deep that are referred to again"
            ));
        }
        frame.push(value);
        Ok(())
    }

    fn pairs(&self, members: Vec<Value>) -> Result<Vec<(Value, Value)>, FormatError> {
        self.pairs_of(&members)
    }

    fn pairs_of(&self, members: &[Value]) -> Result<Vec<(Value, Value)>, FormatError> {
        match members.as_chunks::<2>() {
            (pairs, []) => Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect()),
            _ => self.cursor.refuse("a key without a value"),
        }
    }

    fn above_mark_as_tuple(&mut self, frame: &mut Frame) -> Result<Value, FormatError> {
        let members = frame.above_mark(&self.cursor)?;
        self.values.take_members(members.len(), &self.cursor)?;
        let depth = self.values.depth_above(&members);
        self.values.keep(Kept::Tuple(members), depth, &self.cursor)
    }
}

#[cfg(test)]
mod tests;

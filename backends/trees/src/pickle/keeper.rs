//! What a machine keeps of a pickle, within a bound of memory, and how deep containers lie in each of its values. Pure.

use crate::{
    error::FormatError,
    pickle::{
        cursor::Cursor,
        value::{Kept, Pickle, Value},
    },
};

/// Memory for what is kept, besides twice the size of the file.
const MEMORY: usize = 8 << 20;

/// The values so far. The cursor of each call is only for errors, which say where they were found.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    pub(super) pickle: Pickle<'a>,
    /// Of each kept value: how many containers lie within each other in it.
    depth: Vec<u8>,
    /// Bytes that may still be kept.
    memory: usize,
}

impl<'a> Keeper<'a> {
    /// Nothing yet.
    pub(super) fn new(file: &'a [u8]) -> Keeper<'a> {
        Keeper {
            pickle: Pickle { file, kept: Vec::new(), root: Value::None },
            depth: Vec::new(),
            memory: file.len().saturating_mul(2).saturating_add(MEMORY),
        }
    }

    /// Keeps one more, in which containers are so deep.
    ///
    /// # Errors
    /// There is no memory left for it.
    pub(super) fn keep(
        &mut self,
        kept: Kept,
        depth: u8,
        cursor: &Cursor,
    ) -> Result<Value, FormatError> {
        // The list of them may have room for twice as many.
        self.take(2 * (size_of::<Kept>() + 1), cursor)?;
        self.pickle.kept.push(kept);
        self.depth.push(depth);
        Ok(Value::Kept(self.pickle.kept.len() as u32 - 1))
    }

    /// A container's depth with these in it.
    pub(super) fn depth_above(&self, members: &[Value]) -> u8 {
        members.iter().map(|it| self.depth_of(*it)).max().unwrap_or(0).saturating_add(1)
    }

    /// How many containers lie within each other in it.
    pub(super) fn depth_of(&self, value: Value) -> u8 {
        match value {
            Value::Kept(number) => self.depth[number as usize],
            _ => 0,
        }
    }

    /// A kept value has members that make it so deep at least.
    pub(super) fn deepen(&mut self, number: u32, depth: u8) {
        let own = &mut self.depth[number as usize];
        *own = depth.max(*own);
    }

    /// Counts so many members of a container.
    ///
    /// # Errors
    /// There is no memory left for them.
    pub(super) fn take_members(
        &mut self,
        count: usize,
        cursor: &Cursor,
    ) -> Result<(), FormatError> {
        self.take(2 * count * size_of::<Value>(), cursor)
    }

    /// Counts so many bytes.
    ///
    /// # Errors
    /// There is no memory left for them.
    pub(super) fn take(&mut self, bytes: usize, cursor: &Cursor) -> Result<(), FormatError> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => cursor.refuse("its values take more memory than a file of its size may"),
        }
    }
}

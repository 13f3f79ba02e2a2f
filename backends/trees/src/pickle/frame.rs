//! What one pickle works on: its stack with the marks on it, and its memo. Pure.

use crate::{
    error::FormatError,
    pickle::{cursor::Cursor, value::Value},
};

/// Values on the stack, marks included; also entries of the memo.
const MOST: usize = 100_000;

/// Stack and memo; a pickle within another has its own. The cursor of each call is only for errors, which say where
/// they were found.
#[derive(Debug, Default)]
pub(super) struct Frame {
    stack: Vec<Value>,
    /// Where in the stack the marks are.
    marks: Vec<usize>,
    memo: Vec<Option<Entry>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    value: Value,
    was_read: bool,
}

impl Frame {
    pub(super) fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    pub(super) fn mark(&mut self) {
        self.marks.push(self.stack.len());
    }

    /// Is there no more on the stack than may be?
    ///
    /// # Errors
    /// There is more.
    pub(super) fn check(&self, cursor: &Cursor) -> Result<(), FormatError> {
        match self.stack.len() + self.marks.len() <= MOST {
            true => Ok(()),
            false => cursor.refuse(format_args!("more than {MOST} values on the stack")),
        }
    }

    /// The value above all others.
    ///
    /// # Errors
    /// There is none above the last mark.
    pub(super) fn top(&self, cursor: &Cursor) -> Result<Value, FormatError> {
        self.check_mark(1, cursor)?;
        Ok(self.stack[self.stack.len() - 1])
    }

    /// The same, which is taken off.
    ///
    /// # Errors
    /// As [`Frame::top`].
    pub(super) fn pop(&mut self, cursor: &Cursor) -> Result<Value, FormatError> {
        self.check_mark(1, cursor)?;
        self.stack.pop().map_or_else(|| cursor.refuse(EMPTY), Ok)
    }

    /// Takes off a value, or the mark that nothing is above.
    ///
    /// # Errors
    /// There is neither.
    pub(super) fn pop_or_mark(&mut self, cursor: &Cursor) -> Result<(), FormatError> {
        match self.marks.last() == Some(&self.stack.len()) {
            true => {
                self.marks.pop();
                Ok(())
            }
            false => self.pop(cursor).map(drop),
        }
    }

    /// Takes off so many values.
    ///
    /// # Errors
    /// There are fewer above the last mark.
    pub(super) fn last(
        &mut self,
        count: usize,
        cursor: &Cursor,
    ) -> Result<Vec<Value>, FormatError> {
        self.check_mark(count, cursor)?;
        Ok(self.stack.drain(self.stack.len() - count..).collect())
    }

    /// Takes off the last mark and all values above it.
    ///
    /// # Errors
    /// There is no mark.
    pub(super) fn above_mark(&mut self, cursor: &Cursor) -> Result<Vec<Value>, FormatError> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.drain(mark..).collect()),
            None => cursor.refuse("no mark on the stack"),
        }
    }

    /// Are there so many values above the last mark?
    fn check_mark(&self, count: usize, cursor: &Cursor) -> Result<(), FormatError> {
        let below = self.marks.last().copied().unwrap_or(0);
        match below + count <= self.stack.len() {
            true => Ok(()),
            false => cursor.refuse(EMPTY),
        }
    }

    /// The number of the entry that the memo gets next.
    pub(super) fn next_entry(&self) -> u64 {
        self.memo.len() as u64
    }

    /// Notes the value above all others as an entry of the memo.
    ///
    /// # Errors
    /// The memo has no such entry, or the stack no value.
    pub(super) fn memorize(&mut self, index: u64, cursor: &Cursor) -> Result<(), FormatError> {
        let index = entry(index, cursor)?;
        if self.memo.len() <= index {
            self.memo.resize(index + 1, None);
        }
        self.memo[index] = Some(Entry { value: self.top(cursor)?, was_read: false });
        Ok(())
    }

    /// An entry of the memo, and whether it has been read before.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn recall(
        &mut self,
        index: u64,
        cursor: &Cursor,
    ) -> Result<(Value, bool), FormatError> {
        let index = entry(index, cursor)?;
        match self.memo.get_mut(index) {
            Some(Some(entry)) => Ok((entry.value, std::mem::replace(&mut entry.was_read, true))),
            _ => cursor.refuse(format_args!("no entry {index} in the memo")),
        }
    }
}

const EMPTY: &str = "the stack is empty";

fn entry(index: u64, cursor: &Cursor) -> Result<usize, FormatError> {
    match usize::try_from(index) {
        Ok(index) if index < MOST => Ok(index),
        _ => cursor.refuse(format_args!("more than {MOST} entries in the memo")),
    }
}

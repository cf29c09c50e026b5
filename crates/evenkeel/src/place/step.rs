//! Windows and steps, paper 004 §3.2.

use hashbrown::HashMap;

use super::MemberId;

/// A write that waits in a window: a row of the paper's request table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The object. Of equally long writes, the lowest object is placed first.
    pub object: u64,
    /// The default server of the object.
    pub default: MemberId,
    /// Where in the object it starts. No policy uses it.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

/// Everything that a window writes to an object, or a single write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The object.
    pub object: u64,
    /// Its default server; that of the first write, if they differ.
    pub default: MemberId,
    /// The total length.
    pub bytes: u128,
    /// Its number, in order of first writes.
    pub(super) number: u32,
}

/// The steps of a window.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) all: Vec<Step>,
    /// The step of each write.
    pub(super) of_write: Vec<u32>,
    by_object: HashMap<u64, u32>,
}

impl Steps {
    /// Divides a window into steps, in order of their first writes. Without merging, each write is a step.
    pub(super) fn divide(&mut self, window: &[Write], merge: bool) {
        self.all.clear();
        self.of_write.clear();
        self.by_object.clear();
        for &Write { object, default, bytes, .. } in window {
            let next = self.all.len() as u32;
            let number = if merge { *self.by_object.entry(object).or_insert(next) } else { next };
            match self.all.get_mut(number as usize) {
                Some(step) => step.bytes += u128::from(bytes),
                None => self.all.push(Step { object, default, bytes: bytes.into(), number }),
            }
            self.of_write.push(number);
        }
    }
}

/// The pieces of a write to a file that is divided into objects of `object_bytes` (at least 1): object, offset in it,
/// length. A write without bytes is one piece without bytes. Bytes beyond the largest offset are omitted.
pub fn pieces(offset: u64, bytes: u64, object_bytes: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let size = object_bytes.max(1);
    let mut next = Some((offset, bytes.min(u64::MAX - offset)));
    std::iter::from_fn(move || {
        let (offset, left) = next?;
        let length = left.min(size - offset % size);
        next = (left > length).then(|| (offset + length, left - length));
        Some((offset / size, offset % size, length))
    })
}

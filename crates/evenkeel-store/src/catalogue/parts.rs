//! Objects that come in parts. What was there before is shared by all who have seen it.

use std::sync::Arc;

use super::CatalogueObject;
use super::packed::Packed;

#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// Each is sorted by key.
    parts: Vec<Arc<Packed>>,
    /// The number of objects before the end of each part.
    ends: Vec<usize>,
}

impl Parts {
    pub(super) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn append(&mut self, part: Packed) {
        self.ends.push(self.len() + part.len());
        self.parts.push(Arc::new(part));
    }

    pub(super) fn key(&self, number: usize) -> &str {
        let (part, number) = self.part(number);
        part.key(number)
    }

    pub(super) fn bytes(&self, number: usize) -> u64 {
        let (part, number) = self.part(number);
        part.bytes(number)
    }

    pub(super) fn get(&self, number: usize) -> CatalogueObject {
        let (part, number) = self.part(number);
        part.get(number)
    }

    /// The part that has an object, and its number there.
    fn part(&self, number: usize) -> (&Packed, usize) {
        let part = self.ends.partition_point(|&end| end <= number);
        (&self.parts[part], number - part.checked_sub(1).map_or(0, |before| self.ends[before]))
    }

    /// Whether, in any part, the first key that is not less than this one is of a kind.
    pub(super) fn any_from(&self, key: &str, is_of_kind: impl Fn(&str) -> bool) -> bool {
        let first = |part: &Arc<Packed>| {
            let first = part.first_from(key);
            first < part.len() && is_of_kind(part.key(first))
        };
        self.parts.iter().any(first)
    }
}

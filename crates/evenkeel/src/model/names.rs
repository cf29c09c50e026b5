//! Interned names: each distinct name is stored once and has a dense id.

use std::cmp::Ordering;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::ModelError;

/// Distinct names in the order of their ids, stored in one string.
#[derive(Clone, Default)]
pub struct NameTable {
    text: String,
    ends: Vec<usize>,
    ids: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl std::fmt::Debug for NameTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl NameTable {
    /// A table without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of distinct names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no name has been interned.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The name of `id`, which must come from this table.
    pub fn name(&self, id: u32) -> &str {
        &self.text[span(&self.ends, id)]
    }

    /// All names in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|id| self.name(id))
    }

    /// The id of `name`, if it is known.
    pub fn find(&self, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        // Compares bytes, so the text need not be split at character boundaries again.
        let text = self.text.as_bytes();
        self.ids.find(hash, |&id| text[span(&self.ends, id)] == *name.as_bytes()).copied()
    }

    /// Adds a name. It must be new and valid.
    pub fn insert(&mut self, name: &str, kind: &'static str) -> Result<(), ModelError> {
        if self.find(name).is_some() {
            return Err(ModelError::NameTwice { kind, name: shown(name) });
        }
        checked(name, kind)?;
        self.intern(name);
        Ok(())
    }

    /// The id of `name`, or an error if it is not known.
    pub(super) fn require<E>(&self, name: &str, unknown: fn(String) -> E) -> Result<u32, E> {
        self.find(name).ok_or_else(|| unknown(shown(name)))
    }

    /// The id in this table of each name of another table.
    pub(super) fn require_all<E>(&self, names: &Self, unknown: fn(String) -> E) -> Result<Vec<u32>, E> {
        names.iter().map(|name| self.require(name, unknown)).collect()
    }

    /// The id of `name`. Adds the name if it is new.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(id) = self.find(name) {
            return id;
        }
        let hash = self.hasher.hash_one(name);
        let Self { text, ends, ids, hasher } = self;
        let id = ends.len() as u32;
        text.push_str(name);
        ends.push(text.len());
        ids.insert_unique(hash, id, |&id| hasher.hash_one(&text[span(ends, id)]));
        id
    }

    /// All ids in the natural order of their names.
    pub fn natural_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| natural_cmp(self.name(a), self.name(b)));
        order
    }

    /// The same names in natural order, and the new id of each old id.
    pub fn sorted_naturally(&self) -> (Self, Vec<u32>) {
        let order = self.natural_order();
        let mut sorted = Self::new();
        let mut new_id = vec![0; order.len()];
        for old in order {
            new_id[old as usize] = sorted.intern(self.name(old));
        }
        (sorted, new_id)
    }
}

#[inline]
fn span(ends: &[usize], id: u32) -> std::ops::Range<usize> {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    start..ends[id]
}

/// Refuses names that cannot be told apart by eye, or that would not stay on one line.
pub(super) fn checked(name: &str, kind: &'static str) -> Result<(), ModelError> {
    let fault = if name.is_empty() {
        "is empty"
    } else if name.contains(char::is_control) {
        "has a line break or another control character in it (is a quote not closed?)"
    } else if name.trim() != name {
        "begins or ends with a blank"
    } else {
        return Ok(());
    };
    Err(ModelError::BadName { kind, name: shown(name), fault })
}

/// A name prepared for a message: escaped, and not too long.
pub fn shown(name: &str) -> String {
    const MOST: usize = 60;
    let mut text: String = name.escape_debug().take(MOST).collect();
    if name.escape_debug().nth(MOST).is_some() {
        text.push('…');
    }
    text
}

/// Orders names as people do: runs of digits by value, so that `s2` comes before `s10`.
///
/// This is a total order: names that differ only in leading zeros are ordered by their text.
fn natural_cmp(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        match (x.first(), y.first()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(p), Some(q)) if p.is_ascii_digit() && q.is_ascii_digit() => {
                let (m, n) = (split_number(&mut x), split_number(&mut y));
                let by_value = m.len().cmp(&n.len()).then_with(|| m.cmp(n));
                if by_value.is_ne() {
                    return by_value;
                }
            }
            (Some(p), Some(q)) if p != q => return p.cmp(q),
            _ => (x, y) = (&x[1..], &y[1..]),
        }
    }
}

/// Removes the leading run of digits from `s` and returns it without leading zeros.
fn split_number<'a>(s: &mut &'a [u8]) -> &'a [u8] {
    let end = s.iter().position(|b| !b.is_ascii_digit()).unwrap_or(s.len());
    let (digits, rest) = s.split_at(end);
    *s = rest;
    let zeros = digits.iter().take_while(|&&b| b == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natural_order_reads_numbers() {
        let mut names = ["s10", "s2", "s", "s02", "a9b10", "a9b9", "s2x", "é1", ""];
        names.sort_by(|a, b| natural_cmp(a, b));
        assert_eq!(names, ["", "a9b9", "a9b10", "s", "s02", "s2", "s2x", "s10", "é1"]);
    }

    #[test]
    fn sorting_keeps_each_name() {
        let mut table = NameTable::new();
        for name in ["s10", "s2", "s10", "s1"] {
            table.intern(name);
        }
        let (sorted, new_id) = table.sorted_naturally();
        assert_eq!(sorted.iter().collect::<Vec<_>>(), ["s1", "s2", "s10"]);
        assert_eq!(new_id, [2, 1, 0]);
        assert_eq!(sorted.find("s2"), Some(1));
        assert_eq!(sorted.find("s3"), None);
    }
}

//! What may be read: each home of each object is a register.
//!
//! A write takes effect at some time between its beginning and its acknowledgement; one that is not acknowledged does so
//! at any time from its beginning on, or never. Deletions are writes of nothing. Time is counted in events.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// The bytes of an object, or nothing.
pub(super) type Value = Option<Bytes>;

#[derive(Debug)]
struct Write {
    value: Value,
    begun: u64,
    /// When it was acknowledged.
    ended: Option<u64>,
}

/// All writes.
#[derive(Debug, Default)]
pub(super) struct Model {
    now: u64,
    writes: BTreeMap<String, Vec<Write>>,
    pub(super) n_acknowledged: u64,
    pub(super) n_reads: u64,
}

/// A write that has begun.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    key: String,
    number: usize,
}

impl Model {
    /// The next moment.
    pub(super) fn now(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn writes(&mut self, key: &str) -> &mut Vec<Write> {
        // At first there is nothing.
        let nothing = || vec![Write { value: None, begun: 0, ended: Some(0) }];
        self.writes.entry(key.to_owned()).or_insert_with(nothing)
    }

    pub(super) fn begin(&mut self, key: &str, value: Value) -> Begun {
        let begun = self.now();
        let writes = self.writes(key);
        writes.push(Write { value, begun, ended: None });
        Begun { key: key.to_owned(), number: writes.len() - 1 }
    }

    /// A write is acknowledged. If it replaces nothing, there has to have been nothing, or the same.
    pub(super) fn acknowledge(&mut self, write: &Begun, replaces: bool) -> Result<(), String> {
        let now = self.now();
        self.n_acknowledged += 1;
        let writes = self.writes(&write.key);
        let (begun, value) = (writes[write.number].begun, writes[write.number].value.clone());
        writes[write.number].ended = Some(now);
        if replaces {
            return Ok(());
        }
        let may_be = |value: &Value| may_be(&self.writes[&write.key], value, begun, now, Some(write.number));
        if may_be(&None) || may_be(&value) {
            return Ok(());
        }
        Err(format!("{}: something was replaced that was not to be", write.key))
    }

    /// Something was read between a moment and now.
    pub(super) fn read(&mut self, key: &str, value: &Value, from: u64) -> Result<(), String> {
        let to = self.now();
        self.n_reads += 1;
        let writes = self.writes(key);
        if may_be(writes, value, from, to, None) {
            return Ok(());
        }
        let is_known = writes.iter().any(|write| write.value == *value);
        let what = match value {
            None => "nothing is there, where something was acknowledged".to_owned(),
            Some(_) if is_known => "an earlier version is there".to_owned(),
            Some(bytes) => format!("{} bytes are there that nobody wrote", bytes.len()),
        };
        Err(format!("{key}: {what}"))
    }

    /// All names that were ever used.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        self.writes.keys().cloned().collect()
    }

    /// Whether all writes of an object were acknowledged.
    pub(super) fn is_acknowledged(&self, key: &str) -> bool {
        self.writes.get(key).is_none_or(|writes| writes.iter().all(|write| write.ended.is_some()))
    }

    /// Whether all writes of an object were acknowledged, one after the other.
    pub(super) fn is_certain(&self, key: &str) -> bool {
        let Some(writes) = self.writes.get(key) else { return true };
        let ends: Option<Vec<u64>> = writes.iter().map(|write| write.ended).collect();
        ends.is_some_and(|ends| writes.iter().skip(1).zip(&ends).all(|(next, end)| *end < next.begun))
    }
}

/// Whether a value may be seen between two moments.
fn may_be(writes: &[Write], value: &Value, from: u64, to: u64, except: Option<usize>) -> bool {
    let is_over = |write: &Write| {
        let later = |other: &Write| {
            let is_after = write.ended.is_some_and(|end| other.begun > end);
            is_after && other.ended.is_some_and(|end| end < from) && other.value != *value
        };
        writes.iter().any(later)
    };
    let candidates = writes.iter().enumerate().filter(|(number, _)| Some(*number) != except);
    let mut candidates = candidates.map(|(_, write)| write);
    candidates.any(|write| write.value == *value && write.begun <= to && !is_over(write))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_read() {
        let mut model = Model::default();
        let [a, b] = ["a", "b"].map(|text| Some(Bytes::from(text)));
        let read = |model: &mut Model, value: &Value| {
            let from = model.now();
            model.read("k", value, from).is_ok()
        };
        assert!(read(&mut model, &None) && !read(&mut model, &a));
        let first = model.begin("k", a.clone());
        assert!(read(&mut model, &None) && read(&mut model, &a));
        model.acknowledge(&first, false).unwrap();
        assert!(!read(&mut model, &None) && read(&mut model, &a) && !read(&mut model, &b));
        let second = model.begin("k", b.clone());
        assert!(read(&mut model, &a) && read(&mut model, &b) && !model.is_certain("k"));
        let removed = model.begin("k", None);
        model.acknowledge(&removed, true).unwrap();
        // It may still come.
        assert!(read(&mut model, &b) && read(&mut model, &None) && !read(&mut model, &a));
        model.acknowledge(&second, true).unwrap();
        assert!(read(&mut model, &b) && read(&mut model, &None));
        let third = model.begin("k", a.clone());
        model.acknowledge(&third, true).unwrap();
        let refused = model.begin("k", b.clone());
        assert!(model.acknowledge(&refused, false).is_err());
    }
}

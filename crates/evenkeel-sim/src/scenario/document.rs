//! A scenario as text, with the position of each key for error messages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// A key set from outside: its path, separated by dots, and its value as written after `=` in the file. Text needs no
/// quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The path of the key.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl std::str::FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        match parts {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                Ok(Self { key: key.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{text}` is not an assignment; write KEY=VALUE, such as servers.s3.speed=0.1")),
        }
    }
}

/// The location of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of the file, counted from 1.
    Line(u64),
    /// A key set from outside.
    Set(Set),
    /// The file as a whole.
    Whole,
}

/// An error in a scenario: what is wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScenarioError {
    /// Where.
    pub place: Place,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Position of each key of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Places {
    text: Arc<str>,
    sets: Vec<Set>,
    offsets: BTreeMap<String, usize>,
}

impl Places {
    /// An error at a key or, if the key is missing, at the table it belongs to.
    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> ScenarioError {
        let mut key = key;
        let offset = loop {
            match (self.offsets.get(key), key.rsplit_once('.')) {
                (Some(&offset), _) => break Some(offset),
                (None, Some((table, _))) => key = table,
                (None, None) => break None,
            }
        };
        ScenarioError { place: self.place(offset), message: message.into() }
    }

    /// Whether a key was given.
    pub(super) fn has(&self, key: &str) -> bool {
        self.offsets.contains_key(key)
    }

    /// Translates an offset. Keys set from outside lie behind the end of the text, one character each.
    fn place(&self, offset: Option<usize>) -> Place {
        let Some(offset) = offset else { return Place::Whole };
        match offset.checked_sub(self.text.len() + 1).and_then(|k| self.sets.get(k)) {
            Some(set) => Place::Set(set.clone()),
            None => Place::Line(line(&self.text, offset)),
        }
    }

    /// Translates an error of the parser. For an unknown key it suggests the one that was probably meant, which may be
    /// one of the `further` keys that were taken out before.
    fn explain(&self, error: &toml::de::Error, further: &[&str]) -> ScenarioError {
        let place = self.place(error.span().map(|span| span.start));
        ScenarioError { place, message: plainer(error.message(), further) }
    }

    fn note(&mut self, path: &str, value: &Spanned<DeValue<'_>>, at: usize) {
        self.offsets.insert(path.to_owned(), at);
        match value.get_ref() {
            DeValue::Table(table) => {
                for (key, value) in table {
                    self.note(&format!("{path}.{}", key.get_ref()), value, key.span().start);
                }
            }
            DeValue::Array(items) => {
                for (k, item) in items.iter().enumerate() {
                    self.note(&format!("{path}.{k}"), item, item.span().start);
                }
            }
            _ => {}
        }
    }
}

fn line(text: &str, offset: usize) -> u64 {
    text.as_bytes()[..offset.min(text.len())].split(|&byte| byte == b'\n').count() as u64
}

/// Serde's message about an unknown key, with the nearest known key.
fn plainer(message: &str, further: &[&str]) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = match message {
        _ if message.starts_with("unknown field") => "key",
        _ if message.starts_with("unknown variant") => "choice",
        _ => return in_words(&message.replace('\n', " ")),
    };
    let wrong = quoted.next().unwrap_or_default();
    not_known(unknown, wrong, &further.iter().copied().chain(quoted).collect::<Vec<_>>())
}

/// Serde's message about a value, without the names of types.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let expected = match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, not below 0",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "text in quotes",
        "a sequence" => "a list in brackets",
        other => other,
    };
    format!("{found}, expected {expected}")
}

/// Message for an unknown name: the nearest known name, and all known names.
pub fn not_known(what: &str, wrong: &str, known: &[&str]) -> String {
    let distance = |name: &&&str| strsim::osa_distance(name, wrong);
    let nearest = known.iter().min_by_key(distance).filter(|name| distance(name) <= 2 + name.len() / 4);
    let hint = nearest.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
    let the = if hint.is_empty() { "the" } else { "The" };
    let wrong = evenkeel::model::shown(wrong);
    match known {
        [] => format!("there is no {what} `{wrong}` here"),
        _ => format!("there is no {what} `{wrong}`; {hint}{the} known ones are {}", known.join(", ")),
    }
}

/// Maximum nesting depth of a key.
const MOST_DEPTH: usize = 16;

/// A scenario that is read but not yet interpreted.
pub(super) struct Document<'a> {
    root: DeTable<'a>,
    pub(super) places: Places,
}

impl<'a> Document<'a> {
    /// Parses a text, then sets some keys.
    pub(super) fn new(text: &'a str, sets: &'a [Set]) -> Result<Self, ScenarioError> {
        let mut places = Places { text: text.into(), sets: sets.to_vec(), offsets: BTreeMap::new() };
        let mut root = DeTable::parse(text).map_err(|error| places.explain(&error, &[]))?.into_inner();
        for (k, set) in sets.iter().enumerate() {
            let at = text.len() + 1 + k;
            if set.key.split('.').count() > MOST_DEPTH {
                let message = "no key is nested that deep; see docs/simulate.md for the keys".to_owned();
                return Err(ScenarioError { place: Place::Set(set.clone()), message });
            }
            put(&mut root, &set.key, value(&set.value), at..at + 1)
                .map_err(|message| ScenarioError { place: Place::Set(set.clone()), message })?;
        }
        for (key, value) in &root {
            places.note(key.get_ref(), value, key.span().start);
        }
        Ok(Self { root, places })
    }

    /// Takes out a table that is interpreted separately.
    pub(super) fn take(&mut self, key: &str) -> Result<DeTable<'a>, ScenarioError> {
        match self.root.remove(key).map(Spanned::into_inner) {
            None => Ok(DeTable::new()),
            Some(DeValue::Table(table)) => Ok(table),
            Some(_) => Err(self.places.error(key, format!("`{key}` is a table; write [{key}]"))),
        }
    }

    /// Interprets a table at that path.
    pub(super) fn parse<T: DeserializeOwned>(
        &self,
        path: &str,
        table: DeTable<'a>,
    ) -> Result<T, ScenarioError> {
        let at = self.places.offsets.get(path).copied().unwrap_or(0);
        let deserializer = ValueDeserializer::from(Spanned::new(at..at, DeValue::Table(table)));
        let further: &[&str] = if path == "workload" { &["kind"] } else { &[] };
        T::deserialize(deserializer).map_err(|error| self.places.explain(&error, further))
    }

    /// Interprets everything that was not taken out.
    pub(super) fn parse_rest<T: DeserializeOwned>(&mut self) -> Result<T, ScenarioError> {
        let root = std::mem::take(&mut self.root);
        self.parse("", root)
    }
}

/// Parses a value as written in TOML, or else takes it as text.
fn value(text: &str) -> DeValue<'_> {
    DeValue::parse(text).map_or_else(|_| DeValue::String(text.into()), Spanned::into_inner)
}

/// Puts a value at the end of a path, through tables and, by index, through lists.
fn put<'a>(
    table: &mut DeTable<'a>,
    path: &str,
    value: DeValue<'a>,
    span: Range<usize>,
) -> Result<(), String> {
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let spanned_key = || Spanned::new(span.clone(), key.to_owned().into());
    let Some(rest) = rest else {
        table.remove(key);
        table.insert(spanned_key(), moved(value, &span));
        return Ok(());
    };
    if !table.contains_key(key) {
        table.insert(spanned_key(), Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
    }
    match table.get_mut(key).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) => put(inner, rest, value, span),
        Some(DeValue::Array(items)) => {
            let (number, rest) = rest.split_once('.').unwrap_or((rest, ""));
            let n = items.len();
            let item = number.parse().ok().and_then(|k: usize| items.get_mut(k)).map(Spanned::get_mut);
            match item {
                Some(DeValue::Table(inner)) if !rest.is_empty() => put(inner, rest, value, span),
                Some(_) => Err(format!("`{key}.{number}` is not a table; name a key in one")),
                None => Err(format!("`{key}` is a list of {n}; name one by its number, from 0: {key}.0.…")),
            }
        }
        _ => Err(format!("`{key}` is not a table, so there is no `{path}`; name an existing key")),
    }
}

/// The value with all of its spans set to `span`.
fn moved<'a>(value: DeValue<'a>, span: &Range<usize>) -> Spanned<DeValue<'a>> {
    let value = match value {
        DeValue::Array(items) => {
            DeValue::Array(items.into_iter().map(|item| moved(item.into_inner(), span)).collect())
        }
        DeValue::Table(table) => DeValue::Table(
            table
                .into_iter()
                .map(|(key, value)| {
                    (Spanned::new(span.clone(), key.into_inner()), moved(value.into_inner(), span))
                })
                .collect(),
        ),
        value => value,
    };
    Spanned::new(span.clone(), value)
}

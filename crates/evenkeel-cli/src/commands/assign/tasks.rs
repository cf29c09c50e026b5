//! Tasks on real storage: which parts of which objects each reads.

use std::io::Cursor;

use anyhow::{Result, bail, ensure};
use evenkeel_formats::{InputError, Reading, quoted, read_globs};
use evenkeel_store::{Catalogue, CatalogueObject};

use super::super::live;
use crate::cli::{AssignArgs, By};
use crate::input::Source;
use crate::output::warn;
use crate::text::counted;

/// The most inputs of all tasks; more would not be listed but broken into crumbs.
const MOST_INPUTS: usize = 1 << 26;

/// Where the inputs of tasks are in objects, in order of inputs.
#[derive(Default)]
pub(super) struct Splits {
    paths: Vec<String>,
    /// The number of the path, where the part begins, and its size.
    parts: Vec<(usize, u64, u64)>,
}

/// A part of an object that a task reads.
pub(super) struct Split<'a> {
    pub(super) path: &'a str,
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Splits {
    pub(super) fn of(&self, input: usize) -> Split<'_> {
        let (path, start, length) = self.parts[input];
        Split { path: &self.paths[path], start, length }
    }
}

/// Lists storage: its tasks, as CSV, and where their inputs are.
pub(super) fn listed(args: &AssignArgs) -> Result<(Source, Splits)> {
    let address = args.tasks.as_ref().map(|path| path.display().to_string());
    let sources: Vec<String> = address.iter().cloned().collect();
    let catalogue = live::runtime()?.block_on(live::catalogue(&args.storage.source, &sources))?;
    let mut rows = Rows {
        catalogue: &catalogue,
        split: args.storage.split,
        text: Vec::new(),
        splits: Splits::default(),
    };
    rows.text.extend_from_slice(b"task,bytes,replicas\n");
    match &args.inputs {
        Some(globs) => rows.by_globs(Source::open(globs)?)?,
        None => rows.by_object(args.by)?,
    }
    let name = address.unwrap_or_else(|| "the sources".to_owned());
    Ok((Source { name, reader: Box::new(Cursor::new(rows.text)) }, rows.splits))
}

struct Rows<'a> {
    catalogue: &'a Catalogue,
    split: Option<u64>,
    text: Vec<u8>,
    splits: Splits,
}

impl Rows<'_> {
    /// A task for each object, or for each part of it.
    fn by_object(&mut self, by: By) -> Result<()> {
        for object in self.catalogue.objects() {
            let task = (by == By::File).then_some(object.key.as_str());
            self.add(&object, task)?;
        }
        Ok(())
    }

    /// Tasks that read all objects that match.
    fn by_globs(&mut self, globs: Source) -> Result<()> {
        let tasks = read_globs(globs.reader, &Reading::of(&globs.name))?;
        let mut is_read = vec![false; self.catalogue.n_objects()];
        for (task, globs_of_task) in &tasks {
            let mut inputs = Vec::new();
            for (line, glob) in globs_of_task {
                let pattern = live::pattern(glob)?;
                let before = inputs.len();
                inputs.extend(
                    (0..self.catalogue.n_objects())
                        .filter(|&n| live::is_match(&pattern, self.catalogue.key(n))),
                );
                if inputs.len() == before {
                    let message = format!("no object matches `{glob}`; name objects as evenkeel locate does");
                    return Err(InputError { file: globs.name, line: Some(*line), message }.into());
                }
            }
            inputs.sort_unstable();
            inputs.dedup();
            for number in inputs {
                is_read[number] = true;
                self.add(&self.catalogue.object(number), Some(task))?;
            }
        }
        match is_read.iter().filter(|is_read| !**is_read).count() as u64 {
            0 => Ok(()),
            n => Ok(warn(&format!("{} are read by no task", counted(n, "object")))?),
        }
    }

    /// Adds the parts of an object as inputs of a task, or each as a task of its own.
    fn add(&mut self, object: &CatalogueObject, task: Option<&str>) -> Result<()> {
        let path = self.splits.paths.len();
        self.splits.paths.push(self.catalogue.url(object).to_owned());
        let cuts = self.catalogue.cuts(object);
        if cuts.is_empty() {
            // Nothing is in it, and nobody holds it: it can be read anywhere.
            let anywhere: Vec<usize> = (0..self.catalogue.servers().len().min(1)).collect();
            return self.push(task.unwrap_or(&object.key), path, (0, 0), &anywhere);
        }
        let mut start = 0;
        for &end in &cuts {
            let servers = self.catalogue.servers_of(object, &(start..end));
            let name = if cuts.len() > 1 { format!("{}@{start}", object.key) } else { object.key.clone() };
            let piece = self.split.filter(|&piece| end - start > piece);
            let n_pieces = piece.map_or(1, |piece| (end - start).div_ceil(piece));
            ensure!(
                n_pieces <= MOST_INPUTS as u64,
                "{}: more than {MOST_INPUTS} pieces; use larger ones",
                object.key
            );
            for nth in 0..n_pieces {
                let from = start + nth * piece.unwrap_or(0);
                let bytes = piece.map_or(end - start, |piece| piece.min(end - from));
                let numbered = piece.map(|_| format!("{name}#{nth}"));
                self.push(task.or(numbered.as_deref()).unwrap_or(&name), path, (from, bytes), &servers)?;
            }
            start = end;
        }
        Ok(())
    }

    fn push(&mut self, task: &str, path: usize, (start, bytes): (u64, u64), servers: &[usize]) -> Result<()> {
        if servers.is_empty() {
            bail!("{}: no server holds bytes {start} to {}", self.splits.paths[path], start + bytes);
        }
        ensure!(self.splits.parts.len() < MOST_INPUTS, "more than {MOST_INPUTS} inputs; use larger pieces");
        let names: Vec<&str> =
            servers.iter().map(|&server| self.catalogue.servers()[server].as_str()).collect();
        let row = format!("{},{bytes},{}\n", quoted(task), quoted(&names.join("|")));
        self.text.extend_from_slice(row.as_bytes());
        self.splits.parts.push((path, start, bytes));
        Ok(())
    }
}

//! Tasks that read several objects, as CSV: `task,glob`.

use std::io::BufRead;

use evenkeel::assign::MAX_INPUTS;
use evenkeel::model::NameTable;

use crate::table::Table;
use crate::{InputError, Reading};

/// A task, and the patterns of what it reads, each with its line.
pub type TaskGlobs = (String, Vec<(u64, String)>);

/// Reads tasks with the patterns of their inputs, which `|` separates. Rows with the same task add up.
pub fn read_globs(reader: impl BufRead, reading: &Reading<'_>) -> Result<Vec<TaskGlobs>, InputError> {
    let mut table = Table::open(reader, reading, &["task", "glob"], &[])?;
    let (mut names, mut tasks) = (NameTable::new(), Vec::<TaskGlobs>::new());
    let mut n_globs = 0;
    while table.next()? {
        let name = table.required(0)?.to_owned();
        if names.find(&name).is_none() {
            names.insert(&name, "task").map_err(|e| table.error(e))?;
            tasks.push((name.clone(), Vec::new()));
        }
        let task = names.find(&name).unwrap_or_default() as usize;
        for glob in table.required(1)?.split('|') {
            n_globs += 1;
            if glob.is_empty() || n_globs > MAX_INPUTS {
                return Err(table.error("a pattern is missing; write such as mesh/0*.vtu"));
            }
            tasks[task].1.push((table.line(), glob.to_owned()));
        }
    }
    Ok(tasks)
}

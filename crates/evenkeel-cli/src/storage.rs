//! Real storage in place of a file: it is listed, and the list takes the file's place.

use std::io::Cursor;
use std::path::Path;

use anyhow::Result;
use evenkeel::model::{Batch, NameTable};
use evenkeel_formats::import::{Clients, Deal};
use evenkeel_formats::write_batch_csv;

use crate::cli::StorageArgs;
use crate::commands::locate;
use crate::commands::sources::is_metalink;
use crate::input::Source;

impl StorageArgs {
    /// The batch at a path, or that of what is on real storage. Its requests are dealt to `clients`, if they are given,
    /// else to as many as there are servers.
    pub(crate) fn open_batch(&self, path: Option<&Path>, clients: Option<&NameTable>) -> Result<Source> {
        if let Some(file) = path.filter(|path| !self.is_storage(path)) {
            return Ok(Source::open(file)?);
        }
        let clients = clients.cloned().map_or(Clients::OnePerServer, Clients::Named);
        self.listed(path, clients, |batch, out| write_batch_csv(batch, out))
    }

    /// Whether a path names storage, not a file about it.
    pub(crate) fn is_storage(&self, path: &Path) -> bool {
        let is_address = path.to_str().is_some_and(|text| text.contains("://"));
        // Beside mirrors it is a source that is one too many, and is refused as such.
        is_address || is_metalink(path) || path.is_dir() || !self.source.mirrors.is_empty()
    }

    /// What is on storage, written in a format that can be read.
    fn listed(
        &self,
        path: Option<&Path>,
        clients: Clients,
        write: impl FnOnce(&Batch, &mut Vec<u8>) -> std::io::Result<()>,
    ) -> Result<Source> {
        let address = path.map(|path| path.display().to_string());
        let sources: Vec<String> = address.iter().cloned().collect();
        let gathered = locate::gather(&self.source, &sources, self.split)?;
        let batch = gathered.dealt_to(clients, Deal::RoundRobin)?.batch;
        let mut text = Vec::new();
        write(&batch, &mut text)?;
        let name = address.unwrap_or_else(|| "the mirrors".to_owned());
        Ok(Source { name, reader: Box::new(Cursor::new(text)) })
    }
}

//! Output files that are there whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::{Builder, NamedTempFile};

/// Where a command writes to. Dropped before [`Output::finish`], a file is as it was before.
pub(crate) enum Output {
    /// Standard output, or something that cannot be replaced, such as a pipe.
    Stream(BufWriter<Box<dyn Write>>),
    /// A file beside the one that it will replace.
    File { temporary: BufWriter<NamedTempFile>, path: PathBuf },
}

impl Output {
    /// Opens `path`; `-` is standard output. What cannot be written is found out now, not after the work.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::try_open(path).with_context(|| format!("cannot write {}", path.display()))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stream(BufWriter::new(Box::new(io::stdout()))));
        }
        // Behind a link, the file itself is replaced, not the link.
        let path = if path.exists() { fs::canonicalize(path)? } else { path.to_owned() };
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if path.exists() && !path.is_file() {
            let device = OpenOptions::new().write(true).open(&path)?;
            return Ok(Self::Stream(BufWriter::new(Box::new(device))));
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut prefix = OsString::from(".");
        prefix.push(path.file_name().unwrap_or_default());
        prefix.push(".");
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(".tmp");
        set_usual_permissions(&mut builder);
        let temporary = BufWriter::with_capacity(1 << 18, builder.tempfile_in(folder)?);
        Ok(Self::File { temporary, path })
    }

    /// Makes what was written last, and visible under its name.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Stream(mut stream) => stream.flush().context("cannot write the output"),
            Self::File { temporary, path } => {
                let persist = || -> io::Result<()> {
                    let temporary = temporary.into_inner().map_err(io::IntoInnerError::into_error)?;
                    temporary.as_file().sync_all()?;
                    temporary.persist(&path)?;
                    // The new name is safe once its folder is.
                    match path.parent().map(File::open) {
                        Some(Ok(folder)) => folder.sync_all(),
                        _ => Ok(()),
                    }
                };
                persist().with_context(|| "cannot write the output")
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.write(bytes),
            Self::File { temporary, .. } => temporary.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.flush(),
            Self::File { temporary, .. } => temporary.flush(),
        }
    }
}

/// Temporary files are private by default; the plan should be as readable as any other file.
#[cfg(unix)]
fn set_usual_permissions(builder: &mut Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn set_usual_permissions(_builder: &mut Builder<'_, '_>) {}

//! Output: files that are there whole or not at all, and standard output whose reader may leave.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::{Builder, NamedTempFile};

const BUFFER: usize = 1 << 18;

/// Text that only says something: whatever a terminal would take as a command, which may come from a file, is escaped.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && c != '\n';
    if !text.contains(is_command) {
        return text.into();
    }
    let mut printable = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_command(c) { printable.extend(c.escape_default()) } else { printable.push(c) }
    }
    printable.into()
}

/// Writes to standard output. A reader that has seen enough and left is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(printable(text).as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints what a command has to say: to standard error, if one of its `outputs` is standard output.
pub(crate) fn tell(text: &str, outputs: &[Option<&Path>]) -> io::Result<()> {
    if outputs.contains(&Some(Path::new("-"))) {
        io::stderr().write_all(printable(text).as_bytes())
    } else {
        print(text)
    }
}

/// Tells of something that may not be what was meant, on standard error.
pub(crate) fn warn(text: &str) -> io::Result<()> {
    writeln!(io::stderr(), "note: {text}")
}

/// Where a command will write to.
pub(crate) enum Target {
    /// Standard output.
    Stdout,
    /// Something that cannot be replaced, such as a pipe.
    Device(PathBuf, File),
    /// A file.
    File(PathBuf),
}

impl Target {
    /// Finds out, before any work is done, whether `path` can be written; `-` is standard output.
    ///
    /// Refuses to replace one of the `inputs`.
    pub(crate) fn new(path: &Path, inputs: &[&Path]) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        Self::find(path, inputs).with_context(|| format!("cannot write {}", path.display()))
    }

    fn find(path: &Path, inputs: &[&Path]) -> Result<Self> {
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Ok(Self::Device(path.to_owned(), OpenOptions::new().write(true).open(path)?));
        }
        let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        let path = match fs::canonicalize(path) {
            // Behind a link, the file itself is replaced, not the link.
            Ok(path) => path,
            Err(_) if is_link => bail!("it is a link to nothing"),
            Err(_) => path.to_owned(),
        };
        if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            bail!("it is a folder; name a file");
        }
        if inputs.iter().any(|input| fs::canonicalize(input).is_ok_and(|input| input == path)) {
            bail!("it is an input of this command; name another file");
        }
        // Made and removed at once, to see whether it can be.
        temporary_for(&path)?;
        Ok(Self::File(path))
    }

    /// Writes what `write` gives. A file is replaced only when all of it is safely on disk.
    pub(crate) fn write(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        match self {
            Self::Stdout => {
                let mut out = BufWriter::with_capacity(BUFFER, io::stdout());
                match write(&mut out).and_then(|()| out.flush()) {
                    // Not an error, and nothing that is still buffered can be written.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => drop(out.into_parts()),
                    result => result.context("cannot write to standard output")?,
                }
                Ok(())
            }
            Self::Device(path, device) => {
                let mut out = BufWriter::with_capacity(BUFFER, device);
                let result = write(&mut out).and_then(|()| out.flush());
                drop(out.into_parts());
                // As text: to `main`, a pipe that breaks is standard output.
                result.map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
            }
            Self::File(path) => replace(&path, write)
                .map_err(|error| anyhow::anyhow!("cannot write {}: {}", path.display(), plain(&error))),
        }
    }
}

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut temporary = BufWriter::with_capacity(BUFFER, temporary_for(path)?);
    write(&mut temporary)?;
    let temporary = temporary.into_inner().map_err(io::IntoInnerError::into_error)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    // The new name is safe once its folder is.
    if cfg!(unix) { File::open(folder_of(path))?.sync_all() } else { Ok(()) }
}

/// A file beside `path`, as readable as the one that it will replace, or as any new file.
fn temporary_for(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(".evenkeel-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(permissions_for(path));
    builder.tempfile_in(folder_of(path)).map_err(|error| io::Error::new(error.kind(), plain(&error)))
}

#[cfg(unix)]
fn permissions_for(path: &Path) -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    let existing = fs::metadata(path).map(|metadata| metadata.permissions());
    existing.unwrap_or_else(|_| fs::Permissions::from_mode(0o666))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The error without the name of the temporary file, which means nothing to anybody.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" at path ").next().unwrap_or_default().to_owned()
}

//! Output: files that are complete or absent, and standard output, whose reader may leave early.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::{Builder, NamedTempFile};

const BUFFER: usize = 1 << 18;

/// Escapes every control character except newlines. Text may come from a file, and a terminal would obey such
/// characters.
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

/// Writes to standard output. It is no error if the reader has closed it.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(printable(text).as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints a message of a command: to standard error if one of its `outputs` is standard output, else to standard
/// output.
pub(crate) fn tell(text: &str, outputs: &[Option<&Path>]) -> io::Result<()> {
    if outputs.contains(&Some(Path::new("-"))) {
        io::stderr().write_all(printable(text).as_bytes())
    } else {
        print(text)
    }
}

/// Warns on standard error about something that may not be intended.
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

/// Where a command will write each of its outputs, given with the names of their options. Refuses two outputs in one
/// place.
pub(crate) fn targets<const N: usize>(
    outputs: [(&str, Option<&Path>); N],
    inputs: &[&Path],
) -> Result<[Option<Target>; N]> {
    let mut targets = [const { None }; N];
    for (k, (option, path)) in outputs.iter().enumerate() {
        let Some(path) = path else { continue };
        let target = Target::new(path, inputs)?;
        if let Some(other) = targets[..k].iter().position(|other| target.is_same(other.as_ref())) {
            bail!(
                "{} and {option} would write to the same file; name another file for one of them",
                outputs[other].0
            );
        }
        targets[k] = Some(target);
    }
    Ok(targets)
}

impl Target {
    fn is_same(&self, other: Option<&Self>) -> bool {
        match (self, other) {
            (Self::Stdout, Some(Self::Stdout)) => true,
            (Self::File(a), Some(Self::File(b))) => a == b,
            _ => false,
        }
    }

    /// Checks, before any work is done, whether `path` can be written. `-` is standard output.
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
        if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            bail!("it is a folder; name a file");
        }
        let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        let path = match fs::canonicalize(path) {
            // If the path is a link, the file behind it is replaced, not the link.
            Ok(path) => path,
            Err(_) if is_link => bail!("it is a broken link; name another file, or remove the link"),
            Err(_) => absolute(path),
        };
        if inputs.iter().any(|input| is_read_from(input, &path)) {
            bail!("it is an input of this command; name another file");
        }
        check_replaceable(&path)?;
        // Created and removed at once, to check that it can be created.
        temporary_for(&path)?;
        Ok(Self::File(path))
    }

    /// Writes the output of `write`. A file is replaced only when all of the new one is safely on disk.
    pub(crate) fn write(self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        match self {
            Self::Stdout => {
                let mut out = BufWriter::with_capacity(BUFFER, io::stdout());
                match write(&mut out).and_then(|()| out.flush()) {
                    // Not an error. What is still buffered cannot be written.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => drop(out.into_parts()),
                    result => result.context("cannot write to standard output")?,
                }
                Ok(())
            }
            Self::Device(path, device) => {
                let mut out = BufWriter::with_capacity(BUFFER, device);
                let result = write(&mut out).and_then(|()| out.flush());
                drop(out.into_parts());
                // As text, because `main` takes a broken pipe to be standard output.
                result.map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
            }
            Self::File(path) => replace(&path, write)
                .map_err(|error| anyhow::anyhow!("cannot write {}: {}", path.display(), plain(&error))),
        }
    }
}

/// Refuses a read-only file: a rename would replace it anyway.
fn check_replaceable(path: &Path) -> Result<()> {
    // Root may write to any file, but a file without write permission is meant to stay.
    match fs::metadata(path) {
        Ok(metadata) if metadata.permissions().readonly() => {
            bail!("it is read-only; name another file, or make it writable")
        }
        Ok(_) => OpenOptions::new().write(true).open(path).map(drop).map_err(Into::into),
        Err(_) => Ok(()),
    }
}

/// Whether the input `input`, which may be standard input, comes from the file `path`.
fn is_read_from(input: &Path, path: &Path) -> bool {
    let input_id = if input == Path::new("-") { stdin_id() } else { FileId::of(input) };
    input_id.is_some() && input_id == FileId::of(path)
}

/// Identifies a file: two names of one file have equal ids.
#[derive(PartialEq, Eq)]
struct FileId {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    #[cfg(not(unix))]
    path: PathBuf,
}

#[cfg(unix)]
impl FileId {
    fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(Self::from)
    }
}

#[cfg(unix)]
impl From<fs::Metadata> for FileId {
    fn from(metadata: fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device_and_inode: (metadata.dev(), metadata.ino()) }
    }
}

#[cfg(unix)]
fn stdin_id() -> Option<FileId> {
    use std::os::fd::AsFd;
    let stdin = io::stdin().as_fd().try_clone_to_owned().ok()?;
    File::from(stdin).metadata().ok().map(FileId::from)
}

#[cfg(not(unix))]
impl FileId {
    fn of(path: &Path) -> Option<Self> {
        fs::canonicalize(path).ok().map(|path| Self { path })
    }
}

#[cfg(not(unix))]
fn stdin_id() -> Option<FileId> {
    None
}

fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut temporary = BufWriter::with_capacity(BUFFER, temporary_for(path)?);
    write(&mut temporary)?;
    let temporary = temporary.into_inner().map_err(io::IntoInnerError::into_error)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    // The new name is safe once its folder is synced.
    if cfg!(unix) { File::open(folder_of(path))?.sync_all() } else { Ok(()) }
}

/// A temporary file beside `path`, with the permissions of the file that it will replace, or of any new file.
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

/// The path of a file that does not exist yet, with the real name of its folder.
fn absolute(path: &Path) -> PathBuf {
    match (fs::canonicalize(folder_of(path)), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The error without the name of the temporary file, which means nothing to the user.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" at path ").next().unwrap_or_default().to_owned()
}

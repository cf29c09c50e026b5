//! The keys of a node or of a cluster: an access key that names its owner, and a secret key that signs.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

/// A pair of keys. It is shown without the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Who it is.
    pub access_key: String,
    /// What shows it.
    pub secret_key: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// Keys cannot be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum NoCredentials {
    #[error("cannot read the keys in {path}: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error("{path} holds no keys ({why}); it needs two lines, access_key = \"…\" and secret_key = \"…\"")]
    NotKeys { path: String, why: String },
    #[error("{path} can be read by others; run chmod 600 {path}")]
    ReadByOthers { path: String },
    #[error("cannot write new keys to {path}: {error}")]
    Unwritable { path: String, error: io::Error },
    #[error("{0} is set and {1} is not; set both, or neither")]
    OnlyOne(&'static str, &'static str),
    #[error("{0} is not set; it should hold the {1} key of the cluster")]
    NotSet(String, &'static str),
}

/// A larger file is not one of keys.
const MOST_BYTES: u64 = 16 << 10;

impl Credentials {
    /// Reads the keys that a file holds.
    pub fn read(path: &Path) -> Result<Self, NoCredentials> {
        use io::Read;
        use std::os::unix::fs::PermissionsExt;
        let name = || path.display().to_string();
        let unreadable = |error| NoCredentials::Unreadable { path: name(), error };
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.permissions().mode() & 0o077 != 0 {
            return Err(NoCredentials::ReadByOthers { path: name() });
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        // An error of the parser would quote the line, which may be the one with the secret.
        let keys: Self = toml::from_str(&text).map_err(|_| NoCredentials::NotKeys {
            path: name(),
            why: "it is not TOML with just these two".to_owned(),
        })?;
        if keys.access_key.is_empty() || keys.secret_key.len() < 8 {
            let why = "a key is empty, or a secret key shorter than 8 characters".to_owned();
            return Err(NoCredentials::NotKeys { path: name(), why });
        }
        Ok(keys)
    }

    /// Reads the keys that a file holds. Where there is no file, makes one with new keys.
    pub fn read_or_make(path: &Path) -> Result<Self, NoCredentials> {
        match Self::read(path) {
            Err(NoCredentials::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let unwritable = |error| NoCredentials::Unwritable { path: path.display().to_string(), error };
        let keys = Self::draw().map_err(unwritable)?;
        let text = format!("access_key = \"{}\"\nsecret_key = \"{}\"\n", keys.access_key, keys.secret_key);
        let new = path.with_extension("new");
        let write = || {
            let _ = fs::remove_file(&new);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            File::open(path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")))?
                .sync_all()
        };
        write().map_err(unwritable)?;
        Ok(keys)
    }

    /// Keys that nobody can guess.
    fn draw() -> io::Result<Self> {
        let mut bytes = [0; 30];
        let n = getrandom(&mut bytes, GetRandomFlags::empty())?;
        if n < bytes.len() {
            return Err(io::Error::other("the system has no random numbers"));
        }
        let letters = |alphabet: &[u8], bytes: &[u8]| -> String {
            bytes.iter().map(|byte| char::from(alphabet[usize::from(*byte) % alphabet.len()])).collect()
        };
        // Alphabets of 32 and 64 letters, so that all are equally likely.
        let access_key = format!("EK{}", letters(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", &bytes[..10]));
        let secret: Vec<u8> = bytes[10..].iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
        Ok(Self { access_key, secret_key: letters(b"0123456789abcdef", &secret) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_made_once_and_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let keys = Credentials::read_or_make(&path).unwrap();
        assert_eq!(Credentials::read_or_make(&path).unwrap(), keys);
        assert_ne!(Credentials::draw().unwrap(), keys);
        assert_eq!((keys.access_key.len(), keys.secret_key.len()), (12, 40));
        assert!(!format!("{keys:?}").contains(&keys.secret_key));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Credentials::read(&path), Err(NoCredentials::ReadByOthers { .. })));
    }

    #[test]
    fn an_error_shows_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        for text in
            ["secret_key = \"hunter2hunter2\" x", "access_key = \"\"\nsecret_key = \"hunter2hunter2\""]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = Credentials::read(&path).unwrap_err().to_string();
            assert!(!error.contains("hunter2") && error.contains("needs two lines"), "{error}");
        }
    }
}

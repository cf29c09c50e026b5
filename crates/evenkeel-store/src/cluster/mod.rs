//! The cluster file: which servers there are, and how they are reached.
//!
//! ```toml
//! format = 1
//! replicas = 2                            # copies of each object; 1 unless it is told
//! credentials = "credentials"           # a file beside this one, or env:NAME for NAME_ACCESS_KEY and NAME_SECRET_KEY
//!
//! [[server]]
//! name = "s1"
//! endpoint = "http://10.0.0.1:9101"
//! control = "http://10.0.0.1:9201"      # of a node; a plain S3 endpoint has none
//! speed = 0.5                           # 1 unless it is told
//! region = "garage"                     # us-east-1 unless it is told
//! ```
//!
//! Keys are never written into it: it is copied to all clients, and into tickets and mails.

mod credentials;
mod listing;
pub mod redirect;
mod servers;
mod source;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use credentials::{Credentials, NoCredentials};
pub use listing::{At, Found, Listing, Stored};
pub use redirect::{Held, Redirect};
pub use servers::{ClusterServer, Load, Seen, Servers, Status, Usage, decoded, encoded};
pub use source::{Keel, KeelAddress, zeros};

/// A larger file describes no cluster.
const MOST_BYTES: u64 = 16 << 20;
/// More servers are a slip.
const MOST_SERVERS: usize = 100_000;

/// A cluster file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadCluster {
    #[error("cannot read {path}: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error("{path}: {why}")]
    Wrong { path: String, why: String },
    #[error(transparent)]
    Credentials(#[from] NoCredentials),
}

/// The servers of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The servers, in the order of the file.
    pub servers: Vec<Server>,
    /// The keys of all servers that name none of their own.
    pub credentials: Option<Reference>,
    /// Copies of each object.
    pub replicas: u32,
}

/// A server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// By which people, plans and redirects know it.
    pub name: String,
    /// Where it speaks S3.
    pub endpoint: String,
    /// Where a node listens for what S3 does not have. A plain S3 endpoint has none.
    pub control: Option<String>,
    /// How fast it is, in millionths of the usual speed.
    pub speed_millionths: u64,
    /// The region that its requests are signed for, if it is not `us-east-1`.
    pub region: Option<String>,
    /// Its keys, if they are not those of the cluster.
    pub credentials: Option<Reference>,
}

/// Where keys are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// In a file.
    File(PathBuf),
    /// In two variables of the environment that begin so.
    Environment(String),
}

impl Reference {
    fn parse(text: &str, beside: &Path) -> Result<Self, String> {
        match text.strip_prefix("env:") {
            Some("") => Err("credentials: `env:` names no variable; write env:NAME".to_owned()),
            Some(name) => Ok(Self::Environment(name.to_owned())),
            None if text.is_empty() || text.contains(['\n', '=']) => {
                Err("credentials are a file's name or env:NAME, never keys".to_owned())
            }
            None => Ok(Self::File(beside.join(text))),
        }
    }

    /// Looks the keys up.
    pub fn find(&self) -> Result<Credentials, NoCredentials> {
        match self {
            Self::File(path) => Credentials::read(path),
            Self::Environment(name) => {
                let variable = |what: &str, key| {
                    let variable = format!("{name}_{what}");
                    let value = std::env::var(&variable).ok().filter(|value| !value.is_empty());
                    value.ok_or(NoCredentials::NotSet(variable, key))
                };
                Ok(Credentials {
                    access_key: variable("ACCESS_KEY", "access")?,
                    secret_key: variable("SECRET_KEY", "secret")?,
                })
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    credentials: Option<String>,
    replicas: Option<u32>,
    #[serde(default)]
    server: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    endpoint: String,
    control: Option<String>,
    speed: Option<f64>,
    region: Option<String>,
    credentials: Option<String>,
}

impl Cluster {
    /// Reads a cluster file.
    pub fn read(path: &Path) -> Result<Self, BadCluster> {
        let name = || path.display().to_string();
        let unreadable = |error| BadCluster::Unreadable { path: name(), error };
        let mut text = String::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MOST_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, beside).map_err(|why| BadCluster::Wrong { path: name(), why })
    }

    /// Reads the text of a cluster file. Files that it names are looked for in the folder `beside`.
    pub fn parse(text: &str, beside: &Path) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        if document.format != 1 {
            return Err(format!("format {} is not known; this version reads format 1", document.format));
        }
        if document.server.is_empty() {
            return Err("it has no servers; add [[server]] with name and endpoint".to_owned());
        }
        if document.server.len() > MOST_SERVERS {
            return Err(format!("it has more than {MOST_SERVERS} servers"));
        }
        let reference = |text: Option<String>| text.map(|text| Reference::parse(&text, beside)).transpose();
        let credentials = reference(document.credentials)?;
        let mut servers = Vec::new();
        let (mut names, mut endpoints) = (BTreeSet::new(), BTreeSet::new());
        for row in document.server {
            let Row { name, endpoint, control, speed, region, credentials } = row;
            let at = |why: String| format!("server `{name}`: {why}");
            if name.is_empty() || name.contains(|c: char| c == '|' || c == ',' || c.is_control()) {
                return Err(at(
                    "a name needs a character, and has no `|`, comma or control character".to_owned()
                ));
            }
            let endpoint = address(&endpoint).map_err(at)?;
            let control = control.map(|control| address(&control)).transpose().map_err(at)?;
            let speed_millionths = match speed.unwrap_or(1.0) {
                speed if (1e-6..=1e6).contains(&speed) => (speed * 1e6).round() as u64,
                speed => return Err(at(format!("speed {speed} is not between 0.000001 and 1000000"))),
            };
            if !names.insert(name.clone()) {
                return Err(at("it is there twice; give each server a name of its own".to_owned()));
            }
            for address in [Some(&endpoint), control.as_ref()].into_iter().flatten() {
                if !endpoints.insert(address.clone()) {
                    return Err(at(format!(
                        "{address} is there twice; two servers cannot be at one address"
                    )));
                }
            }
            let credentials = reference(credentials).map_err(at)?;
            servers.push(Server { name, endpoint, control, speed_millionths, region, credentials });
        }
        let replicas = document.replicas.unwrap_or(1);
        if replicas == 0 || replicas as usize > servers.len() {
            return Err(format!("replicas = {replicas}: give 1 to {}, the number of servers", servers.len()));
        }
        Ok(Self { servers, credentials, replicas })
    }

    /// The keys of a server.
    pub fn credentials(&self, server: &Server) -> Result<Credentials, BadCluster> {
        let reference = server.credentials.as_ref().or(self.credentials.as_ref());
        let reference = reference.ok_or_else(|| BadCluster::Wrong {
            path: "the cluster file".to_owned(),
            why: format!("server `{}` has no credentials, and neither has the cluster", server.name),
        })?;
        Ok(reference.find()?)
    }
}

/// The text of a cluster file for these servers, whose keys are in a file of that name beside it.
pub fn write(servers: &[Server], credentials: &str) -> String {
    // A string of JSON is one of TOML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = format!("format = 1\ncredentials = {}\n", quoted(credentials));
    for server in servers {
        let _ = write!(
            text,
            "\n[[server]]\nname = {}\nendpoint = {}\n",
            quoted(&server.name),
            quoted(&server.endpoint)
        );
        if let Some(control) = &server.control {
            let _ = writeln!(text, "control = {}", quoted(control));
        }
        if server.speed_millionths != 1_000_000 {
            let _ = writeln!(text, "speed = {}", server.speed_millionths as f64 / 1e6);
        }
        if let Some(region) = &server.region {
            let _ = writeln!(text, "region = {}", quoted(region));
        }
    }
    text
}

/// An address without a path or a slash at its end.
fn address(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.map(|rest| rest.trim_end_matches('/')).unwrap_or_default();
    let is_host = !host.is_empty() && !host.contains(|c: char| "/?#@".contains(c) || c.is_whitespace());
    if is_host {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err(format!(
            "`{text}` is no address; write http://HOST:PORT or https://HOST:PORT, without a path or keys"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "format = 1\ncredentials = \"keys\"\n[[server]]\nname = \"s1\"\nendpoint = \"http://h:1/\"\n\
                        control = \"http://h:2\"\n[[server]]\nname = \"s2\"\nendpoint = \"https://g\"\nspeed = 0.1\nregion = \"garage\"\n\
                        credentials = \"env:GARAGE\"\n";

    #[test]
    fn what_is_written_is_read() {
        let cluster = Cluster::parse(FILE, Path::new("/etc/keel")).unwrap();
        assert_eq!(cluster.credentials, Some(Reference::File("/etc/keel/keys".into())));
        assert_eq!(cluster.servers[0].endpoint, "http://h:1");
        assert_eq!(cluster.servers[1].speed_millionths, 100_000);
        assert_eq!(cluster.servers[1].credentials, Some(Reference::Environment("GARAGE".to_owned())));
        let mut servers = cluster.servers;
        servers[1].credentials = None;
        let again = Cluster::parse(&write(&servers, "keys"), Path::new("/etc/keel")).unwrap();
        assert_eq!(again.servers, servers);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("format = 1", "format = 2", "format 2 is not known"),
            ("name = \"s2\"", "name = \"s1\"", "server `s1`: it is there twice"),
            ("https://g", "http://h:1", "http://h:1 is there twice"),
            ("https://g", "ftp://g", "`ftp://g` is no address"),
            ("https://g", "https://user:key@g", "is no address"),
            ("0.1", "0", "speed 0 is not between"),
            ("0.1", "nan", "speed NaN is not between"),
            ("env:GARAGE", "env:", "names no variable"),
            ("speed", "sped", "unknown field `sped`"),
            ("keys", "secret=x", "never keys"),
            ("format = 1", "format = 1\nreplicas = 3", "give 1 to 2"),
        ];
        for (from, to, expected) in cases {
            let error = Cluster::parse(&FILE.replacen(from, to, 1), Path::new("")).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
        assert!(Cluster::parse("format = 1", Path::new("")).unwrap_err().contains("no servers"));
    }
}

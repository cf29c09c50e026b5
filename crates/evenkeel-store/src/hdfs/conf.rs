//! Hadoop's own configuration, `core-site.xml` and `hdfs-site.xml`: where a cluster's NameNodes are, and what it wants of
//! its clients.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::xml::{Step, walk};

/// A NameNode that has not answered for this long has died, or is stopped, unless `ipc.client.rpc-timeout.ms` says
/// otherwise.
const RPC_TIMEOUT: Duration = Duration::from_secs(15);
/// A DataNode that has sent nothing for this long has died, unless `dfs.client.socket-timeout` says otherwise.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(20);
/// Where NameNodes answer unless somebody says otherwise.
const RPC_PORT: u16 = 8020;
/// The maximum size of a file of the configuration.
const MOST_BYTES: u64 = 16 << 20;
/// Variables within variables.
const MOST_LEVELS: usize = 20;

/// What the configuration says.
#[derive(Clone, Debug, Default)]
pub(super) struct Conf {
    properties: HashMap<String, String>,
}

/// A cluster, as far as a client has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// The name in its addresses: a nameservice, or a NameNode with its port.
    pub(super) authority: String,
    /// Its NameNodes, `host:port`. One of several is active.
    pub(super) namenodes: Vec<String>,
    /// Whether DataNodes are to be found by name, since their numbers are of a network of their own.
    pub(super) by_hostname: bool,
    /// How long a NameNode may take to answer, and how long a DataNode may send nothing.
    pub(super) rpc_timeout: Duration,
    pub(super) socket_timeout: Duration,
}

impl Conf {
    /// The configuration in the folder that `HADOOP_CONF_DIR` names, or else in that of `HADOOP_HOME`. There need not be
    /// one.
    pub(super) fn of_environment() -> Result<Self, String> {
        let home = || Some(PathBuf::from(std::env::var_os("HADOOP_HOME")?).join("etc/hadoop"));
        let folder = std::env::var_os("HADOOP_CONF_DIR").map(PathBuf::from).or_else(home);
        folder.map_or_else(|| Ok(Self::default()), |folder| Self::in_folder(&folder))
    }

    pub(super) fn in_folder(folder: &Path) -> Result<Self, String> {
        let mut conf = Self::default();
        for name in ["core-site.xml", "hdfs-site.xml"] {
            let path = folder.join(name);
            let at = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
            match std::fs::metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(at(&error)),
                Ok(metadata) if metadata.len() > MOST_BYTES => {
                    return Err(at(&"it is too large to be a configuration"));
                }
                Ok(_) => {}
            }
            let text = std::fs::read_to_string(&path).map_err(|error| at(&error))?;
            conf.add(&text).map_err(|error| at(&error))?;
        }
        Ok(conf)
    }

    /// Adds the properties of a document. Later ones replace earlier ones.
    pub(super) fn add(&mut self, xml: &str) -> Result<(), String> {
        let (mut name, mut value, mut is_whole) = (None, None, false);
        walk(xml, |step| {
            match step {
                Step::End("configuration", _) => is_whole = true,
                Step::Begin("property") => (name, value) = (None, None),
                Step::End("name", text) => name = Some(text.to_owned()),
                Step::End("value", text) => value = Some(text.to_owned()),
                Step::End("property", _) => {
                    if let Some((name, value)) = name.take().zip(value.take()) {
                        self.properties.insert(name, value);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        if is_whole { Ok(()) } else { Err("its element `configuration` has no end".to_owned()) }
    }

    /// A property, with the variables in it replaced, unless it is empty.
    fn get(&self, name: &str) -> Option<String> {
        let mut value = self.properties.get(name)?.clone();
        for _ in 0..MOST_LEVELS {
            let Some(begin) = value.find("${") else { break };
            let Some(end) = value[begin..].find('}').map(|end| begin + end) else { break };
            let variable = &value[begin + 2..end];
            let known = match variable.strip_prefix("env.") {
                Some(variable) => std::env::var(variable).ok(),
                None => self.properties.get(variable).cloned(),
            };
            let Some(known) = known else { break };
            value.replace_range(begin..=end, &known);
        }
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Files of tokens, beside that of `HADOOP_TOKEN_FILE_LOCATION`.
    pub(super) fn token_files(&self) -> Vec<PathBuf> {
        let files = self.get("hadoop.token.files").unwrap_or_default();
        files.split(',').map(str::trim).filter(|file| !file.is_empty()).map(PathBuf::from).collect()
    }

    fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "true")
    }

    /// A time in milliseconds. Zero stands for the usual one.
    fn time(&self, name: &str, usual: Duration) -> Duration {
        let time = self.get(name).and_then(|value| value.trim_end_matches("ms").parse().ok());
        time.filter(|&time| time > 0).map_or(usual, Duration::from_millis)
    }

    /// What is known about the cluster of this name: a NameNode's host with or without its port, a nameservice, or
    /// nothing for the usual cluster.
    pub(super) fn cluster(&self, authority: &str) -> Result<Cluster, String> {
        let usual = match authority {
            "" => self.usual_cluster()?,
            _ => String::new(),
        };
        let authority = if authority.is_empty() { usual.as_str() } else { authority };
        if authority.contains('@') {
            return Err("the address names a user; name them by HADOOP_USER_NAME".to_owned());
        }
        for (property, value) in [
            ("dfs.data.transfer.protection", self.get("dfs.data.transfer.protection")),
            (
                "dfs.encrypt.data.transfer",
                self.get("dfs.encrypt.data.transfer").filter(|value| value == "true"),
            ),
        ] {
            if let Some(value) = value {
                return Err(format!(
                    "the cluster protects its data transfer ({property} is {value}), which cannot be read this way; \
                     use webhdfs:// or hadoop fs -get"
                ));
            }
        }
        let namenodes = self.namenodes(authority)?;
        let (authority, namenodes) = match namenodes.is_empty() {
            true => (with_port(authority)?, vec![with_port(authority)?]),
            false => (authority.to_owned(), namenodes),
        };
        Ok(Cluster {
            authority,
            namenodes,
            by_hostname: self.is_set("dfs.client.use.datanode.hostname"),
            rpc_timeout: self.time("ipc.client.rpc-timeout.ms", RPC_TIMEOUT),
            socket_timeout: self.time("dfs.client.socket-timeout", SOCKET_TIMEOUT),
        })
    }

    /// The cluster of addresses that name none.
    fn usual_cluster(&self) -> Result<String, String> {
        let usual = self.get("fs.defaultFS").or_else(|| self.get("fs.default.name"));
        let Some(usual) = usual else {
            return Err("the address names no NameNode, and there is no fs.defaultFS; write hdfs://namenode/path, or \
                        set HADOOP_CONF_DIR"
                .to_owned());
        };
        let authority = usual.strip_prefix("hdfs://").and_then(|rest| rest.split('/').next());
        authority
            .filter(|authority| !authority.is_empty())
            .map(str::to_owned)
            .ok_or_else(|| format!("fs.defaultFS is {usual}, and no HDFS; write hdfs://namenode/path"))
    }

    /// The NameNodes of a nameservice; none if it is none.
    fn namenodes(&self, service: &str) -> Result<Vec<String>, String> {
        let ids = self.get(&format!("dfs.ha.namenodes.{service}"));
        let services = self.get("dfs.nameservices").unwrap_or_default();
        let names: Vec<String> = match ids {
            Some(ids) => ids.split(',').map(|id| format!("{service}.{}", id.trim())).collect(),
            None if services.split(',').any(|known| known.trim() == service) => vec![service.to_owned()],
            None => Vec::new(),
        };
        let address = |name: &String| {
            let property = format!("dfs.namenode.rpc-address.{name}");
            let address = self.get(&property);
            with_port(&address.ok_or_else(|| format!("{property} is missing in the configuration"))?)
        };
        names.iter().map(address).collect()
    }
}

/// A host with its port, the usual one if there is none.
fn with_port(text: &str) -> Result<String, String> {
    let (host, port) = match text.rsplit_once(':') {
        // The colons of a bare IPv6 address are in brackets.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_plain = |c: char| !c.is_whitespace() && !"/?#%\\${}".contains(c);
    let is_host =
        !host.is_empty() && host.chars().all(is_plain) && (host.starts_with('[') || !host.contains(':'));
    let port = port.map_or(Some(RPC_PORT), |port| port.parse().ok().filter(|&port: &u16| port > 0));
    match port.filter(|_| is_host) {
        Some(port) => Ok(format!("{host}:{port}")),
        None => {
            Err(format!("`{text}` is no NameNode; write a host and its port, such as namenode:{RPC_PORT}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(properties: &[(&str, &str)]) -> Conf {
        let property = |(name, value): &(&str, &str)| {
            format!("<property><name>{name}</name><value>{value}</value></property>")
        };
        let text: String = properties.iter().map(property).collect();
        let mut conf = Conf::default();
        conf.add(&format!("<?xml version=\"1.0\"?><!-- x --><configuration>{text}</configuration>")).unwrap();
        conf
    }

    #[test]
    fn a_host_needs_no_configuration() {
        let cluster = |authority: &str| Conf::default().cluster(authority);
        assert_eq!(cluster("nn").unwrap().namenodes, ["nn:8020"]);
        assert_eq!(cluster("nn:9000").unwrap().authority, "nn:9000");
        assert_eq!(cluster("[::1]").unwrap().namenodes, ["[::1]:8020"]);
        assert_eq!(cluster("[::1]:9000").unwrap().namenodes, ["[::1]:9000"]);
        for wrong in ["nn:x", "nn:0", "nn:99999", "a b", "::1", ":8020", "me@nn", ""] {
            assert!(cluster(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nameservices_have_several_namenodes() {
        let conf = conf(&[
            ("fs.defaultFS", "hdfs://${service}/"),
            ("service", "main"),
            ("dfs.nameservices", "main, other"),
            ("dfs.ha.namenodes.main", "n1, n2"),
            ("dfs.namenode.rpc-address.main.n1", "a:8020"),
            ("dfs.namenode.rpc-address.main.n2", " b "),
            ("dfs.namenode.rpc-address.other", "c:9000"),
            ("dfs.client.use.datanode.hostname", "true"),
        ]);
        let main = conf.cluster("").unwrap();
        assert_eq!((main.authority.as_str(), main.by_hostname), ("main", true));
        assert_eq!(main.namenodes, ["a:8020", "b:8020"]);
        assert_eq!(conf.cluster("main"), Ok(main));
        assert_eq!(conf.cluster("other").unwrap().namenodes, ["c:9000"]);
        assert_eq!(conf.cluster("third").unwrap().namenodes, ["third:8020"]);
    }

    #[test]
    fn what_cannot_work_is_said() {
        let error =
            |properties: &[(&str, &str)], authority: &str| conf(properties).cluster(authority).unwrap_err();
        assert!(error(&[("fs.defaultFS", "file:///")], "").contains("no HDFS"));
        assert!(error(&[("dfs.data.transfer.protection", "privacy")], "nn").contains("webhdfs://"));
        assert!(error(&[("dfs.ha.namenodes.main", "n1")], "main").contains("rpc-address.main.n1 is missing"));
        // Variables that mean themselves end somewhere.
        let circular = [("fs.defaultFS", "hdfs://${a}"), ("a", "${b}"), ("b", "${a}")];
        assert!(conf(&circular).cluster("").is_err());
        assert!(Conf::default().add("<configuration><property></name>").is_err());
    }
}

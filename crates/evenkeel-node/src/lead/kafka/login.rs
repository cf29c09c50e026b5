//! How to connect to brokers, from the file of properties that Kafka's own tools take as `--command-config`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::super::EngineError;
use super::files;

/// What brokers want of those who connect. By default nothing, which Kafka calls PLAINTEXT.
#[derive(Clone, Default)]
pub struct Login {
    tls: Option<Arc<ClientConfig>>,
    plain: Option<(String, String)>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password.
        let user = self.plain.as_ref().map(|(user, _)| user);
        f.debug_struct("Login").field("tls", &self.tls.is_some()).field("user", &user).finish()
    }
}

/// What can be done about a login that is not supported.
const INSTEAD: &str = "connect by PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL with the mechanism PLAIN, or give the output \
                       of Kafka's own tools as files";

impl Login {
    /// Reads a file of properties: `security.protocol`, `sasl.mechanism` and `sasl.jaas.config`, and
    /// `ssl.truststore.location` of type PEM. What has nothing to do with logins is ignored.
    pub fn read(path: &Path) -> Result<Self, EngineError> {
        let text = files::read(path, "give properties as for --command-config of Kafka's own tools")?;
        Self::parse(&text).map_err(|why| EngineError(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let properties = properties(text);
        let value = |name: &str| properties.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let protocol = value("security.protocol").unwrap_or("PLAINTEXT");
        let (is_tls, is_sasl) = match protocol {
            "PLAINTEXT" => (false, false),
            "SSL" => (true, false),
            "SASL_PLAINTEXT" => (false, true),
            "SASL_SSL" => (true, true),
            other => return Err(format!("security.protocol is {other}; {INSTEAD}")),
        };
        let mut login = Self::default();
        if is_sasl {
            let mechanism = value("sasl.mechanism").unwrap_or("GSSAPI");
            if mechanism != "PLAIN" {
                return Err(format!("sasl.mechanism is {mechanism}; {INSTEAD}"));
            }
            let jaas =
                value("sasl.jaas.config").ok_or("sasl.jaas.config is missing; name user and password")?;
            let option = |name| jaas_option(jaas, name);
            let user = option("username").zip(option("password"));
            let form = "PlainLoginModule required username=\"…\" password=\"…\";";
            login.plain = Some(user.ok_or_else(|| format!("sasl.jaas.config has another form than {form}"))?);
        }
        if is_tls {
            if let Some(name) = properties.keys().find(|name| name.starts_with("ssl.keystore.")) {
                return Err(format!(
                    "{name} asks for a client certificate, which is not supported; {INSTEAD}"
                ));
            }
            if properties.get("ssl.endpoint.identification.algorithm").is_some_and(String::is_empty) {
                let why = "names of brokers are always verified; remove the line, and give brokers certificates with \
                           their names";
                return Err(format!("ssl.endpoint.identification.algorithm is empty; {why}"));
            }
            let store = value("ssl.truststore.location").map(PathBuf::from);
            if store.is_some() && value("ssl.truststore.type") != Some("PEM") {
                let remedy = "export it (`keytool -exportcert -rfc`) and set ssl.truststore.type=PEM";
                return Err(format!("ssl.truststore.location is no PEM file; {remedy}"));
            }
            login.tls = Some(Arc::new(tls(store.as_deref())?));
        }
        Ok(login)
    }

    pub(super) fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    /// What is sent to log in by the mechanism PLAIN.
    pub(super) fn plain_token(&self) -> Option<Vec<u8>> {
        self.plain.as_ref().map(|(user, password)| format!("\0{user}\0{password}").into_bytes())
    }
}

/// Trusts the certificates of a file, or those of the system.
fn tls(store: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = store {
        let wrong = |why: String| format!("cannot use {} (ssl.truststore.location): {why}", path.display());
        let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong("it has no certificate".to_owned()));
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("cannot set up TLS: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The lines of a file of properties, as Java writes them.
fn properties(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim().to_owned();
        if line.starts_with(['#', '!']) {
            continue;
        }
        // A line that ends with a backslash goes on in the next.
        while line.ends_with('\\') {
            line.pop();
            line += lines.next().unwrap_or_default().trim_start();
        }
        if let Some((name, value)) = line.split_once(['=', ':']) {
            found.insert(name.trim().to_owned(), unescaped(value.trim()));
        }
    }
    found
}

fn unescaped(value: &str) -> String {
    let mut characters = value.chars();
    let next = || {
        let next = characters.next()?;
        if next == '\\' { characters.next() } else { Some(next) }
    };
    std::iter::from_fn(next).collect()
}

/// An option of a login module: `name="value"`.
fn jaas_option(jaas: &str, name: &str) -> Option<String> {
    let (_, rest) = jaas.split_once(&format!("{name}="))?;
    let mut value = String::new();
    let mut characters = rest.strip_prefix('"')?.chars();
    loop {
        match characters.next()? {
            '"' => return Some(value),
            '\\' => value.push(characters.next()?),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_the_usual_kind() {
        let text = "# login\nsecurity.protocol = SASL_PLAINTEXT\nsasl.mechanism:PLAIN\nsasl.jaas.config=org.apache.\\\n  \
                    PlainLoginModule required username=\"a=b\" password=\"x\\\\\"y\";\nretries=3\n";
        let login = Login::parse(text).unwrap();
        assert_eq!(login.plain_token().unwrap(), b"\0a=b\0x\"y");
        assert!(!format!("{login:?}").contains('y'), "{login:?}");
        assert!(Login::parse("").unwrap().plain_token().is_none());
        assert!(Login::parse("security.protocol=SSL\n").unwrap().tls().is_some());
    }

    #[test]
    fn what_is_not_supported_is_said() {
        for (text, expected) in [
            ("security.protocol=KERBEROS", "security.protocol is KERBEROS; connect by"),
            (
                "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512",
                "sasl.mechanism is SCRAM-SHA-512; connect by",
            ),
            ("security.protocol=SASL_SSL", "sasl.mechanism is GSSAPI"),
            ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config is missing"),
            ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x", "another form"),
            ("security.protocol=SSL\nssl.keystore.location=/k", "asks for a client certificate"),
            ("security.protocol=SSL\nssl.truststore.location=/k.jks", "set ssl.truststore.type=PEM"),
            (
                "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such",
                "cannot use /no/such",
            ),
            ("security.protocol=SSL\nssl.endpoint.identification.algorithm=", "always verified"),
        ] {
            let error = Login::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

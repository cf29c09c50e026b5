//! A manifest of objects and where their replicas are, as CSV: `key,bytes,replicas`, and `sha256` if it is known.

use std::collections::HashSet;
use std::io::BufRead;

use evenkeel::model::shown;

use crate::table::Table;
use crate::{InputError, Reading, numbers};

/// The number of hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// An object of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestObject {
    /// Its name.
    pub key: String,
    /// Its size.
    pub bytes: u64,
    /// The address of each replica.
    pub replicas: Vec<String>,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: Option<String>,
}

/// Reads a manifest. Each key and, within a row, each address appears once.
pub fn read_manifest_csv(
    reader: impl BufRead,
    reading: &Reading<'_>,
) -> Result<Vec<ManifestObject>, InputError> {
    let mut table = Table::open(reader, reading, &["key", "bytes", "replicas"], &["sha256"])?;
    let (mut objects, mut keys) = (Vec::new(), HashSet::new());
    while table.next()? {
        let key = table.required(0)?;
        if key.is_empty() {
            return Err(table.error("the key is empty; write the name of the object"));
        }
        if !keys.insert(key.to_owned()) {
            let message = "appears twice; write all its replicas in one row, with | between them";
            return Err(table.error(format!("key `{}` {message}", shown(key))));
        }
        let bytes = numbers::size(table.required(1)?, "size").map_err(|e| table.error(e))?;
        let replicas = replicas(table.required(2)?).map_err(|e| table.error(e))?;
        let sha256 = table.field(3)?.filter(|digits| !digits.is_empty());
        let is_sha256 =
            |digits: &str| digits.len() == SHA256_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(wrong) = sha256.filter(|digits| !is_sha256(digits)) {
            let message = "is not a SHA-256; write its 64 hexadecimal digits, as sha256sum prints them";
            return Err(table.error(format!("`{}` {message}", shown(wrong))));
        }
        let sha256 = sha256.map(str::to_owned);
        objects.push(ManifestObject { key: key.to_owned(), bytes, replicas, sha256 });
    }
    Ok(objects)
}

fn replicas(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Err(
            "there is no replica; write the address of one, or several with | between them".to_owned()
        );
    }
    let mut found: Vec<String> = Vec::new();
    for address in text.split('|') {
        if address.trim().is_empty() {
            return Err("an address between | is empty; leave out one |".to_owned());
        }
        if found.iter().any(|known| known == address) {
            return Err(format!("address `{}` appears twice; keep one", shown(address)));
        }
        found.push(address.to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<ManifestObject>, String> {
        read_manifest_csv(text.as_bytes(), &Reading::of("m")).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_objects() {
        let sha256 = "0123456789abcdef".repeat(4);
        let text = format!("bytes,key,sha256,replicas\n4kB,\"a,b\",{sha256},http://h/a|/mnt/a\n0,c,,x\n");
        let found = read(&text).unwrap();
        assert_eq!((found[0].key.as_str(), found[0].bytes), ("a,b", 4000));
        assert_eq!(found[0].replicas, ["http://h/a", "/mnt/a"]);
        assert_eq!(found[0].sha256.as_ref(), Some(&sha256));
        assert_eq!((found[1].bytes, &found[1].sha256), (0, &None));
    }

    #[test]
    fn wrong_rows_are_refused_by_line() {
        for (row, words) in [
            (",1,x", "m:2: the key is empty"),
            ("a,1,x\na,1,y", "m:3: key `a` appears twice"),
            ("a,-1,x", "m:2: the size -1 is negative"),
            ("a,1,", "m:2: there is no replica"),
            ("a,1,x||y", "m:2: an address between | is empty"),
            ("a,1,x|x", "m:2: address `x` appears twice"),
        ] {
            let error = read(&format!("key,bytes,replicas\n{row}\n")).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        let error = read("key,bytes,replicas,sha256\na,1,x,abc\n").unwrap_err();
        assert!(error.contains("m:2: `abc` is not a SHA-256"), "{error}");
        assert!(read("key,bytes\n").unwrap_err().contains("column `replicas` is missing"));
    }
}

//! The XML of S3: pages of listings, and errors.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::xml::{Step, walk};

/// A page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    /// What asks for the next page; `None` at the end.
    pub(super) next: Option<String>,
}

/// An object, as it is listed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) bytes: u64,
    /// With its quotes.
    pub(super) etag: String,
    /// Whether the server has a checksum of it.
    pub(super) has_checksum: bool,
}

/// An answer of S3 as texts by the names of their elements: those of each row, and all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// Texts outside of rows; the last of each name.
    pub texts: BTreeMap<String, String>,
    /// The name of each row's element, and the texts in it.
    pub rows: Vec<(String, BTreeMap<String, String>)>,
}

impl Elements {
    /// Reads a document in which elements of these names are rows.
    pub fn read(xml: &str, rows: &[&str]) -> Result<Self, String> {
        let mut found = Self::default();
        let mut row: Option<(String, BTreeMap<String, String>)> = None;
        walk(xml, |step| {
            match step {
                Step::Begin(name) if row.is_none() && rows.contains(&name) => {
                    row = Some((name.to_owned(), BTreeMap::new()));
                }
                Step::End(name, text) => match &mut row {
                    Some((of, _)) if of == name => found.rows.extend(row.take()),
                    Some((_, texts)) => _ = texts.insert(name.to_owned(), text.to_owned()),
                    None => _ = found.texts.insert(name.to_owned(), text.to_owned()),
                },
                Step::Begin(_) => {}
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// What a server says when it refuses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
    /// The region of the bucket, if the request was signed for another one.
    pub(super) region: Option<String>,
    /// Where an archived object is.
    pub(super) storage_class: Option<String>,
}

impl Page {
    /// Reads the answer to `ListObjectsV2`.
    pub(super) fn read(xml: &str) -> Result<Self, String> {
        let (mut page, mut entry, mut is_in_entry) = (Self::default(), Entry::default(), false);
        let (mut is_listing, mut is_truncated, mut is_encoded, mut sizes) = (false, false, false, 0);
        walk(xml, |step| {
            match step {
                Step::Begin("ListBucketResult") => is_listing = true,
                Step::Begin("Contents") => (entry, is_in_entry, sizes) = (Entry::default(), true, 0),
                Step::End("Contents", _) => {
                    if entry.key.is_empty() || sizes != 1 {
                        return Err(format!("the entry `{}` lacks its key or its size", entry.key));
                    }
                    is_in_entry = false;
                    page.entries.push(std::mem::take(&mut entry));
                }
                Step::End("Key", text) if is_in_entry => text.clone_into(&mut entry.key),
                Step::End("Size", text) if is_in_entry => {
                    entry.bytes = text.parse().map_err(|_| format!("`{text}` is no size"))?;
                    sizes += 1;
                }
                Step::End("ETag", text) if is_in_entry => {
                    entry.etag = format!("\"{}\"", text.trim_matches('"'));
                }
                Step::End("ChecksumAlgorithm", text) if is_in_entry => entry.has_checksum |= !text.is_empty(),
                Step::End("IsTruncated", text) if !is_in_entry => is_truncated = text == "true",
                Step::End("NextContinuationToken", text) => page.next = Some(text.to_owned()),
                Step::End("EncodingType", text) => is_encoded = text == "url",
                _ => {}
            }
            Ok(())
        })?;
        if !is_listing {
            return Err("it is no listing of a bucket".to_owned());
        }
        // Whether names are encoded may be said after them.
        if is_encoded {
            for entry in &mut page.entries {
                entry.key = decode(&entry.key)?;
            }
        }
        match (is_truncated, &page.next) {
            (true, None) => Err("there are more objects, and it does not say how to ask for them".to_owned()),
            (true, Some(_)) => Ok(page),
            (false, _) => Ok(Self { next: None, ..page }),
        }
    }
}

/// A name as forms encode it. AWS writes spaces as `+`.
fn decode(name: &str) -> Result<String, String> {
    let spaced = name.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| format!("the name `{name}` is not UTF-8"))
}

impl Refusal {
    /// Reads the body of a refusal. Whatever it is, it is one.
    pub(super) fn read(body: &str) -> Self {
        let mut refusal = Self::default();
        let _ = walk(body, |step| {
            match step {
                Step::End("Code", text) => text.clone_into(&mut refusal.code),
                Step::End("Message", text) => {
                    refusal.message = text.split_whitespace().collect::<Vec<_>>().join(" ");
                }
                Step::End("Region", text) => refusal.region = Some(text.to_owned()),
                Step::End("StorageClass", text) => refusal.storage_class = Some(text.to_owned()),
                _ => {}
            }
            Ok(())
        });
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix/><KeyCount>2</KeyCount>
<IsTruncated>true</IsTruncated><NextContinuationToken>1ue/+=</NextContinuationToken>
<Contents><Key>a+b%2Bc%2F%C3%A9</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>
<ETag>&quot;25f9e794323b453885f5181f1b624d0b&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><Size>9</Size>
<Owner><ID>x</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>
<Contents><Key>d</Key><ETag>"x-2"</ETag><Size>18446744073709551615</Size></Contents>
<EncodingType>url</EncodingType></ListBucketResult>"#;
        let page = Page::read(xml).expect("it is a listing");
        assert_eq!(page.next.as_deref(), Some("1ue/+="));
        let entries =
            [("a b+c/é", 9, "\"25f9e794323b453885f5181f1b624d0b\"", true), ("d", u64::MAX, "\"x-2\"", false)];
        let entries = entries.map(|(key, bytes, etag, has_checksum)| Entry {
            key: key.to_owned(),
            bytes,
            etag: etag.to_owned(),
            has_checksum,
        });
        assert_eq!(page.entries, entries);
        let plain = "<ListBucketResult><Contents><Key>a+b%41&#x26;&lt;</Key><Size>0</Size></Contents></ListBucketResult>";
        assert_eq!(Page::read(plain).expect("it is a listing").entries[0].key, "a+b%41&<");
        assert_eq!(Page::read("<ListBucketResult/>"), Ok(Page::default()));
    }

    #[test]
    fn damaged_listings_are_refused() {
        let listing = |inner: &str| Page::read(&format!("<ListBucketResult>{inner}</ListBucketResult>"));
        for wrong in [
            "<IsTruncated>true</IsTruncated>",
            "<Contents><Key>a</Key></Contents>",
            "<Contents><Size>1</Size></Contents>",
            "<Contents><Key>a</Key><Size>-1</Size></Contents>",
            "<Contents><Key>%FF</Key><Size>1</Size></Contents><EncodingType>url</EncodingType>",
            "<Contents>",
            "&nothing;",
        ] {
            assert!(listing(wrong).is_err(), "{wrong}");
        }
        assert!(Page::read("<html>").is_err());
        assert!(Page::read("").is_err());
    }

    #[test]
    fn refusals_are_read() {
        let xml = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region\n is wrong</Message>\
                   <Region>eu-west-1</Region></Error>";
        let refusal = Refusal::read(xml);
        assert_eq!(
            (refusal.code.as_str(), refusal.message.as_str()),
            ("AuthorizationHeaderMalformed", "the region is wrong")
        );
        assert_eq!(refusal.region.as_deref(), Some("eu-west-1"));
        assert_eq!(Refusal::read("<html><br>"), Refusal::default());
    }
}

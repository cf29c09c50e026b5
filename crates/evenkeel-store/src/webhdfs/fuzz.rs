//! What servers may answer, for fuzzing: an error or an answer, never a panic.

use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};

use super::address::{Address, url};
use super::{answers, follow, path_of};

/// An answer of a NameNode or DataNode, of each kind. Returns whether what passes fits together.
pub fn answer(bytes: &[u8]) -> bool {
    let Ok(address) = Address::parse("webhdfs://namenode/a") else { return false };
    let mut fits = true;
    if let Ok(status) = answers::status(bytes) {
        fits &= answers::file_id(Some(&status.identity())).is_none_or(|id| id == status.file_id);
    }
    if let Ok((entries, _)) = answers::listing(bytes) {
        // All of them have names in this folder, whose web addresses lead there.
        fits &= entries.iter().filter_map(|entry| path_of("/a", 1, entry).ok()).all(|path| {
            let name = path.strip_prefix("/a/").filter(|name| !name.contains('/'));
            let at = url("http://namenode", &path, &[("op", "OPEN")]);
            name.is_some() && at.is_ok_and(|at| at.path().starts_with("/webhdfs/v1/a/"))
        });
    }
    if let Ok(found) = answers::blocks(bytes) {
        let (length, mut extents) = (found.file_length, Vec::new());
        if let Ok(end) = follow(found, 0, length, &address, &mut extents) {
            let n_bytes: u64 = extents.iter().map(|(n, _)| n).sum();
            fits &= n_bytes == end && end <= length && extents.iter().all(|(_, holders)| !holders.is_empty());
            // Hosts may have names that cannot be; their requests end with an error.
            let is_server = |url: Url| url.path() == "/" && url.username().is_empty();
            let holders = extents.iter().flat_map(|(_, holders)| holders);
            fits &= holders.filter_map(|holder| Url::parse(&holder.name).ok()).all(is_server);
        }
    }
    let _ = answers::refusal(StatusCode::FORBIDDEN, &HeaderMap::new(), bytes);
    fits
}

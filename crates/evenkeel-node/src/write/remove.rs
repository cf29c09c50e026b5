//! Deletes objects: first the entry at home, then what it names.

use std::sync::Arc;

use evenkeel_store::cluster::Servers;
use evenkeel_store::{Problem, StoreError};
use futures_util::future::join_all;
use hyper::header::HeaderMap;

use super::access::{Access, Before, condition, may_be_done};

/// How often a deletion is tried where somebody else writes at the same time.
const MOST_ATTEMPTS: usize = 3;

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Whether there was such an object.
    pub existed: bool,
    /// The size of the object.
    pub bytes: u64,
    /// Pieces that were held elsewhere, of all copies.
    pub n_pieces: usize,
    /// Those of them that could not be deleted. A maintainer collects them.
    pub n_left_behind: usize,
}

/// Deletes all copies of an object. If one of its homes cannot be reached, nothing is deleted.
pub async fn remove(
    servers: &Arc<Servers>,
    bucket: &str,
    key: &str,
    n_copies: usize,
) -> Result<Removed, StoreError> {
    let access = Access::new(Arc::clone(servers), bucket, 1);
    let homes = servers.homes(bucket, key, n_copies);
    let found = join_all(homes.iter().map(|&home| access.before(home, key))).await;
    let found: Vec<Before> = found.into_iter().collect::<Result<_, _>>()?;
    #[cfg(test)]
    if crate::outside::simulated::Mistake::RemovesFirst.is_made() {
        for before in &found {
            access.drop_pieces(&before.pieces, Some(key)).await;
        }
    }
    let mut removed = Removed::default();
    for (&home, before) in homes.iter().zip(found) {
        let Some(before) = delete(&access, home, key, before).await? else { continue };
        let seen = before.seen.as_ref();
        let bytes = seen.map_or(0, |seen| seen.redirect.as_ref().map_or(seen.bytes, |(bytes, _)| *bytes));
        removed.existed = true;
        removed.bytes = removed.bytes.max(bytes);
        removed.n_pieces += before.pieces.len();
        removed.n_left_behind += access.drop_pieces(&before.pieces, Some(key)).await;
    }
    Ok(removed)
}

/// Deletes what is at a home. Returns what that was, if there was anything.
async fn delete(
    access: &Access,
    home: usize,
    key: &str,
    mut before: Before,
) -> Result<Option<Before>, StoreError> {
    let is_conditional = match before.seen {
        Some(_) => access.is_conditional(home).await?,
        None => return Ok(None),
    };
    let mut n_attempts = 0;
    loop {
        n_attempts += 1;
        let mut headers = HeaderMap::new();
        if is_conditional {
            let (name, value) = condition(before.seen.as_ref());
            headers.insert(name, value);
        }
        let error = match access.servers.endpoint(home)?.delete(&access.bucket, key, headers).await {
            Ok(()) => return Ok(Some(before)),
            Err(error) => error,
        };
        let is_worth_it = error.problem == Problem::Changed || may_be_done(&error.problem);
        if n_attempts == MOST_ATTEMPTS || !is_worth_it {
            return Err(error);
        }
        let now = access.before(home, key).await.map_err(|_| error)?;
        if now.seen.is_none() {
            // It was this deletion, or another one.
            return Ok(Some(before));
        }
        before = now;
    }
}

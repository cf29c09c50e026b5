//! What is at the homes of an object, and what they are told.

use std::time::Duration;

use evenkeel_store::cluster::{Held, Redirect, Seen};
use evenkeel_store::{Algorithm, Hasher};
use futures_util::TryStreamExt;
use futures_util::future::join_all;

use super::access::{Access, Before, Entry, Fault};
use super::content::{Content, crc32c};
#[cfg(test)]
use crate::outside::simulated::Mistake;

/// Pieces that a home is asked to name at once. They become part of the object in one step.
const MOST_NAMED: usize = 256;
pub(super) const EXISTS: &str = "there is another object of this name; --overwrite replaces it";

/// What is at a home.
#[derive(Debug)]
pub(super) enum Look {
    /// The object.
    Same,
    /// Nothing, or something that is to be replaced.
    Write(Before),
}

/// Not all homes were told where an object is.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) why: String,
    /// Whether a home may have been told nevertheless.
    pub(super) is_unsure: bool,
    pub(super) n_settled: usize,
}

/// The redirect to the pieces of a copy, which come with their entity tags.
pub(super) fn redirect(pieces: &[Option<(Held, String)>]) -> Redirect {
    let pieces: Vec<&(Held, String)> = pieces.iter().flatten().collect();
    let etag = match pieces.as_slice() {
        [(_, etag)] => etag.clone(),
        // As S3 has it for what was uploaded in parts.
        several => {
            let mut hasher = Hasher::new(Algorithm::Md5);
            for (_, etag) in several {
                hasher.update(&unhex(etag).unwrap_or_else(|| etag.as_bytes().to_vec()));
            }
            format!("{}-{}", hasher.finish(), several.len())
        }
    };
    Redirect::new(etag, pieces.into_iter().map(|(held, _)| held.clone()).collect())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let is_even = text.len().is_multiple_of(2);
    let pairs = text.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect();
    if is_even { bytes } else { None }
}

/// Tells the homes of an object where it is, and then deletes what earlier versions held. Returns how many of these
/// pieces are left.
pub(super) async fn settle(
    access: &Access,
    key: &str,
    entries: Vec<(usize, Before, Redirect)>,
    overwrites: bool,
) -> Result<usize, Unsettled> {
    let told = entries.into_iter().map(|(home, before, redirect)| async move {
        #[cfg(test)]
        if Mistake::DeletesFirst.is_made() {
            access.drop_pieces(&before.pieces, Some(key)).await;
        }
        (home, access.settle(home, key, before, overwrites, &Entry::Elsewhere(&redirect)).await)
    });
    let (n_settled, old, fault) = summed(access, join_all(told).await);
    let n_left = access.drop_pieces(&old, Some(key)).await;
    match fault {
        None => Ok(n_left),
        Some((why, is_unsure)) => Err(Unsettled { why, is_unsure, n_settled }),
    }
}

/// What came of telling a home.
type Told = Result<(Before, Duration), Fault>;

/// How many homes were told, the pieces of earlier versions, and why others were not, if so: then also whether any of them
/// may have been nevertheless.
fn summed(access: &Access, told: Vec<(usize, Told)>) -> (usize, Vec<Held>, Option<(String, bool)>) {
    let (mut n_settled, mut old, mut why, mut is_unsure) = (0, Vec::new(), None, false);
    for (home, told) in told {
        match told {
            Ok((before, _)) => {
                n_settled += 1;
                old.extend(before.pieces);
            }
            Err(Fault::Local(local)) => why = Some(local),
            Err(Fault::Exists) => why = Some(EXISTS.to_owned()),
            Err(Fault::Server { error, is_unsure: is_this_unsure }) => {
                is_unsure |= is_this_unsure;
                why = Some(format!("its home {} did not take the entry: {error}", access.name(home)));
            }
        }
    }
    (n_settled, old, why.map(|why| (why, is_unsure)))
}

/// Has the home of an object name what was written into it from an offset on. Nothing is left.
pub(super) async fn write_into(
    access: &Access,
    key: &str,
    offset: u64,
    entries: Vec<(usize, Before, Redirect)>,
) -> Result<usize, Unsettled> {
    let mut n_named = 0;
    for (home, _, redirect) in entries {
        let mut at = offset;
        let extents = redirect.pieces.into_iter().map(|piece| {
            let start = at;
            at = at.saturating_add(piece.bytes);
            (start, piece)
        });
        let extents: Vec<(u64, Held)> = extents.collect();
        for some in extents.chunks(MOST_NAMED) {
            let (why, is_unsure) = match access.name_extents(home, key, some).await {
                Ok(()) => {
                    n_named += some.len();
                    continue;
                }
                Err(Fault::Exists) => ("it was written meanwhile".to_owned(), false),
                Err(Fault::Local(why)) => (why, false),
                Err(Fault::Server { error, is_unsure }) => {
                    let why =
                        format!("its home {} did not name what was written: {error}", access.name(home));
                    (why, is_unsure)
                }
            };
            let why =
                if n_named == 0 { why } else { format!("{why}; the first {n_named} pieces are written") };
            return Err(Unsettled { why, is_unsure: is_unsure || n_named > 0, n_settled: 0 });
        }
    }
    Ok(0)
}

/// Looks what is at a home of an object.
pub(super) async fn look(
    access: &Access,
    home: usize,
    key: &str,
    content: &dyn Content,
    overwrites: bool,
) -> Result<Look, String> {
    let before = access.before(home, key).await;
    let before =
        before.map_err(|error| format!("its home {} cannot be asked: {error}", access.name(home)))?;
    let Some(seen) = &before.seen else { return Ok(Look::Write(before)) };
    if is_same(seen, &before.pieces, content).await.map_err(|why| format!("cannot be read: {why}"))? {
        return Ok(Look::Same);
    }
    if overwrites { Ok(Look::Write(before)) } else { Err(EXISTS.to_owned()) }
}

/// Whether what is there is what is to be written, as far as checksums show.
async fn is_same(seen: &Seen, pieces: &[Held], content: &dyn Content) -> Result<bool, String> {
    let bytes = content.bytes();
    if seen.redirect.is_some() {
        if pieces.is_empty() || pieces.iter().map(|piece| piece.bytes).sum::<u64>() != bytes {
            return Ok(false);
        }
        let mut start = 0;
        for piece in pieces {
            if crc32c(content, start..start + piece.bytes).await? != piece.crc32c {
                return Ok(false);
            }
            start += piece.bytes;
        }
        return Ok(true);
    }
    if seen.bytes != bytes {
        return Ok(false);
    }
    if let Some(crc) = seen.crc32c {
        return Ok(crc32c(content, 0..bytes).await? == crc);
    }
    if seen.etag.len() != 32 {
        return Ok(bytes == 0);
    }
    let mut hasher = Hasher::new(Algorithm::Md5);
    let mut chunks = content.read(0..bytes);
    while let Some(chunk) = chunks.try_next().await.map_err(|error| error.to_string())? {
        hasher.update(&chunk);
    }
    Ok(hasher.finish().to_string() == seen.etag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::access::tests::access;
    use evenkeel_store::Problem;

    #[test]
    fn one_home_that_may_have_been_told_is_enough_for_doubt() {
        let (_folder, access) = access();
        let fault = |is_unsure| {
            let error = Problem::TimedOut.at("s1");
            Err(Fault::Server { error, is_unsure })
        };
        for (told, is_unsure) in [
            ([fault(true), fault(false)], true),
            ([fault(false), fault(true)], true),
            ([fault(true), Err(Fault::Exists)], true),
            ([fault(false), Err(Fault::Exists)], false),
        ] {
            let told = told.into_iter().map(|told| (0, told)).collect();
            assert_eq!(summed(&access, told).2.unwrap().1, is_unsure);
        }
    }
}

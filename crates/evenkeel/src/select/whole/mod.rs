//! `--whole`: a choice that splits no request, made from one that does.
//!
//! Without splitting, the least time of the last server is restricted assignment: strongly NP-hard, and even to come
//! closer than 3/2 of it is. Lenstra, Shmoys and Tardos (1990) round a vertex of its linear program, so that each server
//! gets at most one request more. Here the split choice is what is rounded, in `forest`.
//!
//! Beyond the paper: then the last servers give requests away as long as that helps, in `search`.

mod forest;
mod search;

use crate::model::{Batch, Choice, Cluster};

/// The choice with every request whole.
///
/// No server has more blocks than it would have done when the last server was done before, and the largest request:
/// so none is later than that by more than this request takes it. If nothing was split, nothing changes.
pub fn unsplit(batch: &Batch, cluster: &Cluster, mut choice: Choice) -> Choice {
    if !choice.split_off.is_empty() {
        let before = choice.loads(batch);
        forest::round(batch, &mut choice);
        search::improve(batch, cluster, &before, &mut choice);
    }
    choice
}

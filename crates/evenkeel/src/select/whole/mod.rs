//! `--whole`: a choice that splits no request, made from one that does.
//!
//! Without splitting, minimising the time of the last server is restricted assignment, which is strongly NP-hard, even
//! to approximate within a factor of less than 3/2. Lenstra, Shmoys and Tardos (1990) round a vertex of its linear
//! program, so that each server gets at most one request more. Here the split choice is rounded instead, in `forest`.
//!
//! Beyond the paper: afterwards the last servers give requests away as long as that helps, in `search`.

mod forest;
mod search;

use crate::model::{Batch, Choice, Cluster};

/// Makes every request of a choice whole.
///
/// No server gets more blocks than it could have done by the time the last server was done before, plus the largest
/// request. So none is later than that by more than this request takes. If nothing was split, nothing changes.
pub fn unsplit(batch: &Batch, cluster: &Cluster, mut choice: Choice) -> Choice {
    if !choice.split_off.is_empty() {
        let before = choice.loads(batch);
        forest::round(batch, &mut choice);
        search::improve(batch, cluster, &before, &mut choice);
    }
    choice
}

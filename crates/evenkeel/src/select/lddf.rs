//! `lddf` and `hddf`: pass by pass, each server takes one request; the servers that could serve the fewest pending
//! requests choose first (`lddf`) or last (`hddf`).
//!
//! LDDF and HDDF of Chen and Majumdar as paper 001 §3.3–3.4 describes them; paper 000 §5.1 describes others
//! (`lddf-slots`, `hddf-slots`). Deviation: the paper says both "round robin" and "the next server with the lowest
//! number of pending requests". Read literally, with degrees that change at once, the lowest server stays the lowest
//! and takes everything it can. Round robin is intended: at most one request per server and pass, with degrees sorted
//! again for each pass.

use crate::graph::passes::{First, of_servers};
use crate::model::{Batch, Choice};

/// The servers with the fewest pending requests choose first.
pub fn lddf(batch: &Batch) -> Choice {
    choice(batch, First::Fewest)
}

/// The servers with the most pending requests choose first.
pub fn hddf(batch: &Batch) -> Choice {
    choice(batch, First::Most)
}

fn choice(batch: &Batch, first: First) -> Choice {
    Choice::granted(batch.n_requests(), &of_servers(batch, first))
}

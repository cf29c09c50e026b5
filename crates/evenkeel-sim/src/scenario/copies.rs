//! A batch with a different number of copies.

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{Batch, BatchBuilder, ModelError, ServerId};
use hashbrown::HashMap;

/// Returns the batch with `copies` copies of the data of each request: the first of those it has and, if there are too
/// few, further ones on servers drawn at random. Requests for the same chunk find it on the same servers. Without
/// chunks, each request is for its own data. Only clients, blocks and copies are kept.
pub(super) fn with_copies(batch: &Batch, copies: u32, seed: u64) -> Result<Batch, ModelError> {
    let mut draw = Seeded::new(seed);
    let mut copied = BatchBuilder::new();
    copied.declare_clients(batch.clients().clone())?;
    copied.declare_servers(batch.servers().clone())?;
    let mut of_chunks: HashMap<&str, Vec<ServerId>> = HashMap::new();
    for (request, set) in batch.replicas().iter().enumerate() {
        let mut drawn = || holders(set, copies as usize, batch.n_servers(), &mut draw);
        let servers = match batch.chunk(request) {
            Some(chunk) => of_chunks.entry(chunk).or_insert_with(drawn).clone(),
            None => drawn(),
        };
        for server in servers {
            copied.replica(batch.servers().name(server.0))?;
        }
        copied.end_request(batch.clients().name(batch.client(request).0), batch.blocks(request))?;
    }
    Ok(copied.finish())
}

/// Returns `copies` servers: the first of the set, then others at random.
fn holders(set: &[ServerId], copies: usize, n_servers: usize, draw: &mut Seeded) -> Vec<ServerId> {
    let mut holders = set[..set.len().min(copies)].to_vec();
    while holders.len() < copies.min(n_servers) {
        // Draw one of the servers that are left, skipping those that are taken.
        let mut taken: Vec<u32> = holders.iter().map(|server| server.0).collect();
        taken.sort_unstable();
        let place = draw.below((n_servers - holders.len()) as u32);
        let server = taken.iter().fold(place, |place, &other| place + u32::from(other <= place));
        holders.push(ServerId(server));
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_cut_or_drawn() {
        let mut batch = BatchBuilder::new();
        for set in [&["s0", "s1", "s2"][..], &["s3"][..]] {
            batch.request("c0", 5, set).expect("a good request");
        }
        let batch = batch.finish();
        for copies in 1..=4 {
            let copied = with_copies(&batch, copies, 7).expect("a good batch");
            for (set, before) in copied.replicas().iter().zip(batch.replicas().iter()) {
                let n_kept = before.len().min(copies as usize);
                assert_eq!(set[..n_kept], before[..n_kept], "the first ones stay");
                let mut distinct = set.to_vec();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), copies as usize);
            }
            assert_eq!(copied.total_blocks(), 10);
            let again = with_copies(&batch, copies, 7).expect("a good batch");
            assert_eq!(copied.fingerprint(), again.fingerprint());
        }
    }
}

//! A schedule in executable form: which bytes of which request each server sends, by time.

use super::{Batch, Cluster, Fixed, ServerId, Transfer};

const NANOS: u128 = 1_000_000_000;

/// One transfer with the bytes that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it starts, as in the schedule.
    pub start: Fixed,
    /// When it ends.
    pub end: Fixed,
    /// The request's row in the batch.
    pub request: u32,
    /// The server that sends.
    pub server: ServerId,
    /// The first byte, counted from the start of the request's data.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The steps of a schedule in order of start. The transfers are given by request.
///
/// The steps of a request have disjoint byte ranges that add up to exactly its bytes. The bytes that one server sends
/// of it are one range, whether the transfer is interrupted or not. A transfer of less than a byte, or of nothing but
/// the padding of a last block, gives no step. An empty request has one step.
pub fn steps(batch: &Batch, cluster: &Cluster, transfers: &[Transfer]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(transfers.len());
    let mut of_request = Vec::new();
    for transfers in transfers.chunk_by(|a, b| a.request == b.request) {
        of_request.clear();
        of_request.extend_from_slice(transfers);
        of_request.sort_unstable_by_key(|transfer| (transfer.server, transfer.start));
        push_steps(batch, cluster, &of_request, &mut steps);
    }
    steps.sort_unstable_by_key(|step| (step.start, step.request, step.server));
    steps
}

/// Adds the steps of one request, whose transfers are given in the order of their bytes.
fn push_steps(batch: &Batch, cluster: &Cluster, transfers: &[Transfer], steps: &mut Vec<Step>) {
    let Some((last, _)) = transfers.split_last() else { return };
    let size = batch.bytes(last.request as usize);
    let (mut nanoblocks, mut offset) = (0, 0);
    for (k, transfer) in transfers.iter().enumerate() {
        nanoblocks += transfer.blocks.nanos();
        let is_last = k + 1 == transfers.len();
        // Boundaries are rounded, not sizes, so that no byte is lost or duplicated.
        let until = if is_last { size } else { boundary(nanoblocks, batch.block_bytes()).min(size) };
        if until > offset || (is_last && size == 0) {
            let &Transfer { request, server, start, .. } = transfer;
            let end = end(cluster, transfer);
            steps.push(Step { start, end, request, server, offset, bytes: until - offset });
        }
        offset = until;
    }
}

/// The byte nearest to this many billionths of a block.
fn boundary(nanoblocks: u128, block_bytes: u64) -> u64 {
    let block_bytes = u128::from(block_bytes);
    let whole = (nanoblocks / NANOS).saturating_mul(block_bytes);
    let rest = (nanoblocks % NANOS * block_bytes + NANOS / 2) / NANOS;
    u64::try_from(whole.saturating_add(rest)).unwrap_or(u64::MAX)
}

fn end(cluster: &Cluster, transfer: &Transfer) -> Fixed {
    let speed = u128::from(cluster.server(transfer.server).speed.millionths());
    let duration_nanos = (transfer.blocks.nanos() * 1_000_000 + speed / 2) / speed;
    Fixed::from_nanos(transfer.start.nanos() + duration_nanos).unwrap_or(u64::MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BatchBuilder, Details};

    #[test]
    fn boundaries_are_whole_bytes_however_large() {
        assert_eq!([boundary(0, 7), boundary(NANOS, 7), boundary(NANOS / 2, 7)], [0, 7, 4]);
        assert_eq!(boundary(u128::from(u64::MAX) * NANOS, 1), u64::MAX);
        assert_eq!(boundary(u128::from(u64::MAX) * NANOS, u64::MAX), u64::MAX);
        assert_eq!(boundary(NANOS / 2, u64::MAX), u64::MAX / 2 + 1);
    }

    /// A last block that is not full ends early; nothing is sent for its padding.
    #[test]
    fn short_last_blocks_and_empty_requests() {
        let mut batch = BatchBuilder::in_blocks_of(10);
        for bytes in [21, 0] {
            ["s0", "s1"].iter().for_each(|server| batch.replica(server).unwrap());
            batch.end_request_of_bytes("c", bytes, &Details::default()).unwrap();
        }
        let batch = batch.finish();
        let tenths = |n: u128| Fixed::from_nanos(n * NANOS / 10).unwrap();
        let transfer = |request, server, start, blocks| Transfer {
            request,
            server: ServerId(server),
            start: tenths(start),
            blocks: tenths(blocks),
        };
        let transfers =
            [transfer(0, 1, 0, 5), transfer(0, 0, 5, 15), transfer(0, 1, 20, 10), transfer(1, 0, 0, 0)];
        let steps = steps(&batch, &Cluster::equal(&batch), &transfers);
        let told: Vec<_> = steps.iter().map(|s| (s.request, s.server.0, s.offset, s.bytes, s.end)).collect();
        let expected = [
            (0, 1, 15, 5, tenths(5)),
            (1, 0, 0, 0, tenths(0)),
            (0, 0, 0, 15, tenths(20)),
            (0, 1, 20, 1, tenths(30)),
        ];
        assert_eq!(told, expected);
    }
}

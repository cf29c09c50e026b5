//! HIO, hierarchical I/O: the slowest aggregator of each application first. Paper 002 §III.C, Algorithm 1.
//!
//! Each server decides alone: if shuffles matter compared with reads, it sorts its requests by relative acceptable
//! delay, otherwise by application. Then it *tunes*: where a request can wait longer than another takes, the two are
//! exchanged.
//!
//! Deviations. Text and listing of the paper disagree on the exchanges. The text exchanges neighbours. The listing
//! exchanges position j and any later k, charges the request that moves back only with one of those it lets pass, and
//! skips a position whenever it stops. [`Tuning`] has both; the text's is the default. Ties of the sort, which the
//! paper leaves open, are broken by application, then by arrival. The threshold is compared exactly; where nothing is
//! read, any shuffle is above it.
//!
//! The paper claims that HIO is never worse than SIO. It is worse wherever shuffles are shorter than about a queue of
//! reads: each server then starts with another application, and none is done early. [`edd`](super::edd) keeps the
//! promise.

use std::cmp::Ordering;

use crate::model::Ratio;

use super::{Collective, Orders, Request};

/// The paper's threshold: a fifth.
pub fn threshold() -> Ratio {
    Ratio::new(1, 5)
}

/// Which requests change places after the sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// None.
    None,
    /// Neighbours, in one pass from the front, if the first can wait longer than the second takes: the
    /// paper's text.
    #[default]
    TextBubble,
    /// Exactly as in the paper's listing; takes up to quadratic time.
    ListingLiteral,
    /// As in the text, but only if the second can wait less than the first.
    Guarded,
}

/// A request after tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// Its position before tuning.
    pub place: usize,
    /// How long it could still wait; exchanges that move it forward add to this.
    pub ad_ns: u128,
}

/// The order on every server.
pub fn order(collective: &Collective, threshold: Ratio, tuning: Tuning) -> Orders {
    collective.each_server(|queue| order_queue(queue, threshold, tuning))
}

/// The order for the queue of one server: which request is first, second and so on.
pub(super) fn order_queue(queue: &[Request], threshold: Ratio, tuning: Tuning) -> Vec<usize> {
    let mut places: Vec<usize> = (0..queue.len()).collect();
    if shuffles_matter(queue, threshold) {
        places.sort_by_key(|&place| (queue[place].rad, queue[place].app));
    } else {
        places.sort_by_key(|&place| queue[place].app);
    }
    let sorted: Vec<Request> = places.iter().map(|&place| queue[place]).collect();
    tune(&sorted, tuning).into_iter().map(|tuned| places[tuned.place]).collect()
}

/// Tunes a sorted queue by exchanging requests.
pub fn tune(queue: &[Request], tuning: Tuning) -> Vec<Tuned> {
    let tuned = |(place, request): (usize, &Request)| Tuned { place, ad_ns: request.ad_ns.into() };
    let mut order: Vec<Tuned> = queue.iter().enumerate().map(tuned).collect();
    let read_ns = |tuned: Tuned| u128::from(queue[tuned.place].read_ns);
    let can_wait = |order: &[Tuned], j: usize, k: usize| order[j].ad_ns > read_ns(order[k]);
    let exchange = |order: &mut [Tuned], j: usize, k: usize| {
        order[j].ad_ns -= read_ns(order[k]);
        order[k].ad_ns += read_ns(order[j]);
        order.swap(j, k);
    };
    match tuning {
        Tuning::None => {}
        Tuning::TextBubble | Tuning::Guarded => {
            for k in 1..order.len() {
                let is_guarded = tuning == Tuning::Guarded && order[k].ad_ns >= order[k - 1].ad_ns;
                if can_wait(&order, k - 1, k) && !is_guarded {
                    exchange(&mut order, k - 1, k);
                }
            }
        }
        Tuning::ListingLiteral => {
            let mut j = 0;
            while j + 1 < order.len() {
                for k in j + 1..order.len() {
                    if !can_wait(&order, j, k) {
                        j += 1; // And once more below: the listing skips one.
                        break;
                    }
                    exchange(&mut order, j, k);
                }
                j += 1;
            }
        }
    }
    order
}

/// Whether all shuffles divided by all reads are above the threshold.
fn shuffles_matter(queue: &[Request], threshold: Ratio) -> bool {
    let shuffles: u128 = queue.iter().map(|request| u128::from(request.shuffle_ns)).sum();
    let reads: u128 = queue.iter().map(|request| u128::from(request.read_ns)).sum();
    match reads {
        0 => shuffles > 0,
        _ => is_above((shuffles, reads), (threshold.numerator(), threshold.denominator().into())),
    }
}

/// Whether the first fraction is larger. Compares whole parts, then the inverses of the rests, so that nothing
/// overflows.
fn is_above(first: (u128, u128), second: (u128, u128)) -> bool {
    let ((mut a, mut b), (mut c, mut d)) = (first, second);
    loop {
        match (a / b).cmp(&(c / d)) {
            Ordering::Equal => (a, c) = (a % b, c % d),
            order => return order.is_gt(),
        }
        if a == 0 || c == 0 {
            return a > 0;
        }
        (a, b, c, d) = (d, c, b, a);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_compared_exactly() {
        for a in 0..8 {
            for (b, c, d) in (1..8).flat_map(|b| (0..8).flat_map(move |c| (1..8).map(move |d| (b, c, d)))) {
                assert_eq!(is_above((a, b), (c, d)), a * d > c * b, "{a}/{b} {c}/{d}");
            }
        }
        let huge = 1 << 96;
        assert!(is_above((huge + 1, 5 * huge), (1, 5)));
        assert!(!is_above((huge, 5 * huge), (1, 5)));
        assert!(!is_above((huge - 1, 5 * huge), (1, 5)));
    }
}

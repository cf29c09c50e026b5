//! A limit on the bandwidth of a whole read.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many bytes may be received in a second by all transfers together; as many as come if no rate is set.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    rate: Option<u64>,
    /// When the next bytes may be received. Time in which nothing is received is not saved up.
    next: Arc<Mutex<Instant>>,
}

impl Limit {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate, next: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Waits for the turn of a transfer that has received this many bytes, and returns how long. Transfers take turns,
    /// and their servers wait as soon as the buffers between them are full.
    pub(super) async fn wait(&self, bytes: usize) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let now = Instant::now();
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = next.max(now);
            // No longer than a day, which no clock has trouble with.
            let takes_s = (bytes as f64 / rate.max(1) as f64).min(86_400.0);
            *next = at + Duration::from_secs_f64(takes_s);
            at
        };
        tokio::time::sleep_until(at.into()).await;
        at - now
    }
}

/// The rates of servers under a limit on their sum: all that can have as much as the fastest of them get the same.
pub(super) fn under(limit: Option<u64>, rates: &mut [u64]) {
    let Some(mut left) = limit else { return };
    let mut slowest_first: Vec<usize> = (0..rates.len()).collect();
    slowest_first.sort_by_key(|&server| rates[server]);
    for (k, &server) in slowest_first.iter().enumerate() {
        let fair = left / (rates.len() - k) as u64;
        rates[server] = rates[server].min(fair).max(1);
        left = left.saturating_sub(rates[server]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_levelled() {
        let levelled = |limit, mut rates: [u64; 3]| {
            under(limit, &mut rates);
            rates
        };
        assert_eq!(levelled(None, [5, 50, 500]), [5, 50, 500]);
        assert_eq!(levelled(Some(1000), [5, 50, 500]), [5, 50, 500]);
        assert_eq!(levelled(Some(105), [500, 5, 50]), [50, 5, 50]);
        assert_eq!(levelled(Some(30), [500, 50, 50]), [10, 10, 10]);
        assert_eq!(levelled(Some(0), [1, 2, 3]), [1, 1, 1]);
    }

    #[tokio::test]
    async fn transfers_share_the_limit() {
        let (limit, begun) = (Limit::new(Some(10_000)), Instant::now());
        let wait = |n: u32| {
            let limit = limit.clone();
            async move {
                for _ in 0..n {
                    limit.wait(100).await;
                }
            }
        };
        tokio::join!(wait(10), wait(10), wait(10));
        // What comes first need not wait.
        assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    }
}

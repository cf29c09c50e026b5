//! Servers that fail again and again are left alone for a while, so that a data set with many objects does not wait for each
//! of them in turn.

use std::time::Duration;

use tokio::time::Instant;

/// A server where this many transfers fail in a row is left alone.
pub(crate) const MOST_IN_A_ROW: u32 = 4;

/// How a server has done since something last arrived whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    n_in_a_row: u32,
    /// How often it has been left alone.
    n_pauses: u32,
    back_at: Option<Instant>,
}

impl Health {
    /// A transfer failed. Returns whether the server is to be left alone from now on: for `pause`, or for good if that
    /// was `most_pauses` times of no use.
    pub(crate) fn fails(&mut self, pause: Duration, most_pauses: u32) -> bool {
        self.n_in_a_row += 1;
        if self.n_in_a_row != MOST_IN_A_ROW {
            return false;
        }
        self.n_pauses = self.n_pauses.saturating_add(1);
        self.back_at = (self.n_pauses <= most_pauses).then(|| Instant::now() + pause);
        true
    }

    /// When the server gets another chance, if it is being left alone.
    pub(crate) fn back_at(&self) -> Option<Instant> {
        self.back_at
    }

    /// Gives the server another chance if its time has come, and returns whether it did. The next failure is one too many.
    pub(crate) fn revive(&mut self) -> bool {
        let is_time = self.back_at.is_some_and(|at| at <= Instant::now());
        if is_time {
            (self.back_at, self.n_in_a_row) = (None, MOST_IN_A_ROW - 1);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_in_a_row_is_left_alone() {
        let (mut health, pause) = (Health::default(), Duration::from_secs(10));
        for n in 1..MOST_IN_A_ROW {
            assert!(!health.fails(pause, 1), "{n}");
        }
        assert!(health.fails(pause, 1));
        assert!(!health.fails(pause, 1), "transfers that were under way change nothing");
        assert!(!health.revive());
        tokio::time::advance(pause).await;
        assert!(health.revive() && !health.revive());
        assert!(health.fails(pause, 1), "one is enough now");
        assert_eq!(health.back_at(), None, "for good");
        health = Health::default();
        assert!(!health.fails(pause, 1));
    }
}

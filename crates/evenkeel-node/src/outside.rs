//! What comes from outside: the time of day, and names that nobody else draws. A simulation brings its own.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day.
pub(crate) fn now() -> SystemTime {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    SystemTime::now()
}

/// How long ago 1970 began.
pub(crate) fn since_1970() -> Duration {
    now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A name that nobody else draws.
pub(crate) fn fresh() -> io::Result<u128> {
    #[cfg(test)]
    if let Some(fresh) = simulated::fresh() {
        return Ok(fresh);
    }
    let mut bytes = [0; 16];
    let n = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if n < bytes.len() {
        return Err(io::Error::other("the system has no random numbers"));
    }
    Ok(u128::from_le_bytes(bytes))
}

/// What a simulation says instead, for its thread.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tokio::time::Instant;

    /// Something that writers and the maintainer might do wrong. The simulation has to see each of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Mistake {
        /// The redirect is written while its pieces are on their way.
        NamesFirst,
        /// The pieces of the old version are deleted before the redirect is replaced.
        DeletesFirst,
        /// A write is acknowledged while its redirect is on its way.
        AcknowledgesFirst,
        /// What is brought home replaces whatever is there.
        BringsHomeAnyway,
        /// The pieces of an object are deleted before its entry.
        RemovesFirst,
    }

    impl Mistake {
        /// Whether it is made on this thread.
        pub(crate) fn is_made(self) -> bool {
            MISTAKE.get() == Some(self)
        }

        pub(crate) fn make(mistake: Option<Self>) {
            MISTAKE.set(mistake);
        }
    }

    thread_local! {
        static MISTAKE: Cell<Option<Mistake>> = const { Cell::new(None) };
        static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
        static NEXT: Cell<u128> = const { Cell::new(0) };
    }

    /// From now on it is half past ten at night on 14 November 2023, and names are drawn from a seed.
    pub(crate) fn begin(seed: u64) {
        BEGUN.set(Some(Instant::now()));
        NEXT.set(u128::from(seed) << 64);
    }

    pub(crate) fn end() {
        BEGUN.set(None);
    }

    pub(super) fn now() -> Option<SystemTime> {
        BEGUN.get().map(|begun| UNIX_EPOCH + Duration::from_secs(1_700_000_000) + begun.elapsed())
    }

    pub(super) fn fresh() -> Option<u128> {
        BEGUN.get()?;
        // Writers count on from theirs.
        NEXT.set(NEXT.get() + (1 << 32));
        Some(NEXT.get())
    }
}

//! What is known of a server or a client beside its name.

/// A relative speed, exact to six decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speed(u64);

impl Speed {
    /// The speed of a server about which nothing else is known.
    pub const ONE: Self = Self(1_000_000);

    /// A speed of `millionths / 10⁶`; none if that is zero.
    pub fn from_millionths(millionths: u64) -> Option<Self> {
        (millionths > 0).then_some(Self(millionths))
    }

    /// The speed in millionths.
    pub fn millionths(self) -> u64 {
        self.0
    }
}

/// The state of a server before the batch starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Blocks per slot of time in each transfer.
    pub speed: Speed,
    /// Transfers at once.
    pub slots: u32,
    /// Bytes that the server has to move before it can serve this batch.
    pub backlog_bytes: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self { speed: Speed::ONE, slots: 1, backlog_bytes: 0 }
    }
}

/// What is known of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Transfers at once.
    pub slots: u32,
}

impl Default for Client {
    fn default() -> Self {
        Self { slots: 1 }
    }
}

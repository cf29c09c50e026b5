//! What happens while a data set is read, for whoever watches: progress bars, programs, and traces.
//!
//! The same type is written and read, one JSON object a line: `{"format":1,"at":0.25,"event":"down","server":…}`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The version of [`Line`].
pub const FORMAT: u32 = 1;

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line<'a> {
    /// The version of the format.
    pub format: u32,
    /// Seconds since the read began.
    pub at: f64,
    /// What happened.
    #[serde(flatten)]
    pub what: Happening<'a>,
}

/// Something that happened. Servers and objects are known by their names. Sizes are bytes, times are seconds since the
/// read began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Happening<'a> {
    /// It is known what is missing, of what is listed so far.
    Begun {
        objects: usize,
        bytes: u64,
        /// Objects that are there already.
        kept: usize,
        /// Bytes that an earlier read had received.
        resumed: u64,
        /// Bytes that are to be read.
        missing: u64,
        policy: Cow<'a, str>,
        servers: Cow<'a, [String]>,
    },
    /// More is listed. All that `begun` said is now this.
    Listed { objects: usize, bytes: u64, kept: usize, resumed: u64, missing: u64, servers: Cow<'a, [String]> },
    /// A server was measured, by reads that were needed anyway.
    Measured { server: Cow<'a, str>, bytes: u64, rate: u64 },
    /// There is a plan: what each server is to send, and at which rate. It takes `bound` seconds at least.
    Planned { bound: f64, servers: Vec<Share<'a>> },
    /// How much each server has sent, in the order of `begun` and `listed`. Bytes that were read twice count twice.
    Progress { received: u64, servers: Vec<u64> },
    /// A transfer is late at a server.
    Slow { server: Cow<'a, str> },
    /// A server failed too often, and is left alone for a while.
    Down { server: Cow<'a, str>, why: Cow<'a, str> },
    /// It gets another chance.
    Up { server: Cow<'a, str> },
    /// What had not started was planned again. The new plan is used if it ends earlier than the old one would now.
    PlannedAnew { number: u32, would_end: f64, ends: f64 },
    /// An object is complete, and has its name. It is verified if there was a checksum, of it or of all its parts.
    Done { key: Cow<'a, str>, verified: bool },
    /// An object arrived damaged, and is read again.
    Damaged { key: Cow<'a, str>, why: Cow<'a, str> },
    /// An object is not read.
    Failed { key: Cow<'a, str>, why: Cow<'a, str> },
    /// A transfer starts. Its number is unique within one plan.
    Start { transfer: u64, server: Cow<'a, str>, key: Cow<'a, str>, from: u64, to: u64, hedge: bool },
    /// A transfer is over, after this many bytes and seconds.
    End {
        transfer: u64,
        server: Cow<'a, str>,
        bytes: u64,
        seconds: f64,
        result: Ending,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Cow<'a, str>>,
    },
    /// A server was chosen for a range, among these candidates.
    Chose {
        key: Cow<'a, str>,
        from: u64,
        server: Cow<'a, str>,
        why: Choosing,
        candidates: Vec<Candidate<'a>>,
    },
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// What a plan has for a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share<'a> {
    /// The server.
    pub server: Cow<'a, str>,
    /// Its rate in bytes per second, as far as it is known.
    pub rate: u64,
    /// The bytes that it is to send; none if that is decided on the way.
    pub bytes: Option<u64>,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All of it arrived.
    Done,
    /// The server failed.
    Failed,
    /// Another server was faster, or its server is left alone.
    Withdrawn,
    /// The read was interrupted.
    Stopped,
}

/// Why a server was chosen on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choosing {
    /// It is the best to wait for.
    Queued,
    /// It is the best of those that are free.
    Free,
    /// The range is late elsewhere.
    Late,
}

/// A server that could be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate<'a> {
    /// The server.
    pub server: Cow<'a, str>,
    /// How long it would take for all that waits there, and this range.
    pub wait: f64,
    /// Bytes per second in one transfer, as learnt.
    pub rate: f64,
}

impl Happening<'_> {
    /// Whether it is about a single transfer or decision. These are many, and for traces only.
    pub fn is_detail(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::End { .. } | Self::Chose { .. })
    }
}

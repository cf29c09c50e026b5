//! Where does a write go? Papers 004 and 003.
//!
//! Every object has a [default server](default_server), computed from its name. A policy may send a write elsewhere if
//! that is worth it; the write is then *redirected*.
//!
//! * [`Placer`] – the state machine: windows of writes in, servers out. It keeps the log of what it sent where.
//! * [`rr`], [`mlml`], [`trh`], [`nltr`] – the policies of paper 004 §3.4; [`two_choice`] – what they are to replace
//!   (§2.2).
//! * [`hm_lru`] – paper 003 §4.6; [`hdfs_random`] – what HDFS does.
//!
//! In policies of paper 004 everything that a window writes to an object is one [`Step`] and goes to one place. Other
//! policies decide write by write. Several copies of a write are always on different servers. Paper 004 has only one
//! copy; the defaults of further copies are the servers after the first one's default.
//!
//! **Every decision can be explained**: [`Placer::trace`] keeps the latest decisions, each with the servers that the policy
//! compared and their figures. [`Counts`] has the numbers for a dashboard.

//! ```
//! use evenkeel::draw::Seeded;
//! use evenkeel::model::MemberId;
//! use evenkeel::observe::{Forget, HeatMap, ServerLog, Unit};
//! use evenkeel::place::{Options, Placer, Servers, Write};
//! use evenkeel::policy::placing;
//!
//! // Three servers, of which the first has much to do already.
//! let log = ServerLog::new([900, 0, 0], Unit::Mean, Forget::default());
//! let servers = Servers { log, heat: HeatMap::unknown(3, true) };
//! let (_, mlml) = placing().find(|(policy, _)| policy.is_called("mlml")).ok_or("no such policy")?;
//! let mut placer = Placer::new(mlml, Options::default(), servers)?;
//!
//! let write = Write { object: 7, default: MemberId(0), offset: 0, bytes: 100 };
//! let (mut draw, mut chosen) = (Seeded::new(1), Vec::new());
//! placer.set_up(MemberId(1), false)?;
//! placer.window(0, &[write], &mut draw, &mut chosen)?;
//! assert_eq!(chosen, [MemberId(2)], "the default is busy and another one is down");
//! // What it knows survives the program.
//! let kept = placer.snapshot();
//! placer.restore(kept)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod default;
pub mod hdfs_random;
pub mod hm_lru;
pub mod mlml;
pub mod nltr;
mod placer;
mod ranking;
pub mod rr;
mod spread;
mod step;
pub mod trh;
pub mod two_choice;

use std::fmt;
use std::ops::Range;

pub use default::{default_server, homes};
pub use placer::{Candidate, Counts, Decision, Placer, PlacerSnapshot, Servers};
pub use spread::Spread;
pub use step::{Step, Write, pieces};

use smallvec::SmallVec;

use self::ranking::Ranking;
use self::two_choice::Probing;
use crate::draw::Draw;
use crate::model::MemberId;
use crate::observe::SortKey;

/// [`nltr`] halves the servers at most this often: more servers cannot be distinguished.
pub const MAX_LEVELS: u32 = 32;

/// Parameters of the policies besides writes and servers. Policies ignore those that do not concern them.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Copies of each write.
    pub n_replicas: u32,
    /// How often [`nltr`] halves the servers.
    pub levels: u32,
    /// How much lighter than the default a server has to be, in bytes.
    pub threshold_bytes: u64,
    /// When a write is redirected.
    pub test: Test,
    /// How servers are sorted.
    pub sort_key: SortKey,
    /// Whether servers are sorted again for each step; otherwise once per window.
    pub resort: bool,
    /// How [`two_choice`] learns loads.
    pub probing: Probing,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            n_replicas: 1,
            levels: 2,
            threshold_bytes: 0,
            test: is_lighter,
            sort_key: SortKey::Load,
            resort: false,
            probing: Probing::default(),
        }
    }
}

/// Whether a write leaves its default server for another one, by the load of the default, the load of the other, and the
/// threshold.
pub type Test = fn(default: u128, other: u128, threshold_bytes: u64) -> bool;

/// The test of paper 004: whether the other server is lighter by more than the threshold.
pub fn is_lighter(default: u128, other: u128, threshold_bytes: u64) -> bool {
    // Without a subtraction, as the benefit may be negative.
    default > other.saturating_add(threshold_bytes.into())
}

/// Why writes cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PlaceError {
    #[error("there are no servers; name at least one")]
    NoServers,
    #[error("0 copies of a write were requested; request at least 1")]
    NoCopies,
    #[error("{n_replicas} copies need as many servers, but there are only {n_servers}; request fewer copies")]
    TooFewServers { n_replicas: u32, n_servers: u32 },
    #[error("{n_replicas} copies need as many servers, but only {n_up} are up; wait until others are back")]
    TooFewUp { n_replicas: u32, n_up: u32 },
    #[error("{levels} levels are too many; use at most {MAX_LEVELS}")]
    TooManyLevels { levels: u32 },
    #[error(
        "the server log has {n_in_log} servers, but the heat map has {n_in_map}; give both the same servers"
    )]
    OtherServers { n_in_log: usize, n_in_map: usize },
    #[error(
        "write {row} has default server {server}, but there are only {n_servers} servers; count them from 0"
    )]
    UnknownDefault { row: usize, server: u32, n_servers: u32 },
}

/// One copy of a step, about to be placed.
#[derive(Debug)]
pub struct Turn<'a> {
    /// How many steps of the window were decided before.
    pub place: usize,
    /// How many copies of this step were placed before.
    pub copy: u32,
    /// The length of the step.
    pub bytes: u128,
    /// Where this copy goes unless another server is better. This server is up and has no copy yet.
    pub default: MemberId,
    /// The servers that have a copy, and those that are down.
    pub taken: &'a [MemberId],
    /// What is known about all servers.
    pub servers: &'a Servers,
    /// The parameters.
    pub options: &'a Options,
}

impl Turn<'_> {
    /// Whether a server is up and has no copy yet.
    #[inline]
    fn is_free(&self, server: MemberId) -> bool {
        !self.taken.contains(&server)
    }

    /// The redirect test of paper 004: the copy goes to the target if that is worth it, otherwise to its default.
    fn worth(&self, target: MemberId) -> MemberId {
        let [default, other] = [self.default, target].map(|server| self.servers.log.load(server));
        let is_worth = (self.options.test)(default, other, self.options.threshold_bytes);
        if is_worth { target } else { self.default }
    }

    /// Draws two free servers from a part of the ranking, or returns the only free one there. If none is free there,
    /// returns the first free one of all.
    fn draw_two(&self, ranking: &Ranking, part: Range<usize>, draw: &mut dyn Draw) -> Drawn {
        let ranks = self.taken.iter().map(|&server| ranking.rank(server));
        let mut skip: Vec<usize> = ranks.filter(|rank| part.contains(rank)).collect();
        skip.sort_unstable();
        let order = ranking.order();
        let nth = |n: u32| {
            let place = part.start + n as usize;
            skip.iter().fold(place, |place, &taken| place + usize::from(taken <= place))
        };
        match (part.len() - skip.len()) as u32 {
            0 => order.iter().copied().find(|&server| self.is_free(server)).into_iter().collect(),
            1 => Drawn::from_slice(&[order[nth(0)]]),
            n_free => {
                let first = draw.below(n_free);
                let second = draw.below(n_free - 1);
                let second = second + u32::from(second >= first);
                Drawn::from([first, second].map(|n| order[nth(n)]))
            }
        }
    }

    /// The lightest of the drawn servers.
    fn lightest(&self, drawn: &[MemberId]) -> Option<MemberId> {
        drawn.iter().copied().min_by_key(|&server| (self.servers.log.load(server), server))
    }

    /// The loads of the drawn servers.
    fn loads_of(&self, drawn: &[MemberId]) -> Vec<(MemberId, u128)> {
        drawn.iter().map(|&server| (server, self.servers.log.load(server))).collect()
    }
}

/// One or two servers that were drawn.
type Drawn = SmallVec<[MemberId; 2]>;

/// A placement policy.
pub trait Place: fmt::Debug + Send {
    /// Whether everything that a window writes to one object goes to the same place.
    fn merges(&self) -> bool {
        true
    }

    /// Begins a window: puts its steps in the order in which they are decided.
    fn open(&mut self, _steps: &mut [Step], _servers: &Servers, _options: &Options) {}

    /// Chooses a server for a copy, one that has none yet.
    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId;

    /// The servers that the last [`place`](Self::place) compared, each with the figure it compared; the lowest is best.
    /// Called right after it with the same turn, if decisions are [traced](Placer::trace). A policy that compares nothing
    /// returns none.
    fn figures(&self, _turn: &Turn<'_>) -> Vec<(MemberId, u128)> {
        Vec::new()
    }

    /// How often servers have been asked for their loads so far.
    fn n_probes(&self) -> u64 {
        0
    }
}

/// Creates a policy for `n_servers` servers.
pub type PlaceFn = fn(&Options, n_servers: u32) -> Box<dyn Place>;

/// Draws a server that is not in `skip`, which is sorted, and adds it there. `None` if there is none.
fn draw_other(n_servers: usize, skip: &mut Vec<MemberId>, draw: &mut dyn Draw) -> Option<MemberId> {
    let n_free = n_servers.checked_sub(skip.len()).filter(|&n| n > 0)?;
    let mut drawn = MemberId(draw.below(n_free as u32));
    let mut at = 0;
    while at < skip.len() && skip[at] <= drawn {
        drawn.0 += 1;
        at += 1;
    }
    skip.insert(at, drawn);
    Some(drawn)
}

/// Sorts steps by decreasing length, then by object.
fn longest_first(steps: &mut [Step]) {
    steps.sort_unstable_by_key(|step| (std::cmp::Reverse(step.bytes), step.object));
}

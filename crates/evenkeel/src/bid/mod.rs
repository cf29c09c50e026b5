//! Clients and servers agree on replicas and order by bidding, without a central scheduler.
//!
//! This is HDLWF (highest degree, lowest workload first) of paper 000 §3, with its variants. In each round every client
//! bids for one of its pending requests at one of the servers that hold it. Every server grants one of the bids and
//! rejects the others. Two state machines, [`client::Client`] and [`server::Server`], exchange the messages below.
//! Their driver carries the messages and starts and ends the rounds. [`rounds::run`] is the synchronous driver that
//! planning uses; a live cluster drives the same machines.
//!
//! | policy | a client bids | a server grants |
//! |---|---|---|
//! | `hdlwf` | at the server with the lightest workload that it knows of | the client with the most pending blocks |
//! | `random-bid` (000 §4) | for a request and at a replica drawn at random | a bid drawn at random |
//! | `hdf-dist` (Durand et al., 000 §5.2) | as `random-bid` | the client with the most pending blocks, ties at random |
//! | `mpasses` (also Durand et al.) | as `hdf-dist`, and again in the same round if it was rejected | as `hdf-dist` |
//! | `hdlwf-rebid`, `hdlwf-multi` (000 §6, future work) | as `hdlwf`, again in the same round; at several servers at once | as `hdlwf` |
//!
//! Deviations from the paper, whose Figure 3 is incomplete: all workloads start at 0, and if ties went to the lowest
//! id, all clients would bid at the same server, which alone doubles the makespan. So ties are hashed. In the paper a
//! server that times out without a bid stops for good, and is missing when clients turn to it later. Here a server
//! stops when all its clients are done. Workloads and degrees are in blocks; with speeds and backlogs, workloads are
//! times.
//!
//! **Messages** may be delayed, duplicated, reordered or lost. A client numbers its bids at a server and has one open
//! at a time. Until that bid is answered, the client resends it and bids for the request nowhere else. A server answers
//! a bid that it has already decided with the same answer. So each request is granted exactly once, provided that some
//! messages get through. A message for another batch or another recipient changes nothing.
//!
//! **Machines** come and go. A server knows clients and requests only from their bids, and forgets a client that has
//! left. A server that restarts has forgotten everything and increments its *epoch*. A bid names the epoch it is meant
//! for: the new epoch grants nothing that was asked of the old one, but answers that the server has
//! [restarted](Restarted). A client that receives this answer, or whose driver reports the server as down, takes back
//! all requests that the server has not served yet, bids for them again, and begins its next *life* at that server. If
//! the server was only unreachable, the first message of the new life makes it drop what it granted to the former life.
//!
//! **Every decision can be explained**: both halves have `trace`, which keeps the latest decisions with all candidates and
//! their figures, and `counts`, the numbers for a dashboard.

//! ```
//! use evenkeel::bid::{Rules, client, server};
//! use evenkeel::draw::Ties;
//! use evenkeel::model::{BatchBuilder, ClientId, Cluster, ServerId};
//!
//! let mut batch = BatchBuilder::new();
//! batch.request("c0", 1, &["s0", "s1"])?;
//! let batch = batch.finish();
//! let cluster = Cluster::equal(&batch);
//! let rules = Rules::hdlwf(Ties::LowestId, 0);
//! let mut client = client::Client::new(&batch, &cluster, ClientId(0), &[0], rules);
//! // This server is up for the second time. The client does not know that yet.
//! let mut server = server::Server::new(ServerId(0), cluster.server(ServerId(0)).clone(), 2, rules);
//!
//! let (mut by_client, mut by_server) = (Vec::new(), Vec::new());
//! for (now_ns, round) in [(0, 0), (1_000_000, 1)] {
//!     client.on_event(now_ns, client::Event::Begin { round }, &mut by_client)?;
//!     for action in by_client.drain(..) {
//!         if let client::Action::Send { message, .. } = action {
//!             server.on_event(now_ns, server::Event::Received(message), &mut by_server)?;
//!         }
//!     }
//!     server.on_event(now_ns, server::Event::Close { round }, &mut by_server)?;
//!     for action in by_server.drain(..) {
//!         if let server::Action::Send { message, .. } = action {
//!             client.on_event(now_ns, client::Event::Received(message), &mut by_client)?;
//!         }
//!     }
//! }
//! // The first bid was answered by news of the restart, the second by a grant.
//! assert_eq!(client.won(), [client::Won { request: 0, server: ServerId(0), round: 1 }]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod client;
pub mod rounds;
pub mod server;

use crate::draw::Ties;
use crate::model::{ClientId, Fixed, ServerId};

/// The two ends of a message, and the life and epoch it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The bidding it belongs to.
    pub batch: u64,
    /// The client.
    pub client: ClientId,
    /// The server.
    pub server: ServerId,
    /// How often the client has given up its requests at this server.
    pub life: u32,
    /// The run of the server, counted from 1.
    pub epoch: u64,
}

/// A client asks a server to serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    /// The sender and the receiver.
    pub link: Link,
    /// The client's number for the request.
    pub request: u32,
    /// Its size.
    pub blocks: u64,
    /// Blocks that the client has not been granted yet.
    pub degree: u64,
    /// The number of the bid, counted from 1 in this life.
    pub turn: u32,
}

/// A server's decision about a bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The sender of the bid, and the server that decided.
    pub link: Link,
    /// The request that the bid is for.
    pub request: u32,
    /// The number of the bid.
    pub turn: u32,
    /// The round in which the request will be served; `None` if the bid was rejected.
    pub granted: Option<u32>,
    /// When the server will be done with everything it has granted (and, by some rules, with what it was asked for).
    pub workload: Fixed,
}

/// A client has no pending requests left. A server echoes the message when it has received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The client that is done, and the server that receives the message.
    pub link: Link,
    /// The number of its last bid there, since it may have to bid again.
    pub turn: u32,
}

/// A server's answer to a message that was meant for an earlier run of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarted {
    /// The link of that message, with the current epoch of the server.
    pub link: Link,
}

/// A message from a client to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ToServer {
    Bid(Bid),
    Done(Done),
}

impl ToServer {
    /// The two ends of the message.
    pub fn link(&self) -> Link {
        match self {
            Self::Bid(Bid { link, .. }) | Self::Done(Done { link, .. }) => *link,
        }
    }
}

/// A message from a server to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ToClient {
    Answer(Answer),
    Done(Done),
    Restarted(Restarted),
}

impl ToClient {
    /// The two ends of the message.
    pub fn link(&self) -> Link {
        match self {
            Self::Answer(Answer { link, .. })
            | Self::Done(Done { link, .. })
            | Self::Restarted(Restarted { link }) => *link,
        }
    }
}

/// A message that does not fit: it was late, duplicated, or meant for another recipient. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Stray {
    #[error("request {request} was already granted here; ignore the bid")]
    GrantedBefore { request: u32 },
    #[error("message {turn} of client {client} is out of turn; ignore it")]
    OutOfTurn { client: u32, turn: u32 },
    #[error("a message comes from an earlier life of client {client}; ignore it")]
    EarlierLife { client: u32 },
    #[error("a message belongs to batch {batch}, which is another one or over; ignore it")]
    OtherBatch { batch: u64 },
    #[error("a message belongs to epoch {epoch} of server {server}, which is not the current one; ignore it")]
    OtherEpoch { server: u32, epoch: u64 },
    #[error("a message is for client {client}; pass it to that client")]
    NotThisClient { client: u32 },
    #[error("a message is for server {server}; pass it to that server")]
    NotThisServer { server: u32 },
    #[error("server {server} answers bid {turn}, which is not open; ignore it")]
    NotAsked { server: u32, turn: u32 },
    #[error("a message comes from server {server}, which holds nothing for this client; ignore it")]
    UnknownServer { server: u32 },
    #[error("server {server} confirms that the client is done, but it is not; ignore it")]
    NotDone { server: u32 },
    #[error("request {request} of client {client} was served without a grant; ignore it")]
    NotGranted { client: u32, request: u32 },
    #[error("the time is already {now_ns} ns; pass events in order of time")]
    Past { now_ns: u64 },
}

/// How a client chooses the request and the server of its bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choose {
    /// The server with the lightest workload that the client knows of, and its oldest request there.
    Lightest(Ties),
    /// Both drawn at random.
    Lot,
}

/// Which bid a server grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Favour {
    /// That of the client with the most pending blocks.
    HighestDegree(Ties),
    /// That of the client with the most pending blocks, ties at random.
    HighestDegreeThenLot,
    /// One drawn at random.
    Lot,
}

/// Which workload a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// What it has granted.
    Granted,
    /// What it has granted, plus what it rejects now: a rejected client will come back.
    Wanted,
}

/// The rules of bidding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How clients bid.
    pub choose: Choose,
    /// Which bids servers favour.
    pub favour: Favour,
    /// Which workload servers report.
    pub tell: Tell,
    /// Simultaneous bids for each slot of a client; at least 1.
    pub bids: u32,
    /// How often a client may bid in a round until a bid is granted; at least 1.
    pub passes: u32,
    /// The seed of all random draws.
    pub seed: u64,
    /// Identifies this bidding: messages of others are refused as stray.
    pub batch: u64,
    /// A client resends a message that has not been answered after this time.
    pub patience_ns: u64,
}

/// The default time that clients wait for an answer: long against a round trip, short against an outage.
const PATIENCE_NS: u64 = 1_000_000_000;

impl Rules {
    /// HDLWF as in paper 000 §3.
    pub fn hdlwf(ties: Ties, seed: u64) -> Self {
        let (choose, favour) = (Choose::Lightest(ties), Favour::HighestDegree(ties));
        Self { choose, favour, ..Self::random_bid(seed) }
    }

    /// HDLWF where a rejected client bids again in the same round (paper 000 §6). Servers also report what they reject:
    /// when all of them grant something in every round, granted workloads alone no longer tell them apart.
    pub fn rebid(passes: u32, ties: Ties, seed: u64) -> Self {
        Self { tell: Tell::Wanted, passes, ..Self::hdlwf(ties, seed) }
    }

    /// HDLWF where a client bids at several servers at once (paper 000 §6). It may be granted more than its slots in a
    /// round, and then reads the requests in turn.
    pub fn several_bids(bids: u32, ties: Ties, seed: u64) -> Self {
        Self { bids, ..Self::hdlwf(ties, seed) }
    }

    /// Random of paper 000 §4.
    pub fn random_bid(seed: u64) -> Self {
        Self {
            choose: Choose::Lot,
            favour: Favour::Lot,
            tell: Tell::Granted,
            bids: 1,
            passes: 1,
            seed,
            batch: 0,
            patience_ns: PATIENCE_NS,
        }
    }

    /// HDF of Durand et al. (paper 000 §5.2). It does not know replicas; a client draws one of them at random.
    pub fn hdf_dist(seed: u64) -> Self {
        Self::mpasses(1, seed)
    }

    /// MPASSES of Durand et al. (paper 000 §5.2).
    pub fn mpasses(passes: u32, seed: u64) -> Self {
        Self { favour: Favour::HighestDegreeThenLot, passes, ..Self::random_bid(seed) }
    }
}

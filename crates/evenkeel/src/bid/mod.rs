//! Clients and servers agree on replicas and order by bidding, without a centre.
//!
//! HDLWF (highest degree, lowest workload first) of paper 000 §3, and its relatives. In each round every client bids for
//! one of its pending requests at one of the servers that hold it; every server grants one of the bids and rejects the
//! others. Two state machines, [`client::Client`] and [`server::Server`], exchange the messages below; whoever drives them
//! carries the messages and tells them when a round begins and ends. [`rounds::run`] is the synchronous driver that planning
//! uses; a live cluster drives the same machines.
//!
//! | policy | a client bids | a server grants |
//! |---|---|---|
//! | `hdlwf` | at the server with the lightest workload that it knows of | the client with the most pending blocks |
//! | `random-bid` (000 §4) | for a request and at a replica drawn by lot | a bid drawn by lot |
//! | `hdf-dist` (Durand et al., 000 §5.2) | as `random-bid` | the client with the most pending blocks, ties by lot |
//! | `mpasses` (the same) | as `hdf-dist`, and again in the same round if it was rejected | as `hdf-dist` |
//! | `hdlwf-rebid`, `hdlwf-multi` (000 §6, future work) | as `hdlwf`, again in the same round; at several servers at once | as `hdlwf` |
//!
//! Deviations from the paper, whose Figure 3 is not complete. All workloads are 0 at first, and with ties by lowest id all
//! clients run to the same server, which alone doubles the length; ties are hashed. A server whose time-out passes without a
//! bid ends for good and is missing when clients turn to it later; here it ends when all its clients are done.
//! Workloads and degrees are in blocks, with speeds and backlogs workloads are times.
//!
//! **Messages** may be late, doubled, overtake each other or be lost. A client numbers its bids at a server and has one
//! open at a time; until that is answered it sends the same again and bids for the request nowhere else. A server answers a
//! bid that it has decided just as before. So each request is granted exactly once, if only some messages get through.
//! What is of another batch, or for somebody else, changes nothing.
//!
//! **Machines** come and go. A server knows clients and requests only from their bids, and forgets a client that has left.
//! A server that restarts has forgotten everything and counts one *epoch* more. A bid names the epoch it is meant for: the
//! new one grants nothing that was asked of the old one, but answers that it has [restarted](Restarted). A client that
//! hears so, or whose driver says that a server is down, takes back all that is not served there yet, bids for it anew, and
//! begins its next *life* at that server. If the server was only out of reach, the first message of the new life tells it
//! to drop what it has granted to the former one.

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

/// The two ends of a message, and which of their lives it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// In which bidding.
    pub batch: u64,
    /// The client.
    pub client: ClientId,
    /// The server.
    pub server: ServerId,
    /// How often the client has given up what it had asked of this server.
    pub life: u32,
    /// Which run of the server this is, counted from 1.
    pub epoch: u64,
}

/// A client asks a server to serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    /// Who asks whom.
    pub link: Link,
    /// The client's number for the request.
    pub request: u32,
    /// Its size.
    pub blocks: u64,
    /// Blocks that the client has not been granted yet.
    pub degree: u64,
    /// The client's bids in this life are counted from 1.
    pub turn: u32,
}

/// A server has decided about a bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whose bid, and who has decided.
    pub link: Link,
    /// For which request.
    pub request: u32,
    /// The number of that bid.
    pub turn: u32,
    /// In which round the request will be served; `None` if the bid was rejected.
    pub granted: Option<u32>,
    /// When the server will be done with all that it has granted (and by some rules: with what it was asked for).
    pub workload: Fixed,
}

/// A client has nothing pending any more. A server says it back when it has heard it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Who is done, and who hears it.
    pub link: Link,
    /// The number of its last bid there, as it may have to bid again.
    pub turn: u32,
}

/// A server answers a message that was meant for an earlier run of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarted {
    /// The link of that message, with the epoch of the server as it is now.
    pub link: Link,
}

/// What a client sends to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ToServer {
    Bid(Bid),
    Done(Done),
}

impl ToServer {
    /// Its two ends.
    pub fn link(&self) -> Link {
        match self {
            Self::Bid(Bid { link, .. }) | Self::Done(Done { link, .. }) => *link,
        }
    }
}

/// What a server sends to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ToClient {
    Answer(Answer),
    Done(Done),
    Restarted(Restarted),
}

impl ToClient {
    /// Its two ends.
    pub fn link(&self) -> Link {
        match self {
            Self::Answer(Answer { link, .. })
            | Self::Done(Done { link, .. })
            | Self::Restarted(Restarted { link }) => *link,
        }
    }
}

/// A message that fits nothing: it was late, doubled, or never meant for whom it reached. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Stray {
    #[error("a bid for request {request}, which was granted here before")]
    GrantedBefore { request: u32 },
    #[error("message {turn} of client {client}, which is not its next one here")]
    OutOfTurn { client: u32, turn: u32 },
    #[error("a message of client {client} in an earlier life")]
    EarlierLife { client: u32 },
    #[error("a message of batch {batch}, which is another or over")]
    OtherBatch { batch: u64 },
    #[error("a message of epoch {epoch} of server {server}, which is not the present one")]
    OtherEpoch { server: u32, epoch: u64 },
    #[error("a message for client {client}, which is another")]
    NotThisClient { client: u32 },
    #[error("a message for server {server}, which is another")]
    NotThisServer { server: u32 },
    #[error("an answer of server {server} to bid {turn}, which is not open")]
    NotAsked { server: u32, turn: u32 },
    #[error("a message of server {server}, which holds nothing of this client")]
    UnknownServer { server: u32 },
    #[error("server {server} has heard that the client is done, but it is not")]
    NotDone { server: u32 },
    #[error("request {request} of client {client} was served, but is not granted")]
    NotGranted { client: u32, request: u32 },
    #[error("it is later than that: {now_ns} ns")]
    Past { now_ns: u64 },
}

/// For which request, and at which server, a client bids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choose {
    /// At the server with the lightest workload that the client knows of; there for its oldest request.
    Lightest(Ties),
    /// Both drawn by lot.
    Lot,
}

/// Whose bid a server grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Favour {
    /// Of the client with the most pending blocks.
    HighestDegree(Ties),
    /// The same, ties by lot.
    HighestDegreeThenLot,
    /// One drawn by lot.
    Lot,
}

/// What servers tell of their workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// What they have granted.
    Granted,
    /// That, and what they have to turn away now: who was turned away will come back.
    Wanted,
}

/// The rules of the game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How clients bid.
    pub choose: Choose,
    /// Whom servers favour.
    pub favour: Favour,
    /// Which workload servers tell.
    pub tell: Tell,
    /// Bids at once, for each slot of a client; at least 1.
    pub bids: u32,
    /// How often a client may bid in a round until it is granted something; at least 1.
    pub passes: u32,
    /// Whatever is drawn depends on it.
    pub seed: u64,
    /// Tells this bidding from others: messages of others are astray.
    pub batch: u64,
    /// A client sends again what was not answered after so long.
    pub patience_ns: u64,
}

/// How long clients wait for an answer unless told otherwise: long against a round trip, short against an outage.
const PATIENCE_NS: u64 = 1_000_000_000;

impl Rules {
    /// HDLWF as in paper 000 §3.
    pub fn hdlwf(ties: Ties, seed: u64) -> Self {
        let (choose, favour) = (Choose::Lightest(ties), Favour::HighestDegree(ties));
        Self { choose, favour, ..Self::random_bid(seed) }
    }

    /// HDLWF where who is rejected bids again in the same round (paper 000 §6). Servers tell what they turn away as well:
    /// when all of them grant something in every round, what they have granted tells them apart no more.
    pub fn rebid(passes: u32, ties: Ties, seed: u64) -> Self {
        Self { tell: Tell::Wanted, passes, ..Self::hdlwf(ties, seed) }
    }

    /// HDLWF where a client bids at several servers at once (paper 000 §6). It may be granted more than it has slots for in
    /// a round, and takes it in turn.
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

    /// HDF of Durand et al. (paper 000 §5.2). It knows no replicas; a client draws one of them.
    pub fn hdf_dist(seed: u64) -> Self {
        Self::mpasses(1, seed)
    }

    /// MPASSES of Durand et al. (paper 000 §5.2).
    pub fn mpasses(passes: u32, seed: u64) -> Self {
        Self { favour: Favour::HighestDegreeThenLot, passes, ..Self::random_bid(seed) }
    }
}

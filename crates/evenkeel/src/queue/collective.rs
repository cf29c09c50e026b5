//! A whole problem of collective I/O: which requests wait at which server, and when applications complete.

use crate::model::{MAX_REQUESTS, Ratio, ServerId};

use super::shuffle;

/// Index of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppId(pub u32);

impl AppId {
    /// The id as an array index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an aggregator requests from a server, with the hints that the paper sends along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The application it belongs to.
    pub app: AppId,
    /// The server where it waits.
    pub server: ServerId,
    /// Where in its file it starts; orders the requests of an application.
    pub offset: u64,
    /// How long the server takes to read it.
    pub read_ns: u64,
    /// How long the aggregator then takes to send all processes their parts: T of formula (1).
    pub shuffle_ns: u64,
    /// Acceptable delay, formula (3).
    pub ad_ns: u64,
    /// Relative acceptable delay: its rank within the application, 0 for the slowest shuffle.
    pub rad: u32,
}

/// When an application is done. The paper uses both: the first in §II, the second in §IV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// Each aggregator shuffles as soon as it has its data: max (finish + shuffle).
    #[default]
    NoBarrier,
    /// Shuffles start when all data have arrived: max finish + max shuffle.
    Barrier,
}

impl Model {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoBarrier => "no-barrier",
            Self::Barrier => "barrier",
        }
    }
}

/// What is wrong with the requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum QueueError {
    #[error("request {row} belongs to application {app}, but there are only {n_apps}; count them from 0")]
    UnknownApp { row: usize, app: u32, n_apps: u32 },
    #[error("request {row} waits at server {server}, but there are only {n_servers}; count them from 0")]
    UnknownServer { row: usize, server: u32, n_servers: u32 },
    #[error("more than {MAX_REQUESTS} requests; split them")]
    TooManyRequests,
}

/// All waiting requests, at all servers.
#[derive(Clone, Debug)]
pub struct Collective {
    requests: Vec<Request>,
    /// The longest shuffle of each application.
    slowest_ns: Vec<u64>,
    arrivals: Orders,
}

/// The order in which each server serves its requests. Requests are identified by their row in the [`Collective`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders(pub(super) Vec<Vec<u32>>);

impl Orders {
    /// The requests of each server, by server, in order of service.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl Collective {
    /// Takes the requests in order of arrival. Computes their hints, `ad_ns` and `rad`.
    pub fn new(n_apps: u32, n_servers: u32, mut requests: Vec<Request>) -> Result<Self, QueueError> {
        if requests.len() > MAX_REQUESTS {
            return Err(QueueError::TooManyRequests);
        }
        let mut arrivals = vec![Vec::new(); n_servers as usize];
        let mut rows_of = vec![Vec::new(); n_apps as usize];
        for (row, request) in requests.iter().enumerate() {
            let Request { app: AppId(app), server: ServerId(server), .. } = *request;
            let rows = rows_of.get_mut(app as usize).ok_or(QueueError::UnknownApp { row, app, n_apps })?;
            rows.push(row);
            let queue = arrivals.get_mut(server as usize);
            queue.ok_or(QueueError::UnknownServer { row, server, n_servers })?.push(row as u32);
        }
        let mut slowest_ns = Vec::with_capacity(rows_of.len());
        for rows in &rows_of {
            let shuffles: Vec<u64> = rows.iter().map(|&row| requests[row].shuffle_ns).collect();
            let delays = shuffle::acceptable_delays(&shuffles);
            for ((&row, &ad_ns), rad) in rows.iter().zip(&delays).zip(shuffle::ranks(&delays)) {
                (requests[row].ad_ns, requests[row].rad) = (ad_ns, rad);
            }
            slowest_ns.push(shuffles.into_iter().max().unwrap_or(0));
        }
        Ok(Self { requests, slowest_ns, arrivals: Orders(arrivals) })
    }

    /// All requests, hints included, in order of arrival.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The number of applications.
    pub fn n_apps(&self) -> usize {
        self.slowest_ns.len()
    }

    /// The number of servers.
    pub fn n_servers(&self) -> usize {
        self.arrivals.0.len()
    }

    /// Each server's requests in order of arrival.
    pub fn arrivals(&self) -> &Orders {
        &self.arrivals
    }

    /// The longest shuffle of `app`.
    pub(super) fn slowest_ns(&self, app: AppId) -> u64 {
        self.slowest_ns[app.index()]
    }

    /// The orders if every server decides alone. `decide` gets the server's requests in order of arrival and returns
    /// which of them is first, second and so on.
    pub(super) fn each_server(&self, decide: impl Fn(&[Request]) -> Vec<usize>) -> Orders {
        let order = |rows: &Vec<u32>| {
            let requests: Vec<Request> = rows.iter().map(|&row| self.requests[row as usize]).collect();
            decide(&requests).into_iter().map(|place| rows[place]).collect()
        };
        Orders(self.arrivals.0.iter().map(order).collect())
    }

    /// When each application is done if the servers follow `orders`, which must be of these requests. An application
    /// without requests is done at 0.
    pub fn completions(&self, orders: &Orders, model: Model) -> Vec<u128> {
        let mut done = vec![0; self.n_apps()];
        for queue in orders.iter() {
            let mut finish_ns = 0;
            for &row in queue {
                let request = &self.requests[row as usize];
                finish_ns += u128::from(request.read_ns);
                let shuffle_ns = match model {
                    Model::NoBarrier => request.shuffle_ns,
                    Model::Barrier => self.slowest_ns(request.app),
                };
                let done = &mut done[request.app.index()];
                *done = (*done).max(finish_ns + u128::from(shuffle_ns));
            }
        }
        done
    }
}

/// The mean completion time; 0 if there are none.
pub fn mean_ns(completions: &[u128]) -> Ratio {
    // Those of a `Collective` fit: at most 2³⁰ times as many reads and a shuffle of 64 bits.
    let sum = completions.iter().fold(0, |sum: u128, &done| sum.saturating_add(done));
    Ratio::new(sum, completions.len() as u64)
}

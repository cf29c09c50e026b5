//! Any selection over time: at each scheduling point it chooses again for what is pending and what was taken back.
//!
//! Requests arrive, wait at the server chosen for them, are started by it one by one, and complete. A scheduling point
//! takes back some of the waiting requests and selects for them together with those that have arrived since. The blocks
//! that stay at a server, waiting or in service, are its backlog. AEQUI (paper 001 §3.2) is [`TakeBack::Overload`] with
//! [`aequi::fill`]; replanning everything that has not started is [`TakeBack::Everything`] with any other selection.
//! What is in service never moves.
//!
//! This is the centre of paper 001: it holds whole requests back until a server is free, and any selection is its
//! policy. The executor plans again as well (`run/replan.rs`), but answers another question: whether the rest of a plan
//! in flight, in pieces and by learnt speeds, would end earlier elsewhere. It asks its driver for that plan, takes it
//! only if it is better, and moves parts of requests. What both do, choosing for waiting work on servers with a backlog,
//! is the selection that they call.

use std::collections::VecDeque;

use super::aequi;
use super::whole::unsplit;
use crate::model::{Batch, Choice, Cluster, ServerId};

/// What a scheduling point takes back from the servers before it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeBack {
    /// Nothing: what was chosen stays.
    Nothing,
    /// The youngest requests of servers that are above the average, if they have another replica.
    Overload,
    /// Everything that has not started.
    Everything,
}

/// A request that a scheduling point gives to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The request's row in the batch.
    pub request: u32,
    /// Where it waited so far; `None` if it was pending.
    pub from: Option<ServerId>,
    /// Where it waits from now on.
    pub to: ServerId,
}

/// An event that does not fit what came before. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadTurn {
    #[error("there is no request {0}; put all requests that will arrive into the batch")]
    NoSuchRequest(u32),
    #[error("there is no server number {0}")]
    NoSuchServer(u32),
    #[error("request {0} has already arrived; report each arrival once")]
    ArrivedTwice(u32),
    #[error("request {0} is not in service; report the end only of requests that were started")]
    NotInService(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Pending,
    Waiting(ServerId),
    InService(ServerId),
    Done,
}

/// Requests that are waiting or in service, and the selection that is called at each scheduling point.
pub struct Replanned<'a, F> {
    batch: &'a Batch,
    cluster: &'a Cluster,
    take_back: TakeBack,
    select: F,
    states: Vec<State>,
    /// Arrival rank of each request.
    arrivals: Vec<u32>,
    n_arrived: u32,
    /// Requests that have arrived and have no server yet, oldest first.
    pending: Vec<u32>,
    /// What waits at each server, oldest first.
    waiting: Vec<VecDeque<u32>>,
    /// Blocks at each server, waiting or in service.
    loads: Vec<u64>,
}

impl<F> std::fmt::Debug for Replanned<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replanned").field("pending", &self.pending).field("loads", &self.loads).finish()
    }
}

impl<'a, F: FnMut(&Batch, &Cluster) -> Choice> Replanned<'a, F> {
    /// `batch` has all requests that will ever arrive. None has arrived yet.
    pub fn new(batch: &'a Batch, cluster: &'a Cluster, take_back: TakeBack, select: F) -> Self {
        Self {
            batch,
            cluster,
            take_back,
            select,
            states: vec![State::Unknown; batch.n_requests()],
            arrivals: vec![0; batch.n_requests()],
            n_arrived: 0,
            pending: Vec::new(),
            waiting: vec![VecDeque::new(); batch.n_servers()],
            loads: vec![0; batch.n_servers()],
        }
    }

    /// Records that a request has arrived. It waits for the next scheduling point.
    pub fn arrived(&mut self, request: u32) -> Result<(), BadTurn> {
        match self.states.get_mut(request as usize) {
            None => Err(BadTurn::NoSuchRequest(request)),
            Some(state @ State::Unknown) => {
                *state = State::Pending;
                self.n_arrived += 1;
                self.arrivals[request as usize] = self.n_arrived;
                self.pending.push(request);
                Ok(())
            }
            Some(_) => Err(BadTurn::ArrivedTwice(request)),
        }
    }

    /// Starts the oldest request that waits at a server, if there is one.
    pub fn start(&mut self, server: ServerId) -> Result<Option<u32>, BadTurn> {
        let waiting = self.waiting.get_mut(server.index()).ok_or(BadTurn::NoSuchServer(server.0))?;
        let request = waiting.pop_front();
        if let Some(request) = request {
            self.states[request as usize] = State::InService(server);
        }
        Ok(request)
    }

    /// Records that a request in service is done.
    pub fn done(&mut self, request: u32) -> Result<(), BadTurn> {
        match self.states.get(request as usize) {
            None => Err(BadTurn::NoSuchRequest(request)),
            Some(&State::InService(server)) => {
                self.states[request as usize] = State::Done;
                self.loads[server.index()] -= self.batch.blocks(request as usize);
                Ok(())
            }
            Some(_) => Err(BadTurn::NotInService(request)),
        }
    }

    /// What waits at a server, oldest first.
    pub fn waiting(&self, server: ServerId) -> impl Iterator<Item = u32> {
        self.waiting.get(server.index()).into_iter().flatten().copied()
    }

    /// Runs a scheduling point. Returns which requests moved to which server; those that stay are not listed.
    pub fn replan(&mut self) -> Vec<Move> {
        self.replan_slowed(|_| 1.0)
    }

    /// As [`Self::replan`], with the factor by which each server is known to be slower than stated.
    pub fn replan_slowed(&mut self, factor: impl Fn(ServerId) -> f64) -> Vec<Move> {
        self.take_back();
        let pending = std::mem::take(&mut self.pending);
        let batch = self.batch.subset(&pending);
        let cluster = self.cluster.with_more_backlog(&self.loads).slowed(&batch, factor);
        let choice = unsplit(&batch, &cluster, (self.select)(&batch, &cluster));
        let mut moves = Vec::new();
        for (request, to) in pending.into_iter().zip(choice.servers) {
            let before = std::mem::replace(&mut self.states[request as usize], State::Waiting(to));
            let from = if let State::Waiting(server) = before { Some(server) } else { None };
            self.waiting[to.index()].push_back(request);
            self.loads[to.index()] += self.batch.blocks(request as usize);
            if from != Some(to) {
                moves.push(Move { request, from, to });
            }
        }
        moves
    }

    /// Makes what is taken back pending again, behind the others unless everything is taken back. Where it waited is
    /// still known.
    fn take_back(&mut self) {
        match self.take_back {
            TakeBack::Nothing => {}
            TakeBack::Everything => {
                let mut taken: Vec<u32> = self.waiting.iter_mut().flat_map(|w| w.drain(..)).collect();
                taken.sort_unstable_by_key(|&request| self.arrivals[request as usize]);
                for &request in &taken {
                    self.leave(request);
                }
                // They came before what has arrived since.
                taken.append(&mut self.pending);
                self.pending = taken;
            }
            TakeBack::Overload => {
                let pending = self.pending.iter().map(|&i| self.batch.blocks(i as usize)).sum();
                let backlogs = self.cluster.servers().iter().map(|server| server.backlog);
                let loads = self.loads.iter().zip(backlogs);
                let loads: Vec<u128> =
                    loads.map(|(&load, backlog)| u128::from(load) + u128::from(backlog)).collect();
                for (server, excess) in aequi::overload(&loads, pending) {
                    for request in self.youngest_movable(server, excess) {
                        self.leave(request);
                        self.pending.push(request);
                    }
                }
            }
        }
    }

    /// Takes the youngest waiting requests that have another replica off a server's list, at most `most_blocks` blocks.
    fn youngest_movable(&mut self, server: ServerId, most_blocks: u128) -> Vec<u32> {
        let mut left = most_blocks;
        let mut taken = Vec::new();
        let mut stay = VecDeque::new();
        for request in self.waiting[server.index()].drain(..).rev() {
            let blocks = u128::from(self.batch.blocks(request as usize));
            if (1..=left).contains(&blocks) && self.batch.replicas().of(request as usize).len() > 1 {
                left -= blocks;
                taken.push(request);
            } else {
                stay.push_front(request);
            }
        }
        self.waiting[server.index()] = stay;
        taken
    }

    fn leave(&mut self, request: u32) {
        if let State::Waiting(server) = self.states[request as usize] {
            self.loads[server.index()] -= self.batch.blocks(request as usize);
        }
    }
}

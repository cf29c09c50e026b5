//! `two-choice`: asks the default server and a random other one for their loads, and sends the write to the lighter.
//!
//! The authors' earlier scheduler, paper 004 §2.2, which the log is to replace: it needs two probes, four messages, for
//! each write. If loads are equal, the default is taken. There is no threshold. If there is no other server, none is
//! asked.
//!
//! Its two options, which the paper only outlines, are in [`Probing`]. *Collaborative probes*: all writers share an
//! answer for a while, so fewer probes are needed, but meanwhile they all choose the server that was light.
//! *Pre-assigning*: what is promised to a server counts as its load before it arrives. In the paper servers predict
//! what they will be chosen for; here they are notified. The paper's times are clock times; writes have none, so time
//! is counted in writes.

use std::collections::VecDeque;

use super::{Place, Turn, draw_other};
use crate::draw::Draw;
use crate::model::MemberId;

/// How writers learn loads. By default each write probes for itself, after all earlier writes have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probing {
    /// For how many writes an answer is shared among all writers, including the one that asked. With 0, it is used by
    /// that one alone, for one copy.
    pub shared_writes: u32,
    /// How many writes are in flight when one is placed: servers have not received them yet.
    pub writes_in_flight: u32,
    /// Whether what is promised to a server counts at once, both in its answers and in shared answers.
    pub pre_assign: bool,
}

/// What a server answered, and the first write for which the answer is no longer valid.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    load: u128,
    end: u64,
}

/// The policy.
#[derive(Debug)]
pub struct TwoChoice {
    probing: Probing,
    /// The number of the write being placed, from 1 on, used as the time.
    now: u64,
    /// The last answer of each server.
    answers: Vec<Answer>,
    /// Writes that have not arrived, oldest first, and how many of their bytes go to each server.
    in_flight: VecDeque<(u64, MemberId, u128)>,
    bytes_in_flight: Vec<u128>,
    n_probes: u64,
    /// The default and the other server with their loads, as last compared.
    compared: Option<[(MemberId, u128); 2]>,
    skip: Vec<MemberId>,
}

impl TwoChoice {
    /// A policy for `n_servers` servers.
    pub fn new(probing: Probing, n_servers: u32) -> Self {
        Self {
            probing,
            now: 0,
            answers: vec![Answer::default(); n_servers as usize],
            in_flight: VecDeque::new(),
            bytes_in_flight: vec![0; n_servers as usize],
            n_probes: 0,
            compared: None,
            skip: Vec::new(),
        }
    }

    /// Advances to the next write; earlier ones arrive.
    fn tick(&mut self) {
        self.now += 1;
        let first_in_flight = self.now.saturating_sub(self.probing.writes_in_flight.into());
        while let Some(&(_, server, bytes)) =
            self.in_flight.front().filter(|(write, ..)| *write < first_in_flight)
        {
            self.bytes_in_flight[server.index()] -= bytes;
            self.in_flight.pop_front();
        }
    }

    /// The load of a server as the writer knows it. Probes the server if there is no recent answer.
    fn known_load(&mut self, turn: &Turn<'_>, server: MemberId) -> u128 {
        let answer = &mut self.answers[server.index()];
        if self.now >= answer.end {
            self.n_probes += 1;
            let promised = turn.servers.log.load(server);
            let load = match self.probing.pre_assign {
                true => promised,
                // Less may be left than was sent, if it was reported as done.
                false => promised.saturating_sub(self.bytes_in_flight[server.index()]),
            };
            *answer = Answer { load, end: self.now + u64::from(self.probing.shared_writes) };
        }
        answer.load
    }

    fn lighter(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        self.skip.clear();
        self.skip.extend(turn.taken.iter().chain([&turn.default]));
        self.skip.sort_unstable();
        self.compared = None;
        let Some(other) = draw_other(self.answers.len(), &mut self.skip, draw) else { return turn.default };
        let compared = [turn.default, other].map(|server| (server, self.known_load(turn, server)));
        self.compared = Some(compared);
        let [(_, of_default), (_, of_other)] = compared;
        if of_other < of_default { other } else { turn.default }
    }

    /// Records that a copy is in flight to a server.
    fn send(&mut self, server: MemberId, bytes: u128) {
        self.in_flight.push_back((self.now, server, bytes));
        self.bytes_in_flight[server.index()] += bytes;
        if self.probing.pre_assign {
            let known = &mut self.answers[server.index()].load;
            *known = known.saturating_add(bytes);
        }
    }
}

impl Place for TwoChoice {
    fn merges(&self) -> bool {
        false
    }

    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        if turn.copy == 0 {
            self.tick();
        }
        let server = self.lighter(turn, draw);
        self.send(server, turn.bytes);
        server
    }

    /// The loads that the writer knew.
    fn figures(&self, _: &Turn<'_>) -> Vec<(MemberId, u128)> {
        self.compared.into_iter().flatten().collect()
    }

    fn n_probes(&self) -> u64 {
        self.n_probes
    }
}

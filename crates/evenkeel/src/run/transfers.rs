//! The transfers in flight, found by their numbers.

use super::gauge::Nanoblocks;
use super::{RequestId, TransferId};
use crate::model::{ClientId, ServerId};

/// The low bits of a transfer's number are its place, and the bits above are a counter: numbers rise, and are found
/// without a search.
const PLACE_BITS: u32 = 28;

/// A transfer in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) piece: u32,
    /// What must be known about the piece when the transfer is over. The piece itself is no longer in the cache by
    /// then.
    pub(super) request: u32,
    pub(super) id: RequestId,
    pub(super) client: ClientId,
    /// Where in the piece it begins, and how many blocks it is to move.
    pub(super) from: Nanoblocks,
    pub(super) size: Nanoblocks,
    pub(super) due_ns: u64,
    pub(super) server: ServerId,
    pub(super) started_ns: u64,
    /// When it was last heard from, and how much it had moved by then.
    pub(super) heard_ns: u64,
    pub(super) moved: Nanoblocks,
    /// How long it was expected to take.
    pub(super) expected_ns: u64,
    /// When to check it next: it is late by then.
    pub(super) late_ns: u64,
    /// The time from which it may be hedged.
    pub(super) hedge_ns: u64,
    /// Whether the piece is all of its request.
    pub(super) is_alone: bool,
    /// Another transfer of the same piece.
    pub(super) twin: Option<TransferId>,
}

/// The number of no transfer.
const NOBODY: TransferId = TransferId(u64::MAX);

/// All transfers in flight.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// The number of the transfer at each place. Stored apart, so that it stays in the cache: most timers ask only
    /// whether their transfer is over.
    numbers: Vec<TransferId>,
    places: Vec<Running>,
    free: Vec<u32>,
    n_started: u64,
}

impl Transfers {
    /// The number of transfers in flight.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The number of transfers ever started.
    pub(super) fn n_started(&self) -> u64 {
        self.n_started
    }

    /// Adds a transfer and returns its number.
    pub(super) fn insert(&mut self, run: Running) -> TransferId {
        let number = |place: u32| TransferId(self.n_started << PLACE_BITS | u64::from(place));
        let number = if let Some(place) = self.free.pop() {
            let number = number(place);
            (self.numbers[place as usize], self.places[place as usize]) = (number, run);
            number
        } else {
            let number = number(self.places.len() as u32);
            self.numbers.push(number);
            self.places.push(run);
            number
        };
        self.n_started += 1;
        number
    }

    /// Whether a transfer has ever had this number, or might have.
    pub(super) fn was_started(&self, number: TransferId) -> bool {
        number.0 >> PLACE_BITS < self.n_started
    }

    /// The place of a transfer in flight.
    fn place(&self, number: TransferId) -> Option<usize> {
        let place = (number.0 & ((1 << PLACE_BITS) - 1)) as usize;
        (number != NOBODY && self.numbers.get(place) == Some(&number)).then_some(place)
    }

    pub(super) fn get(&self, number: TransferId) -> Option<&Running> {
        self.place(number).map(|place| &self.places[place])
    }

    pub(super) fn get_mut(&mut self, number: TransferId) -> Option<&mut Running> {
        self.place(number).map(|place| &mut self.places[place])
    }

    /// The transfers that match, with their numbers, in no meaningful order.
    pub(super) fn filtered(&self, is_asked: impl Fn(&Running) -> bool) -> Vec<(TransferId, Running)> {
        self.iter().filter(|(_, run)| is_asked(run)).map(|(number, run)| (number, *run)).collect()
    }

    /// All transfers with their numbers, in no meaningful order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TransferId, &Running)> {
        self.numbers.iter().copied().zip(&self.places).filter(|&(number, _)| number != NOBODY)
    }

    pub(super) fn remove(&mut self, number: TransferId) -> Option<Running> {
        let place = self.place(number)?;
        self.numbers[place] = NOBODY;
        self.free.push(place as u32);
        Some(self.places[place])
    }
}

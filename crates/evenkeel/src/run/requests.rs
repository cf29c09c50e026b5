//! The open requests. Memory follows these, not all requests ever seen.

use std::ops::{Index, IndexMut};

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::RequestId;
use super::lists::NONE;
use crate::graph::sets::bits::Bits;
use crate::model::{ClientId, ServerId};

/// What is known about an open request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) client: ClientId,
    pub(super) blocks: u64,
    /// The servers that hold a replica, as far as is known.
    pub(super) holders: SmallVec<[ServerId; 4]>,
    /// One piece of the ring of its pieces.
    pub(super) first: u32,
    /// Pieces that are not over.
    pub(super) n_left: u32,
    pub(super) n_failures: u32,
    pub(super) is_hedged: bool,
}

/// All open requests. When one is over, another takes its place.
#[derive(Debug, Default)]
pub(super) struct Requests {
    places: Vec<Request>,
    free: Vec<u32>,
    /// Which places are taken. Stored apart, so that it stays in the cache.
    taken: Bits,
    /// The places of requests that are not at the place of their own number, as the rows of a plan are.
    elsewhere: HashMap<RequestId, u32>,
}

impl Requests {
    pub(super) fn with_capacity(n: usize) -> Self {
        Self { places: Vec::with_capacity(n), ..Self::default() }
    }

    /// The number of open requests.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Adds a request that is not open, and returns its place.
    pub(super) fn insert(
        &mut self,
        id: RequestId,
        client: ClientId,
        blocks: u64,
        holders: &[ServerId],
    ) -> u32 {
        let holders = SmallVec::from_slice(holders);
        let new =
            Request { id, client, blocks, holders, first: NONE, n_left: 0, n_failures: 0, is_hedged: false };
        let place = if let Some(place) = self.free.pop() {
            self[place] = new;
            place
        } else {
            self.places.push(new);
            self.taken.grow(self.places.len());
            self.places.len() as u32 - 1
        };
        self.taken.insert(place);
        if id.0 != u64::from(place) {
            self.elsewhere.insert(id, place);
        }
        place
    }

    /// The place of a request, if it is open.
    pub(super) fn find(&self, id: RequestId) -> Option<u32> {
        let own = usize::try_from(id.0).ok().and_then(|place| self.places.get(place));
        match own {
            Some(request) if request.id == id && self.taken.has(id.0 as u32) => Some(id.0 as u32),
            _ => self.elsewhere.get(&id).copied(),
        }
    }

    /// The open requests, by place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Request)> {
        (0..).zip(&self.places).filter(|&(place, _)| self.taken.has(place))
    }

    /// Whether the place has an open request.
    pub(super) fn is_open(&self, place: u32) -> bool {
        self.taken.has(place)
    }

    /// Frees the place of the request with this number, without reading the request.
    pub(super) fn remove(&mut self, place: u32, id: RequestId) {
        self.taken.remove(place);
        if id.0 != u64::from(place) {
            self.elsewhere.remove(&id);
        }
        self.free.push(place);
    }
}

impl Index<u32> for Requests {
    type Output = Request;

    fn index(&self, place: u32) -> &Request {
        &self.places[place as usize]
    }
}

impl IndexMut<u32> for Requests {
    fn index_mut(&mut self, place: u32) -> &mut Request {
        &mut self.places[place as usize]
    }
}

//! A set of numbers with removal of any member and random draws.

/// Some of the numbers below a bound. Their order has no meaning, but is the same for the same history.
#[derive(Debug)]
pub(crate) struct Pool {
    members: Vec<u32>,
    /// The place of each member; arbitrary for other numbers.
    places: Vec<u32>,
}

impl Pool {
    /// The wanted numbers below `n`.
    pub(crate) fn new(n: usize, is_wanted: impl Fn(u32) -> bool) -> Self {
        let mut pool = Self { members: Vec::new(), places: vec![0; n] };
        (0..n as u32).filter(|&number| is_wanted(number)).for_each(|number| pool.insert(number));
        pool
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    /// Adds a number that is not a member.
    pub(crate) fn insert(&mut self, number: u32) {
        self.places[number as usize] = self.members.len() as u32;
        self.members.push(number);
    }

    /// Removes a member.
    pub(crate) fn remove(&mut self, number: u32) {
        let place = self.places[number as usize];
        self.members.swap_remove(place as usize);
        if let Some(&moved) = self.members.get(place as usize) {
            self.places[moved as usize] = place;
        }
    }
}

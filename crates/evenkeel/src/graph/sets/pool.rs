//! A set of numbers from which any can be taken out, and of which any can be drawn.

/// Some of the numbers below a bound, in no order that means anything, but the same for the same history.
#[derive(Debug)]
pub(crate) struct Pool {
    members: Vec<u32>,
    /// Where each member is; for others anything.
    places: Vec<u32>,
}

impl Pool {
    /// Those of so many numbers that are wanted.
    pub(crate) fn new(n: usize, is_wanted: impl Fn(u32) -> bool) -> Self {
        let mut pool = Self { members: Vec::new(), places: vec![0; n] };
        (0..n as u32).filter(|&number| is_wanted(number)).for_each(|number| pool.insert(number));
        pool
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    /// Adds a number that is not in.
    pub(crate) fn insert(&mut self, number: u32) {
        self.places[number as usize] = self.members.len() as u32;
        self.members.push(number);
    }

    /// Takes a number out that is in.
    pub(crate) fn remove(&mut self, number: u32) {
        let place = self.places[number as usize];
        self.members.swap_remove(place as usize);
        if let Some(&moved) = self.members.get(place as usize) {
            self.places[moved as usize] = place;
        }
    }
}
